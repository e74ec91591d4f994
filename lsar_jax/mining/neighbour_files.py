"""The files of a job of mining in which it keeps the nearest rows that it has found; the job goes on from them.

The format of a file has its name and the digest of the job, so that other blocks' or jobs' are refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.array_files import ArrayFile, open_arrays, save_arrays
from lsar_jax.checks import errors_of

__all__ = ["Nearest", "NeighbourFiles", "forward_name", "merged", "no_neighbours"]

# The cosines of the nearest rows of the other side, best first, and the numbers of these rows, ``[row, k]`` each.
Nearest = tuple[Float[np.ndarray, "_ _"], Int[np.ndarray, "_ _"]]


class NeighbourFiles(NamedTuple):
    """The files of neighbours of a job, each with the blocks of sources that they were found for or among."""

    folder: Path
    format: str

    def save(self, name: str, best: Nearest, blocks: list[int]) -> None:
        """Writes a file."""
        arrays = {"cosines": best[0], "rows": best[1]}
        save_arrays(self.folder / name, arrays, format=f"{self.format}, {name}", header=blocks)

    def read(self, name: str) -> Nearest:
        """Returns the neighbours of a file."""
        with self._opened(name) as file:
            return file.read("cosines"), file.read("rows")

    def carried(self) -> dict[str, list[int]]:
        """Returns the files of the neighbours of targets, one a process, and the blocks that they were found among.

        Raises:
          ValueError: a file is of another job, or a block's neighbours have none.
        """
        blocks = {}
        for path in sorted(self.folder.glob("backward-*.safetensors")):
            with self._opened(path.name) as file:
                blocks[path.name] = list(map(int, file.header))
        for block in sorted(block for found in blocks.values() for block in found):
            if not (path := self.folder / forward_name(block)).is_file():
                raise ValueError(f"{path} is missing; remove {self.folder}, and mine again")
        return blocks

    @contextmanager
    def _opened(self, name: str) -> Iterator[ArrayFile]:
        path, format = self.folder / name, f"{self.format}, {name}"
        with (
            errors_of(f"remove {self.folder}, and mine again"),
            open_arrays(path, format=format, what="neighbours") as file,
        ):
            yield file


def forward_name(block: int) -> str:
    """Returns the name of the file of the nearest targets of a block of sources."""
    return f"forward-{block:05d}.safetensors"


def no_neighbours(rows: int, k: int) -> Nearest:
    """Returns lists that any neighbour improves."""
    return np.full((rows, k), -np.inf, np.float32), np.zeros((rows, k), np.int32)


def merged(best: Nearest, other: tuple[Any, Any], first: int = 0) -> Nearest:
    """Returns the best k of two lists; rows of the second count from ``first``. Ties go to the lower row."""
    cosines = np.concatenate([best[0], np.asarray(other[0])], axis=1)
    rows = np.concatenate([best[1], np.asarray(other[1], np.int32) + np.int32(first)], axis=1)
    order = np.lexsort((rows, -cosines), axis=1)[:, : best[0].shape[1]]
    return np.take_along_axis(cosines, order, axis=1), np.take_along_axis(rows, order, axis=1)
