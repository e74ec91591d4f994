"""Processes, on one machine or many, that share a job: started by ``jax.distributed``, over a folder that all can see.

Without ``start_processes`` there is one. A function that says so is a collective: every process must call it, in the
same order, and if another one ends it raises ConnectionError. Processes exchange bytes, so that float64 and signs of
zero stay as they are.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import jax
import numpy as np

__all__ = [
    "START",
    "agreed",
    "check_alike",
    "from_first",
    "gather",
    "is_first",
    "own_rows",
    "share",
    "start_processes",
    "wait_for_all",
]

T = TypeVar("T")

#: What a command line begins with.
START = "--distributed"

_HEARTBEAT = "LSAR_JAX_HEARTBEAT_SECONDS"


def start_processes(where: str = "") -> None:
    """Connects this process with the others; call it before anything that uses a device.

    If one ends before the others, these are ended too, with a message: at once if it ends with an error, and else after
    100 seconds, or the number in the environment variable ``LSAR_JAX_HEARTBEAT_SECONDS``.

    Args:
      where: ``HOST:PORT,NUMBER/COUNT``, such as ``10.0.0.1:8476,0/2``: the address of process 0, the number of this
        process and the number of processes. Empty on Slurm, Open MPI, Kubernetes and Cloud TPU, which jax asks.

    Raises:
      ValueError: ``where`` has another form, or jax finds no such cluster.
    """
    match = re.fullmatch(r"(\S+:\d+),(\d+)/(\d+)", where)
    if where and (match is None or int(match[2]) >= int(match[3])):
        raise ValueError(f"{START}={where!r} is not HOST:PORT,NUMBER/COUNT with a number from 0 to COUNT - 1")
    seconds = os.environ.get(_HEARTBEAT, "100")
    if not seconds.isdigit() or int(seconds) < 1:
        raise ValueError(f"{_HEARTBEAT} is {seconds!r}; it must be a whole number of seconds")
    address, number, count = (match[1], int(match[2]), int(match[3])) if match else (None, None, None)
    # Its handler of SIGTERM would keep a job from being stopped.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(address, count, number, heartbeat_timeout_seconds=int(seconds))
    except (RuntimeError, ValueError) as error:
        hint = "" if where else f"; outside of a cluster that jax knows, give {START}=HOST:PORT,NUMBER/COUNT"
        raise ValueError(f"the processes could not be connected: {error}{hint}") from error
    sys.excepthook = _end


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


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ends this process after an error: at its usual end, it would wait for the others, which wait for it."""
    sys.__excepthook__(kind, error, trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _collective(call: Callable[[Any], T], value: Any) -> T:
    """Runs a collective, and raises ConnectionError if another process ends."""
    try:
        return call(value)
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise ConnectionError(f"another process of the job ended; start the job again ({reason})") from error
