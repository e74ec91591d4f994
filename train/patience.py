"""Where a run is, and when a seed stops: after a number of epochs without a lower validation loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["Progress"]


@dataclass
class Progress:
    """Where a run is; lists have one entry per seed.

    Attributes:
      epoch: the current one, from 0.
      step: of this epoch, steps that were taken.
      taken: steps of all epochs.
      lines: of the log.
      best: lowest validation loss.
      best_epoch: when it was.
      waited: epochs since then.
      active: which seeds go on.
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
        """Returns which of the seeds that go on have their lowest validation loss now."""
        return np.array(self.active) & (totals < np.array(self.best))

    def end_epoch(self, totals: Float[np.ndarray, " seed"], patience: int) -> None:
        """Counts the epoch; stops each seed that has waited ``patience`` epochs for a lower validation loss."""
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
