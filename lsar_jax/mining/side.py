"""A collection to mine: the distinct sentences of a folder, in blocks."""

import numpy as np
from jaxtyping import Float

from lsar_jax.embeddings import Embeddings
from lsar_jax.transforms import Transform

__all__ = ["Side"]


class Side:
    """The distinct sentences of a folder, in blocks of at most ``block``; a transform is applied as they are read.

    The files of a share of the folder, ``shard``, are compared with their digests first.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        language: str | None,
        transform: Transform | None,
        block: int,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        if transform is not None:
            embeddings.check_transform(transform)
        embeddings.check(shard)
        self.embeddings, self.transform, self.language = embeddings, transform, language
        self.rows = embeddings.distinct()
        if not len(self.rows):
            raise ValueError(f"{embeddings.folder} has only blank sentences")
        # Blocks of nearly one size: in a block with less than k rows, neighbours would be lost.
        self.blocks = np.array_split(self.rows, -(-len(self.rows) // block))
        self.starts = np.cumsum([0, *map(len, self.blocks)]).tolist()

    def vectors(self, number: int) -> Float[np.ndarray, "row dim"]:
        """Returns the vectors of a block."""
        x = self.embeddings.take(self.blocks[number]).astype(np.float32, copy=False)
        return x if self.transform is None else np.asarray(self.transform(x, self.language))
