"""The name of an embedding space: which encoder, layer and pooling made the vectors."""

from dataclasses import asdict, dataclass

__all__ = ["EncoderSpec"]


@dataclass(frozen=True)
class EncoderSpec:
    """What one must know to make the same embeddings again.

    Attributes:
      id: ``bundled``, a Hub id, or the name of a folder.
      revision: commit of the Hub, or sha256 of the weights.
      layer: 0 is the embedding output, k the output of block k.
      pooling: ``mean``, ``mean_no_special``, ``cls``, ``max`` or ``pooler``, and what the
        checkpoint applies after it, as in ``cls+dense+normalize``.
      dtype: the compute dtype of the blocks, and that of the parameters if it is another.
      transform: what was applied after pooling; empty for raw embeddings.
    """

    id: str
    revision: str
    layer: int
    pooling: str
    dtype: str
    transform: str = ""

    def same_space(self, other: "EncoderSpec") -> bool:
        """Whether vectors of both may be mixed: all but the folder's name and the compute dtype agree."""
        return self._space() == other._space()

    def to_dict(self) -> dict[str, str | int]:
        """Returns the fields, for JSON."""
        return asdict(self)

    def _space(self) -> tuple[str, int, str, str]:
        return self.revision, self.layer, self.pooling, self.transform
