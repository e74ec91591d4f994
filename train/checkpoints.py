"""Checkpoints by Orbax: arrays and a position, whole or not there."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax

__all__ = ["Checkpoints"]


class Checkpoints:
    """The last two checkpoints of a run, by the number of steps that were taken.

    Args:
      folder: of the checkpoints.
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
        """Writes a checkpoint; one of the same step is kept as it is.

        Args:
          step: how many were taken.
          arrays: a tree of arrays.
          position: what else is needed to go on, for JSON.
        """
        if step in self._manager.all_steps():
            return
        args = self._ocp.args
        self._manager.save(
            step, args=args.Composite(arrays=args.StandardSave(arrays), position=args.JsonSave(position))
        )

    def restore(self, like: Any) -> tuple[Any, dict[str, Any]] | None:
        """Returns the arrays and the position of the last checkpoint, None if there is none.

        Args:
          like: a tree of arrays of the same shapes, on the devices that they are to be on.

        Raises:
          ValueError: the arrays are of other shapes.
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
