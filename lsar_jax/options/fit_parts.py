"""Moments of parts of a corpus, which a fit brings to one kind and to one space of embeddings."""

from collections.abc import Mapping, Sequence

from lsar_jax.moments import Moments, PooledMoments, pool_moments
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.methods import METHODS, Needs

__all__ = ["kind_of_all", "one_space", "reduced"]

# What moments have: each kind includes the kinds before it.
_KINDS: tuple[Needs, ...] = ("means", "pooled", "languages")


def kind_of_all(saved: Sequence[Mapping[str, Moments]], needed: Needs, name: str) -> Needs:
    """The kind that all saved moments have, by default the one needed; ValueError if the method needs more."""
    kind = min(map(_kind_of, saved), key=_KINDS.index, default=needed)
    if _KINDS.index(kind) < _KINDS.index(needed):
        what = {"means": "means", "pooled": "pooled second moments", "languages": "second moments by language"}
        advice = next(name for name, method in METHODS.items() if method.needs == needed)
        have = f"the saved moments have {what[kind]}; save those of a fit of {advice}"
        raise ValueError(f"{name} needs {what[needed]}, but {have}")
    return kind


def _kind_of(moments: Mapping[str, Moments]) -> Needs:
    if isinstance(moments, PooledMoments):
        return "pooled"
    return "means" if any(part.scatter is None for part in moments.values()) else "languages"


def reduced(moments: Mapping[str, Moments], kind: Needs) -> Mapping[str, Moments]:
    """Moments of this kind, which they include."""
    if kind == "means":
        return {code: Moments(part.count, part.mean) for code, part in moments.items()}
    return pool_moments(moments) if kind == "pooled" else moments


def one_space(sources: Sequence[EncoderSpec | None]) -> EncoderSpec | None:
    """The spec of the encoder that made all parts, or None if it is not known for any of them."""
    first = sources[0]
    for other in sources[1:]:
        if (first is None) != (other is None) or (first and other and not first.same_space(other)):
            difference = first.difference(other) if first and other else "one is not known"
            raise ValueError(f"the parts are embeddings of different encoders: {difference}; fit on one encoder's")
    return first
