"""The one way of long jobs: options recorded, a lock, parts that appear whole, and parts that exist are done.

Encoding, mining, an evaluation and a training each have a folder with a record of their options, which other options
do not resume; a lock, which keeps a second run away; and parts, files that appear whole (``lsar_jax.files.new_file``).
Parts are compared with their digests, and work is deleted, only here.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lsar_jax.embeddings.job_shares import WHOLE, begin_shares, check_share, share_count
from lsar_jax.files import new_file, read_json, sha256, unused, write_json

__all__ = [
    "JOB_FILES",
    "NUMBER",
    "RECORD",
    "Progress",
    "changed_options",
    "check_digest",
    "check_own",
    "is_part_of",
    "is_written",
    "locked",
    "new_output",
    "remove_partial_files",
    "versions",
    "work_folder",
]

#: The record of a job in the folder of its work.
RECORD = "job.json"
#: A regular expression of the number of a part, as ``f"{number:05d}"`` writes it.
NUMBER = "([0-9]{5}|[1-9][0-9]{5,})"
#: The names of the files in it that are not parts.
JOB_FILES = rf"lock(-{NUMBER})?|job\.json|shares\.json|arguments\.json|done-{NUMBER}\.json"
_LOCKED = re.compile(rb"$|\d+\n")
# A file or folder that is not finished, or not quite deleted.
_UNFINISHED = re.compile(r"^\.(.+)\.[0-9a-f]{16}\.partial(\..*)?$")


class Progress(NamedTuple):
    """How far a job is, after each of its parts.

    Attributes:
      done: number of rows that are encoded, or of blocks of sources that are compared.
      share: share of the input that is done, from 0 to 1, or None.
      left: seconds left at the rate of this run, or None.
    """

    done: int
    share: float | None
    left: float | None


def changed_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Names the options that differ from those that a job was begun with, with both values; empty if none does."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} was {before.get(name)!r} and is now {now.get(name)!r}" for name in names)


def check_digest(path: Path, digest: str, advice: str) -> None:
    """Raises ValueError, which ends in ``advice``, if a file of a part has another digest."""
    if sha256([path]) != digest:
        raise ValueError(f"{path} is corrupt: its SHA-256 does not match the manifest; {advice}")


def versions() -> str:
    """The versions that the bytes of a job depend on."""
    return f"lsar_jax {version('lsar_jax')}, jax {jax.__version__}"


@contextmanager
def locked(folder: Path, refusal: str, number: int = 0) -> Iterator[None]:
    """Creates the folder of a job, and keeps other runs out of it, or of a share of it, during the block.

    Raises ValueError with the text ``refusal`` if another run holds it, or if another file has the name of the lock,
    and OSError if it cannot be locked.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"lock-{number:05d}" if number else "lock")
    # Some versions of filelock would empty the file; where there are no locks, they write the number of the process.
    if os.path.lexists(path) and (not path.is_file() or path.is_symlink() or not _LOCKED.match(path.read_bytes())):
        raise ValueError(f"{path} is not the lock of a run; move it away, or choose another folder")
    lock = FileLock(path, timeout=0)
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
def work_folder(
    folder: Path, output: Path, names: str, shard: tuple[int, int] = WHOLE, *, finished: Path | None = None
) -> Iterator[None]:
    """Locks a folder for the work of a job that writes ``output``, and removes it if the block succeeds.

    A share locks only its parts, and removes nothing; a job that was begun in shares is locked whole if all are done.
    Its record goes last, and at once, so that a job that is killed while its parts are deleted can go on.

    Args:
      folder: the folder; it may exist if only this job has written there.
      output: what the job writes, for errors.
      names: a regular expression of the paths in the folder that the job writes, as for ``check_own``.
      shard: the number of the share of the job that is done, and the number of shares.
      finished: a file that the job writes last, after which shares do not count.
    """
    number, count = check_share(shard)
    check_own(folder, names)
    gone = unused(folder)
    with ExitStack() as locks:
        for part in range(number, number + 1 if count > 1 else share_count(folder)):
            which = f"share {part}/{count if count > 1 else share_count(folder)} of " if part or count > 1 else ""
            refusal = f"{which}{output} is being written by another process; wait for it"
            locks.enter_context(locked(folder, refusal, part))
        begin_shares(folder, output, count, finished is not None and finished.is_file())
        yield
        if count > 1:
            return
        with suppress(OSError):
            _remove(folder, gone, names)
    # Some file systems keep the open lock, and so the folder, until it is closed.
    for left in (gone, folder):
        with suppress(OSError):
            left.rmdir()


@contextmanager
def new_output(work: Path, path: Path) -> Iterator[Path]:
    """Yields a new file for an output, whose digest the record of a job in shares has before it is in its place."""
    with new_file(path) as partial:
        yield partial
        if share_count(work) > 1:
            record = read_json(work / RECORD, dict)
            written = {**(record["written"] or {}), str(path): sha256([partial])}
            write_json(work / RECORD, {**record, "written": written})


def is_written(work: Path, path: Path) -> bool:
    """Whether an output is what the job with this folder of work wrote, so that it may be written again."""
    known = read_json(work / RECORD, dict).get("written") if (work / RECORD).is_file() else None
    return isinstance(known, dict) and path.is_file() and known.get(str(path)) == sha256([path])


def check_own(folder: Path, names: str) -> None:
    """Raises ValueError if a folder of work is a link or a file, or holds what the job does not write.

    ``names`` is a regular expression of the paths that it writes, relative to the folder; folders end in /.
    """
    strange = [folder] if folder.is_symlink() or (folder.exists() and not folder.is_dir()) else []
    for path in strange or (path for path, own in _contents(folder, names) if not own):
        raise ValueError(f"{path} is where a job keeps work that it deletes; move it away, or choose another output")


def remove_partial_files(folder: Path, names: str, shard: tuple[int, int] = WHOLE) -> None:
    """Removes the unfinished files of these ``names``, as for ``check_own``, that a killed process left in a folder.

    Of a share, only those with a number of its parts: others may be written by processes that go on.
    """
    for path, own in list(_contents(folder, names)):
        if own and is_part_of(path, shard) and any(map(_UNFINISHED.match, path.relative_to(folder).parts)):
            _delete(path)


def is_part_of(path: Path, shard: tuple[int, int]) -> bool:
    """Whether a file is of a part of this shard, by the number in its name; of a whole job, all are."""
    found = re.search(rf"{NUMBER}\.", _UNFINISHED.sub(r"\1\2", path.name))
    return shard[1] == 1 or (found is not None and int(found[1]) % shard[1] == shard[0])


def _contents(folder: Path, names: str) -> Iterator[tuple[Path, bool]]:
    """Yields what is in a folder, what is in folders in it first, and whether it is the job's."""
    for place, folders, files in os.walk(folder, topdown=False):
        for path in (Path(place, name) for name in (*files, *folders)):
            name = "/".join(_UNFINISHED.sub(r"\1\2", part) for part in path.relative_to(folder).parts)
            right = (path.is_file() or path.is_dir()) and not path.is_symlink()
            if right or os.path.lexists(path):  # a file of a run that goes on may be gone
                # safetensors writes to a name such as .tmpAbCdEf, and then renames it.
                own = re.fullmatch(rf"{names}|(.+/)?\.tmp\w{{6}}", name + "/" * path.is_dir())
                yield path, right and own is not None


def _remove(folder: Path, gone: Path, names: str) -> None:
    """Removes the work of a finished job: parts, the manifests of folders, and then, as ``gone``, its record."""
    parts = [path for path, own in _contents(folder, names) if own]
    last = [path for path in parts if path.parent == folder and re.fullmatch(JOB_FILES, path.name)]
    paths = [path for path in parts if path not in last]
    for path in sorted(paths, key=lambda path: (path.is_dir(), path.name == "manifest.json")):
        _delete(path)
    # What somebody has put there in the meantime stays where it is.
    if {path for path, _ in _contents(folder, names)} <= {*last}:
        folder = folder.rename(gone)
    for path in last:
        _delete(folder / path.name)


def _delete(path: Path) -> None:
    """Deletes a file, or a folder that is empty by now."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with suppress(OSError):
        path.rmdir()
