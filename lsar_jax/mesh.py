"""Data-parallel sharding over a mesh with a single axis, ``data``.

Parameters are replicated and batches are split over the axis; plain ``jax.jit`` does the
rest. The same code runs on one CPU, several GPUs or a TPU slice.
"""

from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = ["data_mesh", "replicated", "split"]


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Returns a mesh with the axis ``data`` over ``devices``, by default all local devices."""
    devices = jax.local_devices() if devices is None else list(devices)
    # With Explicit axes, the default of make_mesh, every gather would need an out_sharding.
    return jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of an array of which every device holds a full copy."""
    return NamedSharding(mesh, PartitionSpec())


def split(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """Returns the sharding of an array whose ``axis`` is split over the devices."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))
