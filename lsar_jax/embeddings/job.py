"""The one way of long jobs: options recorded, a lock, parts that appear whole, and parts that exist are done.

Encoding, mining, an evaluation and a training each have a folder with a record of their options, which other options
do not resume; a lock, which keeps a second run away; and parts, files that appear whole (``lsar_jax.files.new_file``).
Process i of n takes the parts ``i::n``. Parts are compared with their digests, and work is deleted, only here.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lsar_jax.files import sha256
from lsar_jax.processes import is_first, share

__all__ = [
    "Progress",
    "changed_options",
    "locked",
    "missing_files",
    "remove_partial_files",
    "remove_work",
    "share_of",
    "work_folder",
]

T = TypeVar("T")


class Progress(NamedTuple):
    """How far a job is, after each of its parts; its string is what the command line prints.

    Attributes:
      done: number of rows that are encoded, or of blocks of sources that are compared, as far as this process knows.
      share: share of the input that is done, from 0 to 1; None if the size of the input is not known.
      left: seconds left at the rate of this run; None if that is not known.
      text: the number that is done, in words, and the rate.
    """

    done: int
    share: float | None
    left: float | None
    text: str

    def __str__(self) -> str:
        parts = [self.text]
        if self.share is not None:
            parts.append(f"{100 * self.share:.0f}%")
        if self.left:
            parts.append(f"{self.left / 60:,.1f} min left")
        return "; ".join(parts)


def changed_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Names the options that differ from those that a job was begun with, with both values; empty if none does."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} was {before.get(name)!r} and is now {now.get(name)!r}" for name in names)


def share_of(parts: Sequence[T]) -> Sequence[T]:
    """Returns the parts of this process: those at ``i::n``."""
    number, count = share()
    return parts[number::count]


def missing_files(folder: Path, parts: Iterable[Mapping[str, str]], advice: str) -> list[list[str]]:
    """Compares parts with their digests, and returns the names of the files that each part lacks.

    Args:
      folder: the folder of the files.
      parts: the digest of each file of a part.
      advice: what to do about a damaged file, for the error.

    Raises:
      ValueError: a file is damaged.
    """
    missing = []
    for files in parts:
        missing.append([name for name in files if not (folder / name).is_file()])
        for name in files.keys() - set(missing[-1]):
            if sha256([folder / name]) != files[name]:
                raise ValueError(f"{folder / name} is damaged: it is not what was written; {advice}")
    return missing


@contextmanager
def locked(folder: Path, refusal: str) -> Iterator[None]:
    """Creates the folder of a job, and keeps other runs out of it during the block; process 0 holds the lock for all.

    Args:
      folder: the folder.
      refusal: the error if another run holds it.

    Raises:
      ValueError: another run holds it.
      OSError: it cannot be locked.
    """
    from filelock import FileLock, Timeout

    if not is_first():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(refusal) from error
    except NotImplementedError as error:
        raise OSError(f"{folder} is on a file system without locks; write to another one") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def work_folder(folder: Path, output: Path) -> Iterator[None]:
    """Locks a folder for the work of a job, and removes it if the block succeeds.

    Args:
      folder: the folder; it may exist.
      output: what the job writes, named in the error.

    Raises:
      ValueError: another process holds the folder.
      OSError: it cannot be locked.
    """
    with locked(folder, f"{output} is being written by another process; wait for it"):
        yield
        remove_work(folder)
    # Some file systems keep the open lock, and so the folder, until it is closed.
    with suppress(OSError):
        folder.rmdir()


def remove_work(folder: Path) -> None:
    """Removes the folder of a job that is finished; of several processes, process 0 does."""
    if is_first():
        shutil.rmtree(folder, ignore_errors=True)


def remove_partial_files(*folders: Path) -> None:
    """Removes the unfinished files that a killed process left in folders."""
    for folder in folders:
        for path in folder.glob(".*.partial*"):
            path.unlink(missing_ok=True)
