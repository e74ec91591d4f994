"""The progress of a run, and early stopping of each seed by its validation loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["Progress"]


@dataclass
class Progress:
    """The position of a run; each list has one entry per seed.

    Attributes:
      epoch: current epoch, from 0.
      step: number of steps taken in this epoch.
      taken: number of steps taken in all epochs.
      lines: number of lines in the log.
      best: lowest validation loss.
      best_epoch: epoch of the lowest validation loss.
      waited: number of epochs since the lowest validation loss.
      active: whether the seed is still training.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    lines: int = 0
    best: list[float] = field(default_factory=list)
    best_epoch: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    active: list[bool] = field(default_factory=list)

    @classmethod
    def start(cls, seeds: int) -> "Progress":
        """Returns the position before the first step."""
        return cls(best=[float("inf")] * seeds, best_epoch=[-1] * seeds, waited=[0] * seeds, active=[True] * seeds)

    def better(self, totals: Float[np.ndarray, " seed"]) -> Bool[np.ndarray, " seed"]:
        """Returns which of the active seeds have just reached their lowest validation loss."""
        return np.array(self.active) & (totals < np.array(self.best))

    def end_epoch(self, totals: Float[np.ndarray, " seed"], patience: int) -> None:
        """Ends the epoch, and stops each seed that has waited ``patience`` epochs for a lower validation loss."""
        better: Sequence[bool] = self.better(totals).tolist()
        for seed, active in enumerate(self.active):
            if better[seed]:
                self.best[seed], self.best_epoch[seed] = float(totals[seed]), self.epoch
                self.waited[seed] = 0
            elif active:
                self.waited[seed] += 1
                self.active[seed] = self.waited[seed] < patience
        self.epoch += 1
        self.step = 0
