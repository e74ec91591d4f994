"""Reads finished runs of ``train.disentangle``, and checks that they can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from lsar_jax import EncoderSpec, Transform
from lsar_jax.checks import errors_of
from lsar_jax.corpora.tables import Data
from lsar_jax.embeddings import job
from lsar_jax.files import read_json
from train.text import TextOptions, text_hash

__all__ = ["PARTS", "TrainedRun", "check_comparable", "check_text", "oracle_weights"]

PARTS: tuple[Literal["meaning", "language"], ...] = ("meaning", "language")

# Options that must agree between runs whose seeds are combined, and between all runs, besides the encoder; the text is
# compared by its hash.
_TRAINING = ("learning_rate", "batch", "patience")
_SAME = ("max_length", "held_out", "split_seed", "validation", "text")

# Options that choose the losses; runs with several ``oracle_weights`` differ in none of them.
_LOSSES = ("objective", "oracle", "separation", "clustering", "without", "halves")


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
      folder: its folder.
      config: its options, from ``config.json``.
      spec: the embedding space that the heads were trained on.
      objective: name of the objective in tables.
      weight: weight of ORACLE's losses.
      seeds: its seeds.
      training: table cells: optimizer and patience, number of epochs, best epoch of each seed (* if ended by --epochs).
    """

    folder: Path
    config: dict[str, Any]
    spec: EncoderSpec
    objective: str
    weight: float
    seeds: list[int]
    training: list[str]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a run from its folder; ``trained.json`` says how each seed ended."""
        config = read_json(folder / "config.json", dict, ("encoder_spec", "pairs", "split", *_TRAINING, *_SAME))
        ended = read_json(folder / "trained.json", dict, ("objective", "epochs", "seeds"))
        damaged = f"{folder / 'config.json'} or trained.json is damaged"
        with errors_of(damaged, AttributeError, KeyError, TypeError, ValueError):
            best = [f"{end['best_epoch']}{'*' * (end['stopped_by'] == 'epochs')}" for end in ended["seeds"]]
            steps = f"{config['learning_rate']:g}, {config['batch']}, {config['patience']}"
            # Older versions did not record the weight, as it was 1.
            weight = float(config.get("oracle_weights", [1.0])[0])
            spec, seeds = EncoderSpec.from_dict(config["encoder_spec"]), [end["seed"] for end in ended["seeds"]]
            training = [steps, f"{ended['epochs']}", " ".join(best)]
            run = cls(folder, config, spec, f"{ended['objective']:s}", weight, seeds, training)
        return run

    @property
    def files(self) -> list[Path]:
        """The files of the heads: meaning and language, for one seed after another."""
        return [self.folder / f"seed-{seed}" / f"{part}.safetensors" for seed in self.seeds for part in PARTS]

    def heads(self, seed: int) -> list[Transform]:
        """Returns the meaning head and the language head of a seed."""
        return [Transform.load(path) for path in self.files[2 * self.seeds.index(seed) :][:2]]


def check_comparable(runs: Sequence[TrainedRun]) -> None:
    """Checks that runs have the same encoder and text, and differ only in seeds if objective and layer are the same.

    Training options may differ between objectives, since one learning rate does not suit them all.
    """
    for index, run in enumerate(runs):
        for other in runs[:index] or [run]:
            alike = run is not other and (other.objective, other.spec.layer) == (run.objective, run.spec.layer)
            options = [
                {"encoder": replace(one.spec, layer=0)}
                | {name: one.config[name] for name in (*_SAME, *(_TRAINING if alike else ()))}
                for one in (other, run)
            ]
            difference = job.changed_options(*options)
            if twice := set(other.seeds) & set(run.seeds) if alike else ():
                difference = f"both are {run.objective!r} at layer {run.spec.layer} and have seed {min(twice)}"
            if difference:
                raise ValueError(f"{run.folder} cannot be compared with {other.folder}: {difference}; omit one")


def oracle_weights(runs: Sequence[TrainedRun]) -> dict[str, float]:
    """Returns objective -> weight of ORACLE's losses, of the runs whose losses are otherwise the same.

    Of several such groups of runs, that with the most weights is returned.
    """
    groups: dict[str, dict[str, float]] = {}
    for run in runs:
        groups.setdefault(str([run.config.get(name) for name in _LOSSES]), {})[run.objective] = run.weight
    return max(groups.values(), key=len)


def check_text(data: Data, run: TrainedRun) -> None:
    """Checks that the pairs that are held out now were not trained on; does nothing if the data do not exist."""
    names = ("split", "sample", "held_out", "split_seed", "validation", "share")
    more, languages = tuple(run.config.get("more", ())), tuple(sorted(run.config["pairs"]))
    numbers = {name: run.config[name] for name in names if name in run.config}
    try:
        pairs = TextOptions(data, more, languages, **numbers).pairs()
    except FileNotFoundError:
        if not (more and Path(data).exists()):  # there is nothing to test on
            return
        pairs = {}
    if text_hash(pairs) != run.config["text"]:
        raise ValueError(
            f"{' with '.join(map(str, (data, *more)))} is not the text that the heads were trained on, so the "
            "pairs held out from it may have been trained on; set --bitext to the original text"
        )
