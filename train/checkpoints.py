"""Orbax checkpoints of arrays and a training position, written atomically, with digests that are checked when read."""

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import jax

from lsar_jax.files import read_json, sha256, write_json
from lsar_jax.mesh import fetched

__all__ = ["Checkpoints", "remove_checkpoints"]

_DIGESTS = "sha256.json"
# The names of checkpoints, and, before a dot, of what is in them.
_NAME = re.compile(r"[0-9]+(\.damaged)?")
_PARTS = {"arrays", "position", "_CHECKPOINT_METADATA", "commit_success", "sha256"}


class Checkpoints:
    """Keeps the last two checkpoints of a run, indexed by the number of steps taken.

    Raises ValueError if a folder that has the name of a checkpoint, and would be deleted, holds something else.
    """

    def __init__(self, folder: Path) -> None:
        import orbax.checkpoint as ocp

        self._ocp = ocp
        self._folder = folder
        if others := [path for path in _named(folder) if not _own(path)]:
            raise ValueError(f"{others[0]} is no checkpoint of a run; move it away, or choose another --out")
        options: dict[str, Any] = {"max_to_keep": 2, "enable_async_checkpointing": False}
        if jax.process_count() > 1:
            # This process alone writes, and then Orbax does not create the folder.
            folder.mkdir(parents=True, exist_ok=True)
            number = jax.process_index()
            alone = ocp.options.MultiprocessingOptions(primary_host=number, active_processes={number})
            options |= {"multiprocessing_options": alone, "create": False}
        self._manager = ocp.CheckpointManager(folder.absolute(), options=ocp.CheckpointManagerOptions(**options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._manager.close()

    def save(self, step: int, arrays: Any, position: dict[str, Any]) -> None:
        """Writes a checkpoint of a tree of arrays, whole in this process, and of JSON values, unless one exists.

        Raises:
          OSError: it could not be written; the checkpoints before it are kept.
        """
        if step in self._manager.all_steps():
            return
        args, folder = self._ocp.args, self._folder / str(step)
        # Of arrays on several devices, Orbax would compile a program that takes a part of each shape.
        whole = args.StandardSave(fetched(arrays))
        try:
            self._manager.save(step, args=args.Composite(arrays=whole, position=args.JsonSave(position)))
            write_json(folder / _DIGESTS, _digests(folder))
        except Exception as error:  # Orbax and TensorStore raise many types, some of several lines
            shutil.rmtree(folder, ignore_errors=True)
            self._manager.reload()
            raise OSError(f"no checkpoint could be written in {self._folder}: {_first_line(error)}") from error

    def restore(self, like: Any, show: Callable[[str], None] = lambda line: None) -> tuple[Any, dict[str, Any]] | None:
        """Returns the arrays and the position of the last whole checkpoint, or None if there is none.

        ``like`` is a tree of arrays of the same shapes on the target devices. Damaged checkpoints are set aside as
        ``STEP.damaged``, and ``show`` is called with a line for each.

        Raises:
          ValueError: the arrays have other shapes, or every checkpoint is damaged.
        """
        damaged: dict[Path, str] = {}
        for step in sorted(self._manager.all_steps(), reverse=True):
            folder = self._folder / str(step)
            if not (folder / _DIGESTS).is_file():  # the run was killed while this was written
                shutil.rmtree(folder)
            elif damage := _damage(folder):
                damaged[folder] = damage
            else:
                break
        else:
            if damaged:
                raise ValueError(f"no checkpoint is whole: {'; '.join(damaged.values())}; choose another --out")
            self._manager.reload()
            return None
        for newer, damage in damaged.items():
            show(f"{damage}; going on from the checkpoint of step {step}")
            aside = newer.with_name(f"{newer.name}.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            newer.replace(aside)
        self._manager.reload()
        args, shapes = self._ocp.args, jax.tree.map(self._ocp.utils.to_shape_dtype_struct, like)
        wanted = args.Composite(arrays=args.StandardRestore(shapes), position=args.JsonRestore())
        try:
            found = self._manager.restore(step, args=wanted)
        except Exception as error:  # Orbax and TensorStore raise many types, some of several lines
            raise ValueError(f"{folder} cannot be read: {_first_line(error)}") from error
        return found["arrays"], found["position"]


def remove_checkpoints(folder: Path) -> None:
    """Deletes the checkpoints in a folder, and the folder if nothing else is in it."""
    for path in filter(_own, _named(folder)):
        shutil.rmtree(path)
    with suppress(OSError):
        folder.rmdir()


def _named(folder: Path) -> list[Path]:
    """The folders that have the name of a checkpoint."""
    return [path for path in sorted(folder.glob("[0-9]*")) if _NAME.fullmatch(path.name) and path.is_dir()]


def _own(path: Path) -> bool:
    """Whether a folder is empty, or has a part of a checkpoint."""
    contents = {part.name.partition(".")[0] for part in path.iterdir()}
    return not contents or not contents.isdisjoint(_PARTS)


def _digests(folder: Path) -> dict[str, str]:
    """Returns the digest of each file of a checkpoint, by its path in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _DIGESTS)
    return {path.relative_to(folder).as_posix(): sha256([path]) for path in files}


def _damage(folder: Path) -> str:
    """Names a file of a checkpoint that is not as it was written, or returns ''."""
    try:
        expected = read_json(folder / _DIGESTS, dict)
    except ValueError as error:
        return str(error)
    found = _digests(folder)
    # Files that somebody else has put there do no harm, but there are some that every checkpoint has.
    wrong = sorted(name for name, digest in expected.items() if found.get(name) != digest) if expected else [_DIGESTS]
    return f"{folder / wrong[0]} is damaged" if wrong else ""


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]
