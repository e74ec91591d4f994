"""The only sharding code: one mesh axis, ``data``.

Parameters are replicated and batches are split over the axis; plain ``jax.jit`` does the
rest. The same lines serve one CPU, several GPUs and a TPU slice.
"""

from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = ["data_mesh", "replicated", "split"]


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Returns a mesh with the axis ``data`` over ``devices``, by default all local ones."""
    devices = jax.local_devices() if devices is None else list(devices)
    # Auto axes: the default of make_mesh is Explicit, where every gather needs an out_sharding.
    return jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of what every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def split(mesh: Mesh, axis: int = 0) -> NamedSharding:
    """Returns the sharding of an array whose ``axis`` is split over the devices."""
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, "data"))
