"""Files that are read strictly and written whole: JSON, new files and folders, arrays with a header, digests."""

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
]


def read_json(path: Path, kind: type) -> Any:
    """Returns the contents of a JSON file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not JSON, or does not hold a ``kind``.
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
    """Writes ``value`` as indented JSON; the file is replaced only when it is whole."""
    with new_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def inside(folder: Path, part: str, named_in: Path) -> Path:
    """Returns ``folder / part``.

    Raises:
      ValueError: ``part`` leads out of the folder.
    """
    # Judged by the words alone: the Hub's cache is made of links that leave the folder.
    if Path(part).is_absolute() or ".." in Path(part).parts:
        raise ValueError(f"{named_in} names a path outside its folder: {part}")
    return folder / part


def check_absent(folder: Path) -> None:
    """Raises FileExistsError if there is anything at ``folder`` but an empty folder."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists and is not overwritten; name another folder")


def check_parent(path: Path) -> None:
    """Checks that a file can be written at ``path``.

    Raises:
      FileNotFoundError: its folder does not exist.
      IsADirectoryError: ``path`` is a folder.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to save in")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields a path beside ``path`` to write to; it replaces ``path`` at the end of the block.

    If the block fails, or the process is killed, an old file at ``path`` stays as it was.

    Raises:
      FileNotFoundError: the folder of ``path`` does not exist.
      IsADirectoryError: ``path`` is a folder.
    """
    check_parent(path)
    # With the suffix last, since numpy adds one that is missing.
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
      FileExistsError: there is something at ``folder`` already.
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
    """Returns the digest of the files' contents, one after the other."""
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
      path: the file; an old one is replaced when the new one is whole.
      arrays: name to array.
      format: what kind of file this is, and its version; ``open_arrays`` checks it.
      header: any JSON value.

    Raises:
      FileNotFoundError: the folder of ``path`` does not exist.
      IsADirectoryError: ``path`` is a folder.
    """
    from safetensors.numpy import save_file

    # safetensors writes a buffer in the order in which it lies in memory.
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with new_file(path) as partial:
        save_file(tensors, str(partial), {"format": format, "header": json.dumps(header)})


@contextmanager
def open_arrays(path: Path, *, format: str, what: str) -> Iterator[ArrayFile]:
    """Opens a file that ``save_arrays`` wrote; arrays are read when they are asked for.

    Args:
      path: the file.
      format: the expected format.
      what: what kind of file is expected, for the error.

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
                # The first versions of transforms kept their header under another name.
                header = json.loads(metadata["header"] if "header" in metadata else metadata["provenance"])
            except (KeyError, ValueError, RecursionError) as error:
                raise ValueError(f"the header of {path} is damaged: {error!r}") from error
            yield ArrayFile(header, frozenset(file.keys()), file.get_tensor)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
