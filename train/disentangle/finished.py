"""Finished runs of ``train.disentangle``, and whether they can be compared."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lsar_jax import Transform
from lsar_jax.corpora.tables import Data
from train.text import TextOptions, text_hash

__all__ = ["PARTS", "TrainedRun", "check_comparable", "check_text"]

PARTS = ("meaning", "language")

# Of runs whose seeds are put together.
_TRAINING = ("learning_rate", "batch", "patience")

# Beside the encoder; the text is known by its hash, wherever it is.
_SAME = ("max_length", "held_out", "split_seed", "validation", "text")


@dataclass(frozen=True)
class TrainedRun:
    """One run.

    Attributes:
      folder: of the run.
      config: what it is of.
      trained: how its seeds ended.
    """

    folder: Path
    config: dict[str, Any]
    trained: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a run.

        Raises:
          FileNotFoundError: it is none, or has not ended.
        """
        path = folder / "config.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} is no run of train.disentangle: there is no {path}")
        ended = folder / "trained.json"
        if not ended.is_file():
            raise FileNotFoundError(f"{folder} has not ended, {ended} is missing: run the same command again to go on")
        run = cls(folder, *(json.loads(one.read_text(encoding="utf-8")) for one in (path, ended)))
        missing = [str(file) for file in run.files if not file.is_file()]
        if missing:
            raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}: run the same command again")
        return run

    @property
    def objective(self) -> str:
        """Its name in tables."""
        return self.trained["objective"]

    @property
    def layer(self) -> int:
        """Hidden-state layer of its embeddings."""
        return self.config["encoder_spec"]["layer"]

    @property
    def seeds(self) -> list[int]:
        """Its seeds."""
        return [end["seed"] for end in self.trained["seeds"]]

    @property
    def files(self) -> list[Path]:
        """The heads of meaning and language of each seed, one after the other."""
        return [self.folder / f"seed-{seed}" / f"{part}.safetensors" for seed in self.seeds for part in PARTS]

    @property
    def training(self) -> list[str]:
        """How it was trained, and of each seed the best epoch, and whether that many epochs ended it."""
        ends = [f"{end['best_epoch']}{'*' * (end['stopped_by'] == 'epochs')}" for end in self.trained["seeds"]]
        steps = f"{self.config['learning_rate']:g}, {self.config['batch']}, {self.config['patience']}"
        return [steps, f"{self.trained['epochs']}", " ".join(ends)]

    def heads(self, seed: int) -> list[Transform]:
        """Returns the heads of meaning and language."""
        return [Transform.load(path) for path in self.files[2 * self.seeds.index(seed) :][:2]]


def check_comparable(runs: Sequence[TrainedRun]) -> None:
    """Checks that runs are of one encoder and one text, and those of one objective and layer other seeds of the same.

    Of other objectives the training may differ, since one learning rate does not fit them all; and where some seeds
    had more epochs than others, what is printed says so.

    Raises:
      ValueError: they are not; the option is named.
    """
    first = runs[0]
    for index, run in enumerate(runs):
        mine, others = (one.config["encoder_spec"] | {"layer": None} for one in (run, first))
        if mine != others:
            raise ValueError(f"{run.folder} is of embeddings by {mine}, and {first.folder} by {others}")
        for option in _SAME:
            if run.config[option] != first.config[option]:
                raise ValueError(
                    f"{run.folder}: {option} is {run.config[option]!r}, and {first.config[option]!r} in {first.folder}"
                )
        for other in runs[:index]:
            if (other.objective, other.layer) != (run.objective, run.layer):
                continue
            both = f"{run.folder} and {other.folder} are {run.objective!r} of layer {run.layer}"
            if twice := set(other.seeds) & set(run.seeds):
                raise ValueError(f"{both}, and have seed {min(twice)}; leave one out")
            for option in _TRAINING:
                if run.config[option] != other.config[option]:
                    raise ValueError(
                        f"{both}, with {option} {run.config[option]!r} and {other.config[option]!r}; leave one out"
                    )


def check_text(data: Data, run: TrainedRun) -> None:
    """Checks that what is held out now is what the heads were not trained on; nothing if there is no such data.

    Raises:
      ValueError: the text has changed.
    """
    names = ("split", "held_out", "split_seed", "validation")
    options = TextOptions(data, tuple(sorted(run.config["pairs"])), **{name: run.config[name] for name in names})
    try:
        pairs = options.pairs()
    except FileNotFoundError:
        return
    if text_hash(pairs) != run.config["text"]:
        raise ValueError(
            f"{data} is not the text that the heads were trained on: what is held out of it now may have been "
            "trained on. Give the same with --bitext"
        )
