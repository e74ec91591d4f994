"""The devices: a mesh whose axis ``data`` splits batches, and what the processor can do.

Parameters are replicated; of a model that does not fit one device, they are split over a second axis, ``model``. Plain
``jax.jit`` does the rest, on one CPU, several GPUs or a TPU slice.
"""

import os
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, get_abstract_mesh

__all__ = [
    "check_process",
    "cpu_features",
    "cpu_info",
    "data_mesh",
    "fetched",
    "placed",
    "replicated",
    "shares",
    "split",
    "whole",
]

# The process that started JAX.
_started_in: int | None = None


def check_process() -> None:
    """Raises RuntimeError in a process that was forked after this library had used JAX: a computation would hang."""
    global _started_in
    if _started_in is None:
        _started_in = os.getpid()
    if _started_in != os.getpid():
        raise RuntimeError(
            "this process was forked from one in which JAX had started its threads, so a computation would hang; start "
            "processes with multiprocessing.get_context('spawn'), and load the encoder in each of them"
        )


def data_mesh(devices: Sequence[jax.Device] | None = None, *, model: int = 1) -> Mesh:
    """Returns a mesh with the axis ``data`` over ``devices``, by default all local devices.

    Args:
      devices: the devices.
      model: number of devices that share the weights of a model, for one that does not fit a single device. If it is
        more than 1, the mesh has a second axis, ``model``, of this size.

    Raises:
      ValueError: the number of devices is not a multiple of ``model``.

    Example:
      >>> mesh = lj.mesh.data_mesh(jax.local_devices()[:1])
      >>> mesh.axis_names, mesh.devices.size
      (('data',), 1)
    """
    check_process()
    devices = jax.local_devices() if devices is None else list(devices)
    if model not in range(1, len(devices) + 1) or len(devices) % model:
        raise ValueError(f"model is {model!r}; it must be a whole number that divides the {len(devices)} devices")
    shape, names = ((len(devices),), ("data",)) if model == 1 else ((len(devices) // model, model), ("data", "model"))
    # With Explicit axes, the default of make_mesh, every gather would need an out_sharding.
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=devices)


def shares(mesh: Mesh) -> int:
    """Returns the number of parts that ``split`` makes."""
    return mesh.shape["data"]


def replicated(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of an array that every device holds in full."""
    return NamedSharding(mesh, PartitionSpec())


def split(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """Returns the sharding of an array whose ``axis``, a multiple of ``shares``, is split over ``data``."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))


def whole(x: jax.Array) -> jax.Array:
    """Returns x; where weights are split over ``model``, each device has all of it and not a part of its last axis."""
    return jax.lax.with_sharding_constraint(x, PartitionSpec()) if "model" in get_abstract_mesh().axis_names else x


def placed(tree: Any, sharding: NamedSharding) -> Any:
    """Returns a tree of arrays, the same in each process, on the devices of a sharding, which may be of several."""
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def place(x: Any) -> jax.Array:
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return jax.device_put(x, sharding)
        whole = np.asarray(x)
        return jax.make_array_from_callback(whole.shape, sharding, lambda part: whole[part])

    return jax.tree.map(place, tree)


def fetched(tree: Any) -> Any:
    """Returns a tree of arrays as NumPy arrays, whole also where other processes hold a part of them.

    If they do, every process must call this.
    """

    def fetch(x: Any) -> np.ndarray:
        if not isinstance(x, jax.Array) or x.is_fully_addressable or x.is_fully_replicated:
            return np.asarray(x)
        from jax.experimental.multihost_utils import process_allgather

        return process_allgather(x, tiled=True)

    return jax.tree.map(fetch, tree)


def cpu_features() -> str:
    """Returns the processor's instruction sets, as Linux names them (``fpu sse2 avx2``); elsewhere, its name."""
    return next(iter(cpu_info("flags") or cpu_info("Features")), platform.processor())


@cache
def cpu_info(name: str) -> tuple[str, ...]:
    """Returns a field of ``/proc/cpuinfo``, such as ``model name``, of each processor; empty without that file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    parts = (line.partition(":") for line in lines)
    return tuple(value.strip() for key, _, value in parts if key.strip() == name)
