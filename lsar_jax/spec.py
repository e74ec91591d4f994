"""The identity of an embedding space: the encoder, layer, pooling, prompt and transforms of the vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["EncoderSpec", "check_source", "same_source"]

# The fields that tell one space from another.
_SPACE = ("revision", "layer", "final_norm", "pooling", "dim", "prompt", "transform", "digests")


@dataclass(frozen=True)
class EncoderSpec:
    """Everything that is needed to reproduce the same embeddings.

    Attributes:
      id: ``bundled``, a Hub id, or the name of a folder.
      revision: commit on the Hub, or SHA-256 of the files.
      layer: number of the layer; 0 is the embedding output, k the output of block k.
      pooling: ``pooler``, or poolings such as ``mean`` or ``mean+cls``, followed by the layers that the
        checkpoint applies after it, as in ``cls+dense+normalize``.
      dtype: compute dtype of the blocks, and the dtype of the parameters if it differs.
      transform: human-readable names of the methods applied after the pooling; empty for raw embeddings.
      prompt: string prepended to each sentence.
      digests: digest of the arrays of each applied step; it differs between fits of one method on different text.
      dim: number of dimensions that a Matryoshka embedding was cut to before it was normalised again; None for all.
      final_norm: whether the checkpoint's final norm is applied to layers below the last too.

    Example:
      >>> raw = lj.EncoderSpec("bundled", "sha256:1571", 8, "mean", "float32")
      >>> moved = raw.after("lsar(rank=2)", ["0f3a"])
      >>> raw.same_space(moved), raw.same_space(moved.raw())
      (False, True)
      >>> moved.difference(raw)
      "transform 'lsar(rank=2)', not ''"
    """

    id: str
    revision: str
    layer: int
    pooling: str
    dtype: str
    transform: str = ""
    prompt: str = ""
    digests: tuple[str, ...] = ()
    dim: int | None = None
    final_norm: bool = False

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "EncoderSpec":
        """Returns the spec that ``to_dict`` wrote; an unknown or missing field is a TypeError."""
        return cls(**{**fields, "digests": tuple(fields.get("digests", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON-serializable values, without ``dim`` and ``final_norm`` where they are not set.

        So files of other embeddings are the same as before there were these fields.
        """
        fields = asdict(self) | {"digests": list(self.digests)}
        return {name: value for name, value in fields.items() if value or name not in ("dim", "final_norm")}

    def same_space(self, other: "EncoderSpec") -> bool:
        """Whether vectors of both can be mixed: all fields but the id and the compute dtype are equal."""
        return all(getattr(self, name) == getattr(other, name) for name in _SPACE)

    def difference(self, other: "EncoderSpec") -> str:
        """Names the fields that make this another space than ``other``, with both values: ``layer 8, not 12``."""
        names = [name for name in _SPACE if getattr(self, name) != getattr(other, name)]
        # The digests tell fits of the same methods apart.
        shown = [name for name in names if name != "digests" or names == ["digests"]]
        return "; ".join(f"{name.replace('_', ' ')} {self._shown(name)}, not {other._shown(name)}" for name in shown)

    def _shown(self, name: str) -> str:
        return f"{self.revision[:19]} of {self.id}" if name == "revision" else repr(getattr(self, name))

    def raw(self) -> "EncoderSpec":
        """Returns the spec of the same embeddings before any transform."""
        return replace(self, transform="", digests=())

    def after(self, transform: str, digests: Sequence[str]) -> "EncoderSpec":
        """Returns the spec of these embeddings after a further transform of this name and these ``digests``."""
        name = " then ".join(filter(None, (self.transform, transform)))
        return replace(self, transform=name, digests=(*self.digests, *digests))


def check_source(source: object) -> None:
    """Raises ValueError if the source of a fit is neither None nor a spec."""
    if source is not None and not isinstance(source, EncoderSpec):
        raise ValueError(f"source is {source!r:.80}; give the spec of the encoder, encoder.spec")


def same_source(what: str, sources: Mapping[str, EncoderSpec | None]) -> EncoderSpec | None:
    """Returns the last spec that is known, or None.

    Raises:
      ValueError: two of them name different spaces.
    """
    known = {name: source for name, source in sources.items() if source is not None}
    for name, source in known.items():
        first = next(iter(known))
        if not source.same_space(known[first]):
            difference = source.difference(known[first])
            raise ValueError(f"{what} are of different embeddings: {name} has other ones than {first}: {difference}")
    return next(reversed(known.values()), None)
