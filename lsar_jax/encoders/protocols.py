"""What the encoder needs from a model and from a transform, so that it depends on no implementation."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.shapes import Hidden, LanguageIds, Lengths, RowLanguages, TokenIds
from lsar_jax.spec import EncoderSpec

__all__ = ["EmbeddingTransform", "EncoderModel", "check_transform"]


@runtime_checkable
class EncoderModel(Protocol):
    """A Flax module that computes hidden states.

    Attributes:
      config: has ``widths``, the width of layer 0, 1, ..., and ``longest``, the maximum tokens per sentence.
      dtype: compute dtype.
    """

    config: Any
    dtype: Any

    def hidden_states(self, ids: TokenIds, lengths: Lengths, languages: RowLanguages | None = None) -> Iterator[Hidden]:
        """Yields layer 0, then the output of each block."""
        ...


@runtime_checkable
class EmbeddingTransform(Protocol):
    """A pytree that transforms embeddings, such as ``lsar_jax.transforms.Transform``."""

    @property
    def steps(self) -> tuple[Any, ...]:
        """The steps, applied in order; each has a table with one row per language, or one shared row."""
        ...

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
        """The spec of the embeddings that it was fitted on; None if that is not known."""
        ...

    @property
    def languages(self) -> tuple[str, ...] | None:
        """The languages that it can be applied to; None if it is the same for all."""
        ...

    @property
    def identifier(self) -> Any | None:
        """Detects the language of an embedding; None if the language has to be given."""
        ...

    @property
    def digests(self) -> tuple[str, ...]:
        """A digest of the arrays of each step."""
        ...

    def fits_after(self, spec: EncoderSpec, applied: Any) -> bool:
        """Whether it was fitted on the embeddings that ``spec`` names, or on those after the transform ``applied``."""
        ...

    def then(self, other: Any) -> Any:
        """Returns the transform that applies this one first and ``other`` to its result."""
        ...

    def language_ids(self, language: str | Sequence[str] | None) -> tuple[np.ndarray, ...]:
        """Returns the row of the language in each step's table, ``[]``, or of several, ``[n]``."""
        ...

    def auto_ids(self, x: Float[Array, "vector dim"]) -> tuple[LanguageIds, ...]:
        """Returns the rows, as ``language_ids`` does, of the languages that the identifier detects; pure."""
        ...

    def check_identifier(self) -> Any:
        """Raises ValueError if the transform cannot detect the language itself."""
        ...

    def apply(self, x: Float[jax.Array, "vector dim"], ids: tuple[LanguageIds, ...]) -> Float[jax.Array, "vector dim"]:
        """Transforms embeddings with the rows ``ids`` of the steps' tables; pure."""
        ...

    def as_affine(self, language: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns A and b with ``y = x A^T + b``; raises ValueError if no such pair exists."""
        ...


def check_transform(
    transform: EmbeddingTransform, spec: EncoderSpec, applied: EmbeddingTransform | None, dim: int
) -> None:
    """Raises ValueError if an encoder cannot apply a transform.

    Args:
      transform: the transform to apply.
      spec: spec of the embeddings that the encoder returns now.
      applied: the transform that the encoder applies already, or None.
      dim: the width of its embeddings.
    """
    if not transform.fits_after(spec.raw(), applied):
        source = transform.source
        assert source is not None, "a transform without a source fits after any"
        raise ValueError(
            f"the transform was fitted on other embeddings than those of this encoder: "
            f"{source.difference(spec)}{source.hint(spec.prompt)}"
        )
    if transform.dim != dim:
        raise ValueError(f"the transform takes width {transform.dim}, but this encoder returns width {dim}")
