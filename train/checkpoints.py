"""Orbax checkpoints of arrays and a training position, written atomically."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Checkpoints"]


class Checkpoints:
    """Keeps the last two checkpoints of a run, indexed by the number of steps taken.

    Args:
      folder: folder of the checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        import orbax.checkpoint as ocp

        self._ocp = ocp
        options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._manager.close()

    def save(self, step: int, arrays: Any, position: dict[str, Any]) -> None:
        """Writes a checkpoint, unless one exists for this step.

        Args:
          step: number of steps taken.
          arrays: a tree of arrays.
          position: everything else needed to resume, as JSON values.
        """
        if step in self._manager.all_steps():
            return
        args = self._ocp.args
        # Of arrays on several devices, Orbax would compile a program that takes a part of each shape.
        arrays = jax.tree.map(_on_the_host, arrays)
        self._manager.save(
            step, args=args.Composite(arrays=args.StandardSave(arrays), position=args.JsonSave(position))
        )

    def restore(self, like: Any) -> tuple[Any, dict[str, Any]] | None:
        """Returns the arrays and the position of the last checkpoint, or None if there is none.

        Args:
          like: a tree of arrays with the same shapes, on the target devices.

        Raises:
          ValueError: the arrays have other shapes.
        """
        step = self._manager.latest_step()
        if step is None:
            return None
        args = self._ocp.args
        shapes = jax.tree.map(self._ocp.utils.to_shape_dtype_struct, like)
        found = self._manager.restore(
            step, args=args.Composite(arrays=args.StandardRestore(shapes), position=args.JsonRestore())
        )
        return found["arrays"], found["position"]


def _on_the_host(x: Any) -> Any:
    """Returns an array that this process has whole as a NumPy array; others, and random keys, unchanged."""
    if not isinstance(x, jax.Array) or not x.is_fully_addressable or jnp.issubdtype(x.dtype, jax.dtypes.extended):
        return x
    return np.asarray(x)
