"""Where each distinct sentence of a stream came first: an index on disk, so that memory does not grow with the text."""

import hashlib
import sqlite3
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
from jaxtyping import Int

__all__ = ["Seen"]

# Bytes of a sentence's digest: two of 10^12 sentences are taken for one with a probability below 10^-14.
_BYTES = 16
# Memory of the index in KiB; what does not fit is read from its file.
_CACHE = 65536


class Seen:
    """The row in which each distinct sentence was first added.

    Args:
      path: the file of the index, which is replaced: it can be made again from the text.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.unlink(missing_ok=True)
        self._base = sqlite3.connect(path, isolation_level=None)
        # Nothing has to survive a crash.
        self._base.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE};"
            "CREATE TABLE seen (digest BLOB PRIMARY KEY, row INTEGER) WITHOUT ROWID"
        )

    def add(self, texts: Sequence[str], first: int) -> Int[np.ndarray, " text"]:
        """Returns for each sentence the row in which it came first, which is its own if it is new.

        Args:
          texts: the sentences of the rows ``first``, ``first + 1``, ...
          first: number of the first row.

        Raises:
          OSError: the index cannot be written, for example because the disk is full.
        """
        digests = [_digest(text) for text in texts]
        try:
            self._base.execute("BEGIN")
            self._base.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", zip(digests, count(first), strict=False))
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise OSError(f"{self._path} was not written: {error}") from error
        find = self._base.cursor().execute
        rows = (find("SELECT row FROM seen WHERE digest = ?", (digest,)).fetchone()[0] for digest in digests)
        return np.fromiter(rows, np.int64, len(digests))

    def close(self) -> None:
        """Closes the file."""
        self._base.close()


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_BYTES).digest()
