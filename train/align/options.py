"""Options of ``python -m train.align`` whose defaults depend on the objective or on the device."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import jax

from lsar_jax.checks import above_zero, at_least, below_one, check_option
from train.defaults import filled, known

__all__ = ["AlignObjective", "AlignOptions"]

AlignObjective = Literal["linear", "l2", "weak", "strong", "sentence"]

_OF_ENCODERS: dict[str, Any] = {"validation_pairs": 2048, "stay_close": 1.0, "dropout": 0.1}
# The options of each objective besides those of all, and their defaults.
_DEFAULTS: dict[AlignObjective, dict[str, Any]] = {
    "linear": {"beta": 0.01},
    **dict.fromkeys(("l2", "weak", "strong"), _OF_ENCODERS),
    "sentence": {**_OF_ENCODERS, "stay_close": 0.0, "language_penalty": 0.0},
}


@dataclass(frozen=True)
class AlignOptions:
    """The optimizer, the loss, and what trades memory for time.

    The options from chunk_tokens on leave the loss and its gradient as they are, but for rounding and for the random
    masks of dropout, which are drawn for each chunk.

    Attributes:
      learning_rate: learning rate of Adam after the warm-up; it then falls linearly to 0.
      batch: number of sentence pairs per step, of all languages; for linear, of pairs encoded at a time.
      steps: number of steps; by default 100,000, and 20,000 for linear.
      warmup: number of steps of the warm-up; by default 4% of --steps, and 1 for linear.
      validate_every: number of steps between validations; by default 1,000, and 100 for linear.
      validation_pairs: largest number of pairs to validate on, but at least one batch; by default 2,048. linear uses
        all.
      stay_close: weight of the norm of the change of all parameters; by default 1, and 0 for sentence.
      language_penalty: for sentence, weight of the share of the embeddings' squared length in the subspace that the
        running means of the languages span; by default 0.
      freeze_words: do not train the word embeddings.
      dropout: share of hidden states and attention weights to zero at random in training; by default 0.1.
      beta: how strongly each step of linear draws a matrix towards the orthogonal ones; by default 0.01.
      chunk_tokens: token positions to encode at a time, in rows that sentences share; 0 for the whole batch. By default
        512 on a CPU, and 0 elsewhere.
      remat: compute each block again for its gradient.
    """

    learning_rate: float = 1e-4
    batch: int = 128
    steps: int | None = None
    warmup: int | None = None
    validate_every: int | None = None
    validation_pairs: int | None = None
    stay_close: float | None = None
    language_penalty: float | None = None
    freeze_words: bool = False
    dropout: float | None = None
    beta: float | None = None
    chunk_tokens: int | None = None
    remat: bool = False

    def complete(self, objective: AlignObjective, devices: int) -> Self:
        """Returns the options with the defaults of an objective; raises ValueError for one that is out of range."""
        linear = objective == "linear"
        options = filled(
            self,
            steps=20_000 if linear else 100_000,
            validate_every=100 if linear else 1_000,
            # On two CPU cores, steps of the bundled encoder took 324 tokens a CPU second with 2,048, and 388 with 512.
            chunk_tokens=512 if jax.default_backend() == "cpu" else 0,
            **_DEFAULTS[objective],
        )
        at_least(1, steps=options.steps, validate_every=options.validate_every)
        at_least(1, validation_pairs=options.validation_pairs)
        names = ("stay_close", "language_penalty", "chunk_tokens", "warmup")
        at_least(0, **{name: getattr(options, name) for name in names})
        above_zero(learning_rate=options.learning_rate)
        below_one(dropout=options.dropout)
        steps = known(options.steps)
        options = filled(options, warmup=min(1, steps - 1) if linear else steps // 25)
        check_option(known(options.warmup) < steps, f"from 0 to below --steps, {steps}", warmup=options.warmup)
        right = options.batch >= 2 and not options.batch % devices
        check_option(right, f"at least 2 and a multiple of the number of devices, {devices}", batch=options.batch)
        check_option(0 <= (options.beta or 0) < 0.5, "from 0 to below 0.5", beta=options.beta)
        return options
