"""Where weights are put: on every device, or split over the ``model`` axis of a mesh, if it has one.

As in Megatron-LM (Shoeybi et al., 2019, section 3), layers into attention and into the feed-forward layer are split by
their outputs, and those out of them by their inputs, so that a sublayer needs one sum over the devices. Tables are
split by their width. XLA derives how the rest is computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lsar_jax.mesh import replicated

__all__ = ["check_memory", "free_memory", "weight_sharding"]

# The axis of a kernel, ``[in, out]``, that is split, by the name of its layer.
_AXES = dict.fromkeys(("query", "key", "value", "inputs", "up", "gate", "both"), 1) | dict.fromkeys(("out", "down"), 0)
# The most devices of a group that an error proposes.
_MOST = 64


def weight_sharding(mesh: Mesh, path: tuple[Any, ...], shape: tuple[int, ...]) -> NamedSharding:
    """Returns the sharding of the weight at ``path`` in a model; replicated if the devices do not divide its axis."""
    axis = _axis(path, shape, mesh.shape["model"]) if "model" in mesh.axis_names else None
    return replicated(mesh) if axis is None else NamedSharding(mesh, PartitionSpec(*[None] * axis, "model"))


def check_memory(mesh: Mesh, weights: Mapping[tuple[Any, ...], Any], id: str) -> None:
    """Raises ValueError, which names the mesh that would do, if the weights of a model do not fit the devices."""
    free, parts = free_memory(mesh.local_devices), mesh.shape.get("model", 1)
    needed = _bytes(weights, parts)
    if free is None or needed <= free:
        return
    fitting = [count for count in range(2, _MOST + 1) if _bytes(weights, count) <= free]
    split = f"split them with mesh=lsar_jax.mesh.data_mesh(model={fitting[0]}), or " if fitting else ""
    raise ValueError(
        f"the weights of {id} take {needed / 1e9:.3g} GB on each device{f', split over {parts}' * (parts > 1)}, but "
        f"only {free / 1e9:.3g} GB are free there; {split}load fewer blocks with layer=, or give dtype='bfloat16'"
    )


def free_memory(devices: Sequence[Any]) -> int | None:
    """Returns the bytes that are free on each of ``devices``; None if one does not say it, as a CPU."""
    stats = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in each for each in stats):
        return None
    return min(int(each["bytes_limit"]) - int(each.get("bytes_in_use", 0)) for each in stats)


def _axis(path: tuple[Any, ...], shape: tuple[int, ...], parts: int) -> int | None:
    """Returns the axis of a weight that is split; None for none, as where ``parts`` do not divide it."""
    axis = 1 if path[-1] == "embedding" else _AXES.get(path[-2]) if path[-1] == "kernel" else None
    return None if axis is None or shape[axis] % parts else axis


def _bytes(weights: Mapping[tuple[Any, ...], Any], parts: int) -> int:
    """Returns the bytes on one device, if the weights are split over ``parts``."""
    return sum(
        leaf.size * leaf.dtype.itemsize // (1 if _axis(path, leaf.shape, parts) is None else parts)
        for path, leaf in weights.items()
    )
