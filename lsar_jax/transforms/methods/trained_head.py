"""Trained heads as transforms: the meaning, or the language, of an embedding.

A head is one affine map for all languages, trained with ``lsar_jax.objectives.disentangle``; its transform is applied,
saved and exported like any other.
"""

from collections.abc import Mapping
from typing import Any, Literal

from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform

__all__ = ["head_transform"]


def head_transform(
    head: Any,
    part: Literal["meaning", "language"],
    objective: str,
    fitted_on: Mapping[str, int],
    *,
    source: EncoderSpec | None = None,
    **parameters: int | float | str,
) -> Transform:
    """Returns the transform ``y = W x + b`` of a head whose output is as wide as the embeddings.

    Args:
      head: the head of one seed, an ``objectives.disentangle.Head``: W ``[dim, dim]`` and b ``[dim]``.
      part: what the head extracts.
      objective: name of the training objective.
      fitted_on: number of training sentences by language.
      source: spec of the embeddings' encoder; saved, and checked on use.
      **parameters: parameters of the training, such as its seed.

    Raises:
      ValueError: the head is not square.
    """
    if head.matrix.ndim != 2 or head.matrix.shape[0] != head.matrix.shape[1]:
        raise ValueError(f"the head has shape {head.matrix.shape}, but must be [dim, dim]; give the head of one seed")
    counts = tuple(sorted(fitted_on.items()))
    fit = Fit(part, head.matrix.shape[1], (), counts, (("objective", objective), *parameters.items()))
    return Transform((Step.of(matrix=head.matrix, offset=head.offset),), (fit,), source)
