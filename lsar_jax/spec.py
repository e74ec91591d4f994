"""The name of an embedding space: which encoder, layer, pooling, prompt and transforms made the vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["EncoderSpec"]


@dataclass(frozen=True)
class EncoderSpec:
    """All that is needed to make the same embeddings again.

    Attributes:
      id: ``bundled``, a Hub id, or the name of a folder.
      revision: commit of the Hub, or sha256 of the weights.
      layer: 0 is the embedding output, k the output of block k.
      pooling: ``mean``, ``mean_no_special``, ``cls``, ``max`` or ``pooler``, with whatever the checkpoint applies
        after it, as in ``cls+dense+normalize``.
      dtype: compute dtype of the blocks, and the parameters' if that differs.
      prompt: string put before each sentence.
      transform: methods applied after the pooling, for people to read; empty for raw embeddings.
      digests: of each applied step, a digest of its arrays: two fits of one method on different text differ.
    """

    id: str
    revision: str
    layer: int
    pooling: str
    dtype: str
    prompt: str = ""
    transform: str = ""
    digests: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "EncoderSpec":
        """Returns the spec that ``to_dict`` wrote; the first versions had neither prompt nor digests.

        Raises:
          TypeError: a field is unknown or missing.
        """
        return cls(**{**fields, "digests": tuple(map(str, fields.get("digests", ())))})

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields, for JSON."""
        return asdict(self) | {"digests": list(self.digests)}

    def same_space(self, other: "EncoderSpec") -> bool:
        """Whether vectors of both may be mixed: everything but the folder's name and the compute dtype agrees."""
        return self._space() == other._space()

    def raw(self) -> "EncoderSpec":
        """Returns the same space before any transform."""
        return replace(self, transform="", digests=())

    def after(self, transform: str, digests: Sequence[str]) -> "EncoderSpec":
        """Returns the space that a transform of this one's embeddings leads to."""
        name = " then ".join(filter(None, (self.transform, transform)))
        return replace(self, transform=name, digests=(*self.digests, *digests))

    def _space(self) -> tuple[object, ...]:
        return self.revision, self.layer, self.pooling, self.prompt, self.transform, self.digests
