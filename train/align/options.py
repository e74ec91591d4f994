"""Options of ``python -m train.align``: the optimizer, the loss, and what trades memory for time.

Some defaults depend on the objective or on the device; ``complete`` puts in what was left out.
"""

from dataclasses import dataclass, replace
from typing import Literal

import jax

from lsar_jax.cli.option_checks import at_least, known

__all__ = ["READ_BY", "AlignLoss", "AlignMemory", "AlignOptimizer", "Objective"]

Objective = Literal["linear", "l2", "weak", "strong", "sentence"]

_OF_ENCODERS: tuple[Objective, ...] = ("l2", "weak", "strong", "sentence")
# The objectives that read an option; all objectives read what is not named here.
READ_BY: dict[str, tuple[Objective, ...]] = {
    "temperature": ("weak", "strong", "sentence"),
    "projected": ("weak", "strong"),
    "beta": ("linear",),
    **dict.fromkeys(("stay_close", "squared", "stay_close_hidden", "freeze_words", "dropout"), _OF_ENCODERS),
    **dict.fromkeys(("cached", "remat", "validation_pairs", "keep"), _OF_ENCODERS),
}


@dataclass(frozen=True)
class AlignOptimizer:
    """Adam, the size of a batch, and how long to train.

    Attributes:
      learning_rate: learning rate of Adam after the warm-up; it then falls linearly to 0.
      batch: number of sentence pairs per step, of all languages; for linear, of pairs encoded at a time.
      steps: number of steps; by default 100,000, and 20,000 for linear.
      warmup: number of steps of the warm-up; by default 4% of --steps, and 1 for linear.
      validate_every: number of steps between validations; by default 1,000, and 100 for linear.
      validation_pairs: largest number of pairs to validate on, but at least one batch; linear uses all.
      patience: number of validations without a lower loss after which training ends; by default it never ends early.
    """

    learning_rate: float = 1e-4
    batch: int = 128
    steps: int | None = None
    warmup: int | None = None
    validate_every: int | None = None
    validation_pairs: int = 2048
    patience: int | None = None

    def complete(self, objective: Objective) -> "AlignOptimizer":
        """Returns the options with all defaults."""
        linear = objective == "linear"
        steps = (20_000 if linear else 100_000) if self.steps is None else self.steps
        warmup = (min(1, steps - 1) if linear else steps // 25) if self.warmup is None else self.warmup
        every = (100 if linear else 1_000) if self.validate_every is None else self.validate_every
        # As many validations as there are.
        patience = max(-(-steps // max(every, 1)), 1) if self.patience is None else self.patience
        return replace(self, steps=steps, warmup=warmup, validate_every=every, patience=patience)

    def check(self, devices: int) -> None:
        """Raises ValueError if a number is out of range."""
        steps = known(self.steps)
        at_least(1, steps=steps, validate_every=known(self.validate_every), patience=known(self.patience))
        at_least(1, validation_pairs=self.validation_pairs)
        if not 0 <= known(self.warmup) < steps:
            raise ValueError(f"--warmup is {self.warmup}; it must be from 0 to below --steps, {steps}")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be above 0")
        if self.batch % devices or self.batch < 2:
            raise ValueError(
                f"--batch is {self.batch}; it must be at least 2 and a multiple of the number of devices, {devices}"
            )


@dataclass(frozen=True)
class AlignLoss:
    """The loss, and what is trained.

    Attributes:
      temperature: T of the contrastive losses; by default 0.1, and 0.05 for sentence.
      projected: width of the projector's output, for weak and strong.
      stay_close: weight of the norm of the change of all parameters; by default 1, and 0 for sentence.
      squared: square that norm, as the paper prints it; the authors' code does not.
      stay_close_hidden: weight of the squared change of the English hidden states.
      freeze_words: do not train the word embeddings.
      dropout: share of hidden states and attention weights to zero at random in training.
      beta: how strongly each step of linear draws a matrix towards the orthogonal ones.
    """

    temperature: float | None = None
    projected: int = 128
    stay_close: float | None = None
    squared: bool = False
    stay_close_hidden: float = 0.0
    freeze_words: bool = False
    dropout: float = 0.1
    beta: float = 0.01

    def complete(self, objective: Objective) -> "AlignLoss":
        """Returns the options with all defaults."""
        temperature, stay_close = (0.05, 0.0) if objective == "sentence" else (0.1, 1.0)
        return replace(
            self,
            temperature=temperature if self.temperature is None else self.temperature,
            stay_close=stay_close if self.stay_close is None else self.stay_close,
        )

    def check(self) -> None:
        """Raises ValueError if a number is out of range."""
        if not known(self.temperature) > 0:
            raise ValueError(f"--temperature is {self.temperature}; it must be above 0")
        at_least(1, projected=self.projected)
        at_least(0, stay_close=known(self.stay_close), stay_close_hidden=self.stay_close_hidden)
        if self.squared and not self.stay_close:
            raise ValueError("--squared squares the norm that --stay-close weighs, but --stay-close is 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be from 0 to below 1")
        if not 0 <= self.beta < 0.5:
            raise ValueError(f"--beta is {self.beta}; it must be from 0 to below 0.5")


@dataclass(frozen=True)
class AlignMemory:
    """What trades memory for time.

    The loss and its gradient are the same but for rounding, and for the random masks of dropout, which are drawn for
    each chunk.

    Attributes:
      chunk_tokens: token positions to encode at a time, in rows of similar length; 0 for the whole batch. By default
        512 on a CPU, and 0 elsewhere.
      cached: encode each chunk again for its gradient, so that memory is bounded by one chunk; needs chunk_tokens.
      remat: compute each block again for its gradient.
    """

    chunk_tokens: int | None = None
    cached: bool = False
    remat: bool = False

    def complete(self) -> "AlignMemory":
        """Returns the options with all defaults."""
        # On a CPU short rows gain more than large products.
        default = 512 if jax.default_backend() == "cpu" else 0
        return replace(self, chunk_tokens=default if self.chunk_tokens is None else self.chunk_tokens)

    def check(self) -> None:
        """Raises ValueError if a number is out of range."""
        at_least(0, chunk_tokens=known(self.chunk_tokens))
        if self.cached and not self.chunk_tokens:
            raise ValueError("--cached encodes one chunk at a time, but --chunk-tokens is 0; choose how many tokens")
