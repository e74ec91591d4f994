"""The identity of an embedding space: the encoder, layer, pooling, prompt and transforms of the vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["EncoderSpec"]


@dataclass(frozen=True)
class EncoderSpec:
    """Everything that is needed to reproduce the same embeddings.

    Attributes:
      id: ``bundled``, a Hub id, or the name of a folder.
      revision: commit on the Hub, or SHA-256 of the files.
      layer: number of the layer; 0 is the embedding output, k the output of block k.
      pooling: ``mean``, ``mean_no_special``, ``cls``, ``max`` or ``pooler``, followed by the layers that the
        checkpoint applies after it, as in ``cls+dense+normalize``.
      dtype: compute dtype of the blocks, and the dtype of the parameters if it differs.
      transform: human-readable names of the methods applied after the pooling; empty for raw embeddings.
      prompt: string prepended to each sentence.
      digests: digest of the arrays of each applied step; it differs between fits of one method on different text.
    """

    id: str
    revision: str
    layer: int
    pooling: str
    dtype: str
    transform: str = ""
    prompt: str = ""
    digests: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "EncoderSpec":
        """Returns the spec that ``to_dict`` wrote; prompt and digests may be missing, as in the first versions.

        Raises:
          TypeError: a field is unknown or missing.
        """
        return cls(**{**fields, "digests": tuple(map(str, fields.get("digests", ())))})

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON-serializable values."""
        return asdict(self) | {"digests": list(self.digests)}

    def same_space(self, other: "EncoderSpec") -> bool:
        """Whether vectors of both can be mixed: all fields but the id and the compute dtype are equal."""
        return self._space() == other._space()

    def hint(self) -> str:
        """Returns what to add to an error if a file written before specs had digests cannot be checked, else ''."""
        if not self.transform or self.digests:
            return ""
        return f"; its file does not record which fit of {self.transform} came before it; fit it again"

    def raw(self) -> "EncoderSpec":
        """Returns the spec of the same embeddings before any transform."""
        return replace(self, transform="", digests=())

    def after(self, transform: str, digests: Sequence[str]) -> "EncoderSpec":
        """Returns the spec of these embeddings after a further transform."""
        name = " then ".join(filter(None, (self.transform, transform)))
        return replace(self, transform=name, digests=(*self.digests, *digests))

    def _space(self) -> tuple[object, ...]:
        return self.revision, self.layer, self.pooling, self.prompt, self.transform, self.digests
