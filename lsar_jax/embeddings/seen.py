"""Where each distinct sentence of a stream came first: a hash table on disk, so that memory does not grow with it.

A table of SQLite was tried first, and took three times as long, which is longer than a GPU may take to encode.
"""

import hashlib
import mmap
import tempfile
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, UInt64

__all__ = ["Seen"]

# Bytes of a sentence's digest: two of 10^12 sentences are taken for one with a probability below 10^-14.
_BYTES = 16
# Slots of a new table; it is doubled before it is half full.
_SLOTS = 1 << 16
# Sentences that are looked up at a time: each touches a page of 4 KB, which is then given back.
_AT_ONCE = 8192
# Slots that are written or moved at a time.
_MOVED = 1 << 16


class Seen:
    """The row in which each distinct sentence was first added, in a file in the folder for temporary files.

    A slot of the table is three numbers: two of the digest, and the row plus 1, or 0 if the slot is free. A digest is
    in the slot that its first number chooses, or in the next that was free.
    """

    def __init__(self) -> None:
        self._table = _new(_SLOTS)
        self._used = 0

    def add(self, texts: Sequence[str], first: int) -> Int[np.ndarray, " text"]:
        """Returns for each sentence the row in which it came first, which is its own if it is new.

        Args:
          texts: the sentences of the rows ``first``, ``first + 1``, ...
          first: number of the first row, higher than all rows before.

        Raises:
          OSError: the table cannot be written, for example because the disk is full.
        """
        found = [np.zeros(0, np.int64)]
        for start in range(0, len(texts), _AT_ONCE):
            part = texts[start : start + _AT_ONCE]
            while 2 * (self._used + len(part)) > len(self._table):
                self._double()
            found.append(self._places(_digests(part), first + start))
            _give_back(self._table)
        return np.concatenate(found)

    def close(self) -> None:
        """Gives the file back, as the end of the process does."""
        del self._table

    def _places(self, digests: UInt64[np.ndarray, "text 2"], first: int) -> Int[np.ndarray, " text"]:
        # The first of each digest, and which of these each sentence equals.
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        ordered = digests[order]
        starts = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
        which = np.empty(len(digests), np.int64)
        which[order] = np.cumsum(starts) - 1
        leaders = order[starts]
        found = self._insert(digests[leaders], leaders + first + 1) - 1
        self._used += int((found >= first).sum())
        return found[which]

    def _insert(self, keys: UInt64[np.ndarray, "key 2"], values: Int[np.ndarray, " key"]) -> Int[np.ndarray, " key"]:
        """Adds distinct digests that are not there, and returns the value that each has in the table."""
        table, last = self._table, np.uint64(len(self._table) - 1)
        slots = keys[:, 0] & last
        found = np.zeros(len(keys), np.int64)
        left = np.arange(len(keys))
        while len(left):
            entries = table[slots[left]]
            free = entries[:, 2] == 0
            same = ~free & (entries[:, :2] == keys[left]).all(axis=1)
            found[left[same]] = entries[same, 2].astype(np.int64)
            # Of those that want one free slot, the first takes it; the others look at it again.
            wanting = left[free]
            taking = wanting[np.unique(slots[wanting], return_index=True)[1]]
            table[slots[taking], :2] = keys[taking]
            table[slots[taking], 2] = values[taking].astype(np.uint64)
            found[taking] = values[taking]
            onward = left[~free & ~same]
            slots[onward] = (slots[onward] + np.uint64(1)) & last
            left = left[found[left] == 0]
        return found

    def _double(self) -> None:
        old = self._table
        self._table = _new(2 * len(old))
        for start in range(0, len(old), _MOVED):
            part = np.array(old[start : start + _MOVED])
            part = part[part[:, 2] > 0]
            self._insert(part[:, :2], part[:, 2].astype(np.int64))
            _give_back(old)
            _give_back(self._table)


def _new(slots: int) -> np.memmap:
    """Returns an empty table, in a file that has no name, so that it is gone when the process ends in any way."""
    try:
        with tempfile.TemporaryFile() as file:
            # Written, because a process that writes to a hole of a mapped file ends if the disk is full.
            for _ in range(slots // _MOVED):
                file.write(bytes(3 * 8 * _MOVED))
            file.flush()
            return np.memmap(file, np.uint64, "r+", shape=(slots, 3))
    except OSError as error:
        told = f"the table of distinct sentences was not written in {tempfile.gettempdir()}: {error.strerror}"
        raise OSError(f"{told}; set TMPDIR to a folder with more space") from error


def _digests(texts: Sequence[str]) -> UInt64[np.ndarray, "text 2"]:
    made = b"".join(hashlib.blake2b(text.encode(), digest_size=_BYTES).digest() for text in texts)
    return np.frombuffer(made, np.uint64).reshape(-1, 2)


def _give_back(table: np.memmap) -> None:
    """Lets the pages of a table go out of this process; their contents stay in the file, or in memory that is free."""
    mapped = table._mmap  # type: ignore[attr-defined]
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
