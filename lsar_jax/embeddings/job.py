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
    "share_of",
    "work_folder",
]

T = TypeVar("T")


class Progress(NamedTuple):
    """How far a job is, after each of its parts; its string is what the command line prints.

    Attributes:
      done: number of rows that are encoded, or of blocks of sources that are compared, as far as this process knows.
      share: share of the input that is done, from 0 to 1, or None.
      left: seconds left at the rate of this run, or None.
      text: the number that is done, in words, and the rate.
    """

    done: int
    share: float | None
    left: float | None
    text: str

    def __str__(self) -> str:
        share = "" if self.share is None else f"; {100 * self.share:.0f}%"
        return self.text + share + (f"; {self.left / 60:,.1f} min left" if self.left else "")


def changed_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Names the options that differ from those that a job was begun with, with both values; empty if none does."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} was {before.get(name)!r} and is now {now.get(name)!r}" for name in names)


def share_of(parts: Sequence[T]) -> Sequence[T]:
    """Returns the parts of this process: those at ``i::n``."""
    number, count = share()
    return parts[number::count]


def missing_files(folder: Path, parts: Iterable[Mapping[str, str]], advice: str) -> list[list[str]]:
    """Returns the names of the files that each part lacks; a file with another digest is an error with ``advice``."""
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

    Raises ValueError with the text ``refusal`` if another run holds it, and OSError if it cannot be locked.
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
    """Locks a folder for the work of a job that writes ``output``, and removes it if the block succeeds."""
    with locked(folder, f"{output} is being written by another process; wait for it"):
        yield
        if is_first():
            shutil.rmtree(folder, ignore_errors=True)
    # Some file systems keep the open lock, and so the folder, until it is closed.
    with suppress(OSError):
        folder.rmdir()


def remove_partial_files(*folders: Path) -> None:
    """Removes the unfinished files that a killed process left in folders."""
    for folder in folders:
        for path in folder.glob(".*.partial*"):
            path.unlink(missing_ok=True)
