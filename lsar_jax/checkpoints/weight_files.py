"""Tensors of a checkpoint: their names and shapes are known, and their rows are read on demand.

Only safetensors files are opened, which contain no code. A file is reopened for every few megabytes: the library maps
it into memory, and the pages already read would otherwise stay, as a second copy of the weights.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lsar_jax.checks import errors_of
from lsar_jax.files import check_file, read_json

__all__ = ["Tensor", "open_safetensors", "read_tensor", "shard_files"]

_SLAB_BYTES = 4 << 20


class Tensor(NamedTuple):
    """A tensor that has not been read yet."""

    shape: tuple[int, ...]
    rows: Callable[[int, int], np.ndarray]  # reads [start, stop) of the first axis
    kind: str = "F32"  # dtype of the stored numbers, as named by safetensors


def read_tensor(tensor: Tensor, name: str, dtype: Any = np.float32, *, transpose: bool = False) -> np.ndarray:
    """Reads a tensor, slab by slab, into memory that XLA's CPU backend can use without a copy.

    Args:
      tensor: a matrix, or a vector.
      name: name used in error messages.
      dtype: dtype of the result.
      transpose: whether to transpose ``[out, in]`` to ``[in, out]``.

    Raises:
      ValueError: a value is NaN or infinite, or becomes infinite in ``dtype``.
    """
    shape, dtype = tensor.shape[::-1] if transpose else tensor.shape, jnp.dtype(dtype)
    # XLA requires that its buffers are aligned to 64 bytes.
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    result = raw[start : start + size].view(dtype).reshape(shape)
    into = result.T if transpose else result
    step = max(1, _SLAB_BYTES // (4 * int(np.prod(tensor.shape[1:], dtype=np.int64)) or 1))
    for start in range(0, tensor.shape[0], step):
        stop = min(start + step, tensor.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            into[start:stop] = tensor.rows(start, stop)
        if not np.isfinite(into[start:stop]).all():
            raise ValueError(f"{name} holds NaN or infinity, or a value too large for {dtype}")
    return result


def open_safetensors(
    folder: Path, *, root: Path | None = None, stem: str = "model"
) -> tuple[dict[str, Tensor], list[Path]]:
    """Opens ``model.safetensors``, or if there is none, the shards that its index names, like transformers.

    Args:
      folder: folder of the files.
      root: folder of the checkpoint, if different.
      stem: name of the file without its suffix.

    Returns:
      All tensors by their names in the files, and the paths of the files.

    Raises:
      FileNotFoundError: a file does not exist.
      ValueError: a file is not safetensors, or the index names a file outside the folder.
    """
    from safetensors import SafetensorError, safe_open

    whole, index = folder / f"{stem}.safetensors", folder / f"{stem}.safetensors.index.json"
    paths = shard_files(index) if index.is_file() and not os.path.lexists(whole) else [whole]
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            check_file(path)
        except FileNotFoundError as error:
            patterns = ("*.bin", "*.pt", "*.pth", "*.ckpt")
            pickles = sorted(path.name for pattern in patterns for path in folder.glob(pattern))
            convert = f"Convert it to safetensors once: lsar-jax convert {root or folder} NEW_FOLDER"
            how = convert if stem == "model" else "Save the adapter again, as safetensors"
            advice = f"; {pickles[0]} is a pickle, which can run code and is not read. {how}" if pickles else ""
            raise FileNotFoundError(f"{error}{advice}") from error
        why = f"{path} is not a safetensors file (see lsar-jax convert)"
        with errors_of(why, SafetensorError), safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 - not a dict
                view = file.get_slice(name)
                tensors[name] = Tensor(tuple(view.get_shape()), partial(_rows, path, name), view.get_dtype())
    return tensors, paths


def _rows(path: Path, name: str, start: int, stop: int) -> np.ndarray:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        view = file.get_slice(name)
        return view[start:stop] if view.get_shape() else file.get_tensor(name)


def shard_files(index: Path) -> list[Path]:
    """Returns the files that an index of weights names; raises ValueError if it is damaged or names one elsewhere."""
    names = read_json(index, dict).get("weight_map")
    files = names.values() if isinstance(names, dict) else ()
    if not files or not all(isinstance(name, str) and Path(name).name == name for name in files):
        raise ValueError(f"{index} has no weight_map to files in its folder, but {names!r:.200}")
    return [index.parent / name for name in sorted(set(files))]
