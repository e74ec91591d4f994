"""Arrays and a JSON header in one safetensors file, with digests that are checked when it is read."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.checks import errors_of
from lsar_jax.files import check_file, new_file, text_sha256

__all__ = ["ArrayFile", "open_arrays", "save_arrays"]

# Name of the entry of a safetensors file's metadata.
_ENTRY = "lsar_jax"


class ArrayFile(NamedTuple):
    """An open file: its JSON header, the names of its arrays, and a function that reads one of them."""

    header: Any
    names: frozenset[str]
    read: Callable[[str], np.ndarray]


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], *, format: str, header: Any) -> None:
    """Writes arrays and a JSON header as one safetensors file; the same contents give the same bytes.

    Args:
      path: the file; an old one is replaced once the new one is complete.
      arrays: the arrays by name.
      format: kind and version of the file, which ``open_arrays`` checks.
      header: any JSON value.

    Raises:
      OSError: the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    # safetensors writes the buffer in memory order, so it must be contiguous.
    tensors = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    digests = {name: _digest(array) for name, array in tensors.items()}
    contents = json.dumps({"format": format, "header": header, "sha256": digests})
    # One entry, because safetensors writes several in an order of its own.
    metadata = {_ENTRY: json.dumps({"sha256": text_sha256(contents), "contents": contents})}
    with new_file(path) as partial:
        try:
            save_file(tensors, str(partial), metadata)
        except SafetensorError as error:
            raise OSError(None, str(error)) from error


@contextmanager
def open_arrays(path: Path, *, format: str, what: str) -> Iterator[ArrayFile]:
    """Opens a file that ``save_arrays`` wrote; an array is compared with its digest when it is read.

    Args:
      path: the file.
      format: the expected format.
      what: kind of file that is expected, used in errors.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is not safetensors, has another format, or is damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no {what} at {path}")
    check_file(path)
    with errors_of(f"{path} is not a safetensors file", SafetensorError), safe_open(path, framework="numpy") as file:
        contents = _contents(path, file.metadata() or {})
        if contents["format"] != format:
            raise ValueError(f"{path} has format {contents['format']!r}, expected {format!r}")

        def read(name: str) -> np.ndarray:
            array = file.get_tensor(name)
            if _digest(array) != contents["sha256"].get(name):
                raise ValueError(f"{path} is damaged: the SHA-256 of {name} does not match its header")
            return array

        yield ArrayFile(contents["header"], frozenset(file.keys()), read)


def _contents(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Returns the format, the header and the digests of the arrays; a ValueError if they are absent or changed."""
    try:
        entry = json.loads(metadata[_ENTRY])
        if text_sha256(entry["contents"]) == entry["sha256"]:
            return json.loads(entry["contents"])
    except (KeyError, TypeError, ValueError):
        pass
    raise ValueError(f"the header of {path} is damaged, or lsar_jax has not written it")


def _digest(array: np.ndarray) -> str:
    result = hashlib.sha256(repr((array.dtype.str, array.shape)).encode())
    result.update(array.data.cast("B") if array.size else b"")
    return result.hexdigest()
