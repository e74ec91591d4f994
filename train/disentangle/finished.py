"""Reads finished runs of ``train.disentangle``, and checks that they can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from lsar_jax import EncoderSpec, Transform
from lsar_jax.corpora.tables import Data
from lsar_jax.files import read_json
from train.text import TextOptions, text_hash

__all__ = ["PARTS", "TrainedRun", "check_comparable", "check_text", "oracle_weights"]

PARTS: tuple[Literal["meaning", "language"], ...] = ("meaning", "language")

# Options that must agree between runs whose seeds are combined.
_TRAINING = ("learning_rate", "batch", "patience")

# Options that choose the losses; runs with several ``oracle_weights`` differ in none of them.
_LOSSES = ("objective", "oracle", "separation", "clustering", "without", "halves")

# Options that must agree between all runs, besides the encoder; the text is compared by its hash.
_SAME = ("max_length", "held_out", "split_seed", "validation", "text")


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: ``config.json`` has its options, and ``trained.json`` says how each seed ended."""

    folder: Path
    config: dict[str, Any]
    trained: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a run from its folder."""
        path, ended = folder / "config.json", folder / "trained.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} is not a run of train.disentangle: {path} does not exist")
        if not ended.is_file():
            raise FileNotFoundError(
                f"the run in {folder} has not finished: {ended} does not exist; repeat its command to resume it"
            )
        config = read_json(path, dict, ("encoder_spec", "pairs", "split", *_TRAINING, *_SAME))
        run = cls(folder, config, read_json(ended, dict, ("objective", "epochs", "seeds")))
        try:
            EncoderSpec.from_dict(config["encoder_spec"])
            _ = run.training, run.seeds, sorted(config["pairs"]), f"{run.objective:s} {run.weight:g}"
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} or {ended.name} is damaged: a value is of another type than was written"
            ) from error
        if missing := [str(file) for file in run.files if not file.is_file()]:
            raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}; repeat its command to write them again")
        return run

    @property
    def objective(self) -> str:
        """The name of the objective in tables."""
        return self.trained["objective"]

    @property
    def weight(self) -> float:
        """The weight of ORACLE's losses, which older versions did not record, as it was 1."""
        return self.config.get("oracle_weights", [1.0])[0]

    @property
    def layer(self) -> int:
        """The hidden-state layer whose embeddings the heads were trained on."""
        return self.config["encoder_spec"]["layer"]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the run."""
        return [end["seed"] for end in self.trained["seeds"]]

    @property
    def files(self) -> list[Path]:
        """The files of the heads: meaning and language, for one seed after another."""
        return [self.folder / f"seed-{seed}" / f"{part}.safetensors" for seed in self.seeds for part in PARTS]

    @property
    def training(self) -> list[str]:
        """Table cells: optimizer and patience, number of epochs, best epoch of each seed (* if ended by --epochs)."""
        ends = [f"{end['best_epoch']}{'*' * (end['stopped_by'] == 'epochs')}" for end in self.trained["seeds"]]
        steps = f"{self.config['learning_rate']:g}, {self.config['batch']}, {self.config['patience']}"
        return [steps, f"{self.trained['epochs']}", " ".join(ends)]

    def heads(self, seed: int) -> list[Transform]:
        """Returns the meaning head and the language head of a seed."""
        return [Transform.load(path) for path in self.files[2 * self.seeds.index(seed) :][:2]]


def check_comparable(runs: Sequence[TrainedRun]) -> None:
    """Checks that runs have the same encoder and text, and differ only in seeds if objective and layer are the same.

    Training options may differ between objectives, since one learning rate does not suit them all.
    """
    first = runs[0]
    for index, run in enumerate(runs):
        spec, expected = (replace(EncoderSpec.from_dict(run.config["encoder_spec"]), layer=0) for run in (run, first))
        if spec != expected:
            raise ValueError(
                f"{run.folder} was trained on embeddings from {spec}, but {first.folder} from {expected}; omit one"
            )
        for option in _SAME:
            if run.config[option] != first.config[option]:
                raise ValueError(
                    f"{run.folder} has {option} {run.config[option]!r}, "
                    f"but {first.folder} has {first.config[option]!r}; omit one"
                )
        for other in runs[:index]:
            if (other.objective, other.layer) != (run.objective, run.layer):
                continue
            both = f"{run.folder} and {other.folder} are both {run.objective!r} at layer {run.layer}"
            if twice := set(other.seeds) & set(run.seeds):
                raise ValueError(f"{both} and both have seed {min(twice)}; omit one")
            for option in _TRAINING:
                if run.config[option] != other.config[option]:
                    raise ValueError(
                        f"{both}, but have {option} {run.config[option]!r} and {other.config[option]!r}; omit one"
                    )


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
    names = ("split", "held_out", "split_seed", "validation")
    options = TextOptions(
        data,
        tuple(run.config.get("more", ())),
        tuple(sorted(run.config["pairs"])),
        share=run.config.get("share", 1.0),
        **{name: run.config[name] for name in names},
    )
    try:
        pairs = options.pairs()
    except FileNotFoundError as error:
        try:
            replace(options, more=()).pairs()
        except FileNotFoundError:
            return
        raise ValueError(f"the heads were also trained on other text than {data}: {error}") from error
    if text_hash(pairs) != run.config["text"]:
        raise ValueError(
            f"{data} is not the text that the heads were trained on, so the pairs held out from it may have been "
            "trained on; set --bitext to the original text"
        )
