"""Options of ``python -m train.finetune`` whose defaults depend on the task or on ``--features``."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from lsar_jax.checks import above_zero, at_least, below_one, check_option
from train.defaults import filled, known
from train.finetune.task import TransferTask

__all__ = ["FinetuneOptions"]


@dataclass(frozen=True)
class FinetuneOptions:
    """How to train.

    Attributes:
      features: leave the encoder as it is, and train a mix of its layers, four blocks on top, and for ner a conditional
        random field.
      learning_rate: learning rate of Adam after the warm-up; it then falls linearly to 0. By default 2e-5; with
        --features 1e-3, and 1e-4 for xnli and ner.
      batch: number of sentences, or pairs, per step; by default 32, and 128 with --features.
      epochs: number of passes over the training text; by default 5, and 20 with --features.
      validations: number of validations per pass; by default 4, and 1 with --features.
      dropout: share of hidden states and attention weights to zero at random in training, in all blocks, whether they
        are trained or not; with --features only in those on top. By default 0.1, and 0.2 with --features.
      trained_blocks: number of blocks to train, from the last; by default all, and the embeddings too.
    """

    features: bool = False
    learning_rate: float | None = None
    batch: int | None = None
    epochs: int | None = None
    validations: int | None = None
    dropout: float | None = None
    trained_blocks: int | None = None

    def complete(self, task: TransferTask) -> Self:
        """Returns the options with all defaults; raises ValueError if a number is out of range."""
        names = ("learning_rate", "batch", "epochs", "validations", "dropout")
        defaults = (task.rate_on_features, 128, 20, 1, 0.2) if self.features else (2e-5, 32, 5, 4, 0.1)
        options = filled(self, **dict(zip(names, defaults, strict=True)))
        at_least(1, batch=options.batch, epochs=options.epochs, validations=options.validations)
        below_one(dropout=options.dropout)
        above_zero(learning_rate=options.learning_rate)
        check_option(not self.features, "left out with --features", trained_blocks=self.trained_blocks)
        return options

    def parts(self, examples: int) -> list[int]:
        """Returns the number of steps between validations, in each part of a pass over a number of examples."""
        steps = examples // known(self.batch)
        return [len(part) for part in np.array_split(np.arange(steps), min(known(self.validations), steps))]
