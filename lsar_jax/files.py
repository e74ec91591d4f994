"""Strict reading and atomic writing of files: JSON, arrays with a header, whole folders; and file digests."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ArrayFile",
    "check_absent",
    "check_parent",
    "inside",
    "new_file",
    "new_folder",
    "open_arrays",
    "read_json",
    "save_arrays",
    "sha256",
    "write_json",
    "write_text",
]


def read_json(path: Path, kind: type) -> Any:
    """Returns the contents of a JSON file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not JSON, or its value is not a ``kind``.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name} in {path.parent}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, kind):
        raise ValueError(f"{path} holds a JSON {type(value).__name__}, expected a {kind.__name__}")
    return value


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON; an old file is replaced only once the new one is complete."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` as UTF-8; an old file is replaced only once the new one is complete."""
    with new_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def inside(folder: Path, part: str, named_in: Path) -> Path:
    """Returns ``folder / part``.

    Raises:
      ValueError: ``part`` leads out of the folder.
    """
    # Only the path as written is checked: files in the Hub's cache are links that leave the folder.
    if Path(part).is_absolute() or ".." in Path(part).parts:
        raise ValueError(f"{named_in} names a path outside its folder: {part}")
    return folder / part


def check_absent(folder: Path) -> None:
    """Raises FileExistsError unless ``folder`` does not exist or is an empty folder."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists and will not be overwritten; choose another folder")


def check_parent(path: Path) -> None:
    """Checks that a file can be written at ``path``.

    Raises:
      FileNotFoundError: its folder does not exist.
      IsADirectoryError: ``path`` is a folder.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a file")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path in the same folder to write to, which replaces ``path`` at the end of the block.

    If the block fails or the process is killed, an existing file at ``path`` stays as it was.

    Raises:
      FileNotFoundError: the folder of ``path`` does not exist.
      IsADirectoryError: ``path`` is a folder.
    """
    check_parent(path)
    # The suffix comes last, because numpy appends it if it is missing.
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder that becomes ``folder`` at the end of the block, and is removed if the block fails.

    Raises:
      FileExistsError: ``folder`` already exists and is not an empty folder.
    """
    check_absent(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield new
        new.chmod(0o755)
        new.replace(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def sha256(paths: Iterable[Path]) -> str:
    """Returns the SHA-256 digest of the concatenated contents of the files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


class ArrayFile(NamedTuple):
    """An open file of arrays.

    Attributes:
      header: the JSON value that was saved with the arrays.
      names: names of the arrays.
      read: returns one array by its name.
    """

    header: Any
    names: frozenset[str]
    read: Callable[[str], np.ndarray]


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], *, format: str, header: Any) -> None:
    """Writes arrays and a JSON header as one safetensors file.

    Args:
      path: the file; an old one is replaced once the new one is complete.
      arrays: mapping from name to array.
      format: kind and version of the file, which ``open_arrays`` checks.
      header: any JSON value.

    Raises:
      FileNotFoundError: the folder of ``path`` does not exist.
      IsADirectoryError: ``path`` is a folder.
    """
    from safetensors.numpy import save_file

    # safetensors writes the buffer in memory order, so it must be contiguous.
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with new_file(path) as partial:
        save_file(tensors, str(partial), {"format": format, "header": json.dumps(header)})


@contextmanager
def open_arrays(path: Path, *, format: str, what: str) -> Iterator[ArrayFile]:
    """Opens a file that ``save_arrays`` wrote; arrays are read on demand.

    Args:
      path: the file.
      format: the expected format.
      what: kind of file that is expected, used in error messages.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not safetensors, has another format, or its header is damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no {what} at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != format:
                raise ValueError(f"{path} has format {metadata.get('format')!r}, expected {format!r}")
            try:
                # The first versions of transform files stored the header under another name.
                header = json.loads(metadata["header"] if "header" in metadata else metadata["provenance"])
            except (KeyError, ValueError, RecursionError) as error:
                raise ValueError(f"the header of {path} is damaged: {error!r}") from error
            yield ArrayFile(header, frozenset(file.keys()), file.get_tensor)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
