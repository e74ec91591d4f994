"""What the encoder needs of a model and of a transform, so that it depends on none of them."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.shapes import Hidden, LanguageIds, Lengths, RowLanguages, TokenIds
from lsar_jax.spec import EncoderSpec

__all__ = ["EmbeddingTransform", "EncoderModel"]


@runtime_checkable
class EncoderModel(Protocol):
    """A Flax module that makes hidden states.

    Attributes:
      config: with ``widths``, the width of layer 0, 1, ..., and ``longest``, the most tokens of a sentence.
      dtype: compute dtype.
    """

    config: Any
    dtype: Any

    def hidden_states(self, ids: TokenIds, lengths: Lengths, languages: RowLanguages | None = None) -> Iterator[Hidden]:
        """Yields layer 0, then the output of each block."""
        ...


@runtime_checkable
class EmbeddingTransform(Protocol):
    """A pytree that moves embeddings, such as ``lsar_jax.transforms.Transform``.

    Attributes:
      steps: applied first to last; each has a table of languages, or one row for all.
    """

    steps: tuple[Any, ...]

    @property
    def dim(self) -> int:
        """The width of the embeddings."""
        ...

    @property
    def name(self) -> str:
        """The methods with their arguments."""
        ...

    @property
    def source(self) -> EncoderSpec | None:
        """The embeddings that it was fitted on; None if that is not known."""
        ...

    @property
    def languages(self) -> tuple[str, ...] | None:
        """The languages that it can be applied to; None if it is the same for all."""
        ...

    @property
    def identifier(self) -> Any | None:
        """Finds the language of an embedding; None if it has to be given."""
        ...

    @property
    def digests(self) -> tuple[str, ...]:
        """Of each step, a digest of its arrays."""
        ...

    def fits_after(self, spec: EncoderSpec, applied: Any) -> bool:
        """Whether it was fitted on the embeddings ``spec`` names, or on those after the transform ``applied``."""
        ...

    def then(self, other: Any) -> Any:
        """Returns the transform that applies this one first and ``other`` to its result."""
        ...

    def language_ids(self, language: str | Sequence[str] | None) -> tuple[np.ndarray, ...]:
        """Returns the row of each step's table, ``[]`` or ``[n]``."""
        ...

    def auto_ids(self, x: Float[Array, "vector dim"]) -> tuple[LanguageIds, ...]:
        """Returns what ``language_ids`` does for the languages that the identifier finds; pure."""
        ...

    def check_identifier(self) -> Any:
        """Raises ValueError if the transform cannot find the language itself."""
        ...

    def apply(self, x: Float[jax.Array, "vector dim"], ids: tuple[LanguageIds, ...]) -> Float[jax.Array, "vector dim"]:
        """Moves embeddings by the rows ``ids`` of the steps' tables; pure."""
        ...

    def as_affine(self, language: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns A and b with ``y = x A^T + b``; raises ValueError if there is no such pair."""
        ...
