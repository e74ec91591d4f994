"""Options of ``python -m train.finetune`` that say how to train; some defaults depend on the task."""

from dataclasses import dataclass, replace
from typing import Literal

from lsar_jax.cli.option_checks import at_least, known

__all__ = ["FinetuneOptions", "TaskName"]

TaskName = Literal["xnli", "ner", "pos", "parsing"]


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
      warmup: share of all steps for the warm-up.
      validations: number of validations per pass; by default 4, and 1 with --features.
      patience: number of validations without a better score after which training ends.
      dropout: share of hidden states and attention weights to zero at random in training, in all blocks, whether they
        are trained or not; with --features only in those on top. By default 0.1, and 0.2 with --features.
      output_dropout: share of the dimensions of the output to zero, the same for all tokens of a sentence.
      trained_blocks: number of blocks to train, from the last; by default all, and the embeddings too.
    """

    features: bool = False
    learning_rate: float | None = None
    batch: int | None = None
    epochs: int | None = None
    warmup: float = 0.1
    validations: int | None = None
    patience: int = 10
    dropout: float | None = None
    output_dropout: float = 0.2
    trained_blocks: int | None = None

    def complete(self, task: TaskName) -> "FinetuneOptions":
        """Returns the options with all defaults."""
        high = 1e-4 if task in ("xnli", "ner") else 1e-3
        rate, batch, epochs, validations, dropout = (high, 128, 20, 1, 0.2) if self.features else (2e-5, 32, 5, 4, 0.1)
        return replace(
            self,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            batch=batch if self.batch is None else self.batch,
            epochs=epochs if self.epochs is None else self.epochs,
            validations=validations if self.validations is None else self.validations,
            dropout=dropout if self.dropout is None else self.dropout,
        )

    def check(self) -> None:
        """Raises ValueError if a number is out of range."""
        at_least(1, batch=known(self.batch), epochs=known(self.epochs), validations=known(self.validations))
        at_least(1, patience=self.patience)
        for name, share in (
            ("warmup", self.warmup), ("dropout", known(self.dropout)), ("output-dropout", self.output_dropout)
        ):  # fmt: skip
            if not 0 <= share < 1:
                raise ValueError(f"--{name} is {share}; it must be from 0 to below 1")
        if not known(self.learning_rate) > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be above 0")
        if self.features and self.trained_blocks is not None:
            raise ValueError(f"--trained-blocks is {self.trained_blocks}, but with --features no block is trained")
