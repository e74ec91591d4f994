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
      head: the head of one seed, an ``objectives.disentangle.Head`` with ``matrix`` W ``[dim, dim]`` and
        ``offset`` b ``[dim]``.
      part: what the head extracts.
      objective: name of the training objective.
      fitted_on: number of training sentences by language.
      source: spec of the encoder that made the embeddings; saved, and checked on use.
      **parameters: parameters of the training, such as its seed.

    Returns:
      A transform that needs no language.

    Raises:
      ValueError: the head is not square.

    Example:
      >>> head = lj.objectives.disentangle.Head(2 * jnp.eye(3), jnp.ones(3))
      >>> meaning = lj.transforms.head_transform(head, "meaning", "meat", {"de": 100, "en": 100}, seed=0)
      >>> meaning
      Transform(meaning(objective=meat, seed=0); dim 3, shared)
      >>> meaning(np.ones((1, 3))).tolist()
      [[3.0, 3.0, 3.0]]
    """
    if head.matrix.ndim != 2 or head.matrix.shape[0] != head.matrix.shape[1]:
        raise ValueError(
            f"the head's matrix has shape {head.matrix.shape}, but must be [dim, dim]; give the head of one seed"
        )
    fit = Fit(
        method=part,
        dim=head.matrix.shape[1],
        languages=(),
        fitted_on=tuple(sorted(fitted_on.items())),
        parameters=(("objective", objective), *parameters.items()),
    )
    step = Step.of(matrix=head.matrix, offset=head.offset)
    return Transform((step,), (fit,), source)
