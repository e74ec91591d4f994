"""The number of this process, and what processes tell each other.

A function that says so is a collective: every process must call it, in the same order, and if another one ends it
raises ConnectionError. Processes exchange bytes, so that float64 and signs of zero stay as they are.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

__all__ = ["agreed", "check_alike", "from_first", "gather", "is_first", "own_rows", "share", "wait_for_all"]

T = TypeVar("T")


def share() -> tuple[int, int]:
    """Returns the number of this process, and the number of processes."""
    return jax.process_index(), jax.process_count()


def is_first() -> bool:
    """Whether this is process 0, which writes for all."""
    return jax.process_index() == 0


def own_rows(rows: int) -> slice:
    """Returns the range of ``rows`` rows that is this process's share: equal shares, one after another.

    Example:
      >>> lj.processes.own_rows(1000)  # there is no other process
      slice(0, 1000, None)
    """
    number, count = share()
    return slice(rows * number // count, rows * (number + 1) // count)


def wait_for_all(name: str) -> None:
    """Waits until every process has called this with the same name; a collective."""
    if jax.process_count() > 1:
        from jax.experimental.multihost_utils import sync_global_devices

        _collective(sync_global_devices, name)


def gather(value: bytes) -> list[bytes]:
    """Returns the values of all processes, in the order of their numbers; a collective."""
    if jax.process_count() == 1:
        return [value]
    from jax.experimental.multihost_utils import process_allgather

    # Two numbers of 31 bits, because jax has no wider ones.
    size = np.array(divmod(len(value), 1 << 31), np.int32)
    sizes = [int(high) << 31 | int(low) for high, low in _collective(process_allgather, size)]
    padded = np.zeros(max(*sizes, 1), np.uint8)
    padded[: len(value)] = np.frombuffer(value, np.uint8)
    values = _collective(process_allgather, padded)
    return [np.asarray(value[:size]).tobytes() for value, size in zip(values, sizes, strict=True)]


def from_first(tree: T) -> T:
    """Returns the arrays of process 0, of the same shapes and dtypes in all, in every process; a collective."""

    def first(x: Any) -> Any:
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        if jax.process_count() == 1 or not x.size:
            return x
        from jax.experimental.multihost_utils import broadcast_one_to_all

        values = np.asarray(_collective(broadcast_one_to_all, x.reshape(-1).view(np.uint8)))
        # A copy, because the result of jax cannot be written to.
        return values.astype(np.uint8).view(x.dtype).reshape(x.shape)

    return jax.tree.map(first, tree)


def agreed(value: T) -> T:
    """Returns the JSON value of process 0 in every process, so that all decide alike; a collective."""
    if jax.process_count() == 1:
        return value
    return json.loads(gather(json.dumps(value).encode() if is_first() else b"")[0])


def check_alike(what: str, value: str) -> None:
    """Raises ValueError if another process has another value, called ``what`` in the error; a collective."""
    digests = gather(hashlib.sha256(value.encode()).digest())
    if different := [number for number, digest in enumerate(digests) if digest != digests[0]]:
        raise ValueError(f"{what} of process {different[0]} are not those of process 0; give all processes the same")


def _collective(call: Callable[[Any], T], value: Any) -> T:
    """Runs a collective, and raises ConnectionError if another process ends."""
    try:
        return call(value)
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise ConnectionError(f"another process of the job ended; start the job again ({reason})") from error
