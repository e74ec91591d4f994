"""Strict reading of JSON, atomic writing of files and folders, and file digests."""

import csv
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "check_absent", "check_file", "check_outputs", "check_outside", "check_parent", "inside", "is_within", "new_file",
    "new_folder", "read_json", "read_table", "same_file", "sha256", "text_sha256", "unused", "write_json",
    "write_text",
]  # fmt: skip


# What a pointer of Git LFS begins with, and more bytes than it has.
_POINTER, _MOST_OF_POINTER = b"version https://git-lfs.github.com/spec/", 1024


def read_json(path: Path, kind: type[Any], keys: Collection[str] = ()) -> Any:
    """Returns the value of a JSON file, a ``kind``, and a dict with these keys if there are any.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the path is not a file's, the file is not JSON, or its value is another.
    """
    check_file(path)
    try:
        value: Any = json.loads(path.read_bytes())  # which finds out UTF-16, and drops marks
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, kind) or any(key not in value for key in keys):
        of_keys = f" with {', '.join(keys)}" if keys else ""
        raise ValueError(f"{path} holds a JSON {type(value).__name__}, expected a {kind.__name__}{of_keys}")
    return value


def read_table(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a table of the package, a CSV file, by the names in its first line."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_file(path: Path, *, streams: bool = False) -> None:
    """Raises FileNotFoundError or ValueError unless ``path`` is a file, and not what Git LFS has in place of one.

    With ``streams``, a pipe or a device may be read, from its beginning to its end; elsewhere, a pipe would hang.
    """
    if streams and path.exists() and not (path.is_dir() or path.is_file()):
        return
    if not os.path.lexists(path):
        raise FileNotFoundError(f"there is no {path.name} in {path.parent}")
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give one, or put one in its place")
    if path.stat().st_size < _MOST_OF_POINTER and path.read_bytes().startswith(_POINTER):
        raise ValueError(f"{path} is a pointer of Git LFS, not the file itself, which git lfs pull fetches")


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON, as ``write_text``."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` as UTF-8; an old file is replaced only once the new one is complete."""
    with new_file(path) as partial:
        # The bytes of a path that are not UTF-8 are lone surrogates, which become the escapes that JSON has for them.
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def inside(folder: Path, part: str, named_in: Path) -> Path:
    """Returns ``folder / part``; raises ValueError if ``part``, which the file ``named_in`` names, leads out of it."""
    # Only the path as written is checked: files in the Hub's cache are links that leave the folder.
    if Path(part).is_absolute() or ".." in Path(part).parts:
        raise ValueError(f"{named_in} names a path outside its folder: {part}")
    return folder / part


def check_absent(folder: Path, besides: Collection[str] = (), without: str = "") -> None:
    """Raises FileExistsError unless ``folder`` does not exist or is a folder with nothing ``besides`` these names.

    The error mentions the absence of the file ``without``.
    """
    if folder.exists() and not (folder.is_dir() and all(path.name in besides for path in folder.iterdir())):
        why = f"already exists without {without}" if without else "already exists"
        raise FileExistsError(f"{folder} {why} and will not be overwritten; choose another folder")


def check_parent(path: Path) -> None:
    """Raises an error unless a file can be written at ``path``: no folder, device, pipe or socket, in a folder."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    # Standard output is a link in /dev, perhaps to a regular file.
    system = {"/dev", "/proc"} & {str(place) for place in Path(os.path.abspath(path)).parents}
    if system or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} is not a file, and will not be replaced by one; give the path of a file")


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path] = (), *, overwrite: bool = False) -> None:
    """Checks, before any work, that files can be written without losing others.

    Raises:
      OSError: a file exists, and ``overwrite`` is not given, or its folder does not exist or cannot be written.
      ValueError: an output is also an input, in a folder that is an input, or another output.
    """
    outputs, inputs = list(outputs), list(inputs)
    for number, path in enumerate(outputs):
        check_parent(path)
        for folder in inputs:
            check_outside(path, folder)
        if any(same_file(path, other) for other in (*inputs, *outputs[:number])):
            raise ValueError(f"{path} is also an input or another output; choose another file")
        if os.path.lexists(path) and not overwrite:
            raise FileExistsError(f"{path} already exists; choose another file, or replace it with --overwrite")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(f"files cannot be written in {path.parent}; choose another folder")


def check_outside(path: Path, folder: Path) -> None:
    """Raises ValueError if ``path`` is a folder that is read, or in it, because its digest would change."""
    if folder.is_dir() and is_within(path, folder):
        raise ValueError(f"{path} is in {folder}, which is read; choose another place for the output")


def is_within(path: Path, folder: Path) -> bool:
    """Whether a path, after all links, is a folder or in it; neither need exist."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths, which need not exist, lead to one file."""
    try:
        return path.samefile(other)
    except OSError:  # one of them does not exist
        return os.path.realpath(path) == os.path.realpath(other)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields an empty new file in the same folder to write to, which replaces ``path`` at the end of the block.

    Until then, an existing file at ``path`` stays as it was; a link is replaced, not followed. Raises OSError if the
    file cannot be written, for example because the disk is full.
    """
    check_parent(path)
    partial = unused(path)
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = partial.stat().st_mode
        yield partial
        # A writer may have put a file of its own here; that of safetensors can be read by its owner only.
        partial.chmod(mode)
        _to_disk(partial)
        partial.replace(path)
    except OSError as error:
        if error.filename not in (None, str(partial)):
            raise
        named = type(error)(f"{path} was not written: {error.strerror or error}")
        named.errno = error.errno
        raise named from error
    finally:
        partial.unlink(missing_ok=True)
    with suppress(OSError):  # the new file is in its place; some folders cannot be opened
        _to_disk(path.parent)


@contextmanager
def new_folder(folder: Path, replaced: str = "") -> Iterator[Path]:
    """Yields an empty folder that becomes ``folder`` at the end of the block, and is removed if the block fails.

    Args:
      folder: the path; nothing or an empty folder may be there.
      replaced: a file by which a folder that may be replaced as a whole is known; empty if none may be.

    Raises:
      FileExistsError: something else is there.
    """
    folder = Path(os.path.realpath(folder)) if replaced else folder
    old = unused(folder) if replaced and (folder / replaced).is_file() else None
    if old is None:
        check_absent(folder, without=replaced)
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = unused(folder)
    new.mkdir()
    try:
        yield new
        for path in new.rglob("*"):
            if path.is_file():
                # safetensors writes files that only their owner can read.
                path.chmod(stat.S_IMODE(new.stat().st_mode) & 0o666)
                _to_disk(path)
        if old is not None:
            folder.replace(old)
        new.replace(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        if old is not None and old.exists() and not folder.exists():
            old.replace(folder)
        raise
    if old is not None:
        shutil.rmtree(old)


def text_sha256(text: str) -> str:
    """The SHA-256 digest of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256(paths: Iterable[Path]) -> str:
    """The SHA-256 digest of the concatenated contents of the files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def unused(path: Path) -> Path:
    """A name beside ``path`` that nobody else has."""
    # File names have at most 255 bytes. The suffix comes last, because numpy appends it if it is missing.
    stem, suffix = (os.fsdecode(os.fsencode(part)[:100]) for part in (path.stem, path.suffix))
    return path.with_name(f".{stem}.{secrets.token_hex(8)}.partial{suffix}")


def _to_disk(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
