"""Connects the processes of a job, started by hand or by a cluster that jax knows."""

import os
import re
import sys
import threading
from types import TracebackType

import jax

from lsar_jax.processes.meeting import SILENT, WAIT, meet, say

__all__ = ["START", "start_processes"]

# What a command line begins with.
START = "--distributed"

_HEARTBEAT = "LSAR_JAX_HEARTBEAT_SECONDS"
# Where process 0 listens, if not at the address that the others are given.
_BIND = "JAX_COORDINATOR_BIND_ADDRESS"


def start_processes(where: str = "") -> None:
    """Connects this process with the others; call it before anything that uses a device.

    Process 0 listens at the address given, or at the one in ``JAX_COORDINATOR_BIND_ADDRESS``, and waits for the others
    for 300 seconds. Who reaches it needs no password: see the page on many machines.

    If one ends before the others, these are ended too, with a message: at once if it ends with an error, and else after
    100 seconds, or the number in the environment variable ``LSAR_JAX_HEARTBEAT_SECONDS``.

    Args:
      where: ``HOST:PORT,NUMBER/COUNT``, such as ``10.0.0.1:8476,0/2``: the address of process 0, the number of this
        process and the number of processes. Empty on Slurm, Open MPI, Kubernetes and Cloud TPU, which jax asks.

    Raises:
      ValueError: ``where`` has another form, the port is not free or belongs to another program or job, a process does
        not come in time or has other versions, or jax finds no such cluster.
    """
    number_of = "([0-9]{1,6})"
    match = re.fullmatch(rf"(\[[^\s\[\]]+\]|[^\s\[\]:]+):{number_of},{number_of}/{number_of}", where)
    if where and (not match or int(match[3]) >= int(match[4]) or not 0 < int(match[2]) < 1 << 16):
        raise ValueError(f"{START}={where!r} is not HOST:PORT,NUMBER/COUNT with a number from 0 to COUNT - 1")
    seconds = os.environ.get(_HEARTBEAT, "100")
    if not seconds.isdigit() or int(seconds) < 1:
        raise ValueError(f"{_HEARTBEAT} is {seconds!r}; it must be a whole number of seconds")
    address, bind, number, count = None, None, None, None
    if match:
        address, number, count = f"{match[1]}:{match[2]}", int(match[3]), int(match[4])
        bind = os.environ.get(_BIND) or address
        meet(address, bind, number, count)
    # Its handler of SIGTERM would keep a job from being stopped.
    jax.config.update("jax_enable_preemption_service", False)
    waiting = threading.Timer(SILENT, say, [f"jax waits for all processes, for {WAIT - SILENT} s more"])
    waiting.daemon = True
    waiting.start()
    try:
        jax.distributed.initialize(
            address, count, number, initialization_timeout=WAIT, heartbeat_timeout_seconds=int(seconds),
            coordinator_bind_address=bind,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        hint = "" if where else f"; outside of a cluster that jax knows, give {START}=HOST:PORT,NUMBER/COUNT"
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the processes could not be connected: {reason}{hint}") from error
    finally:
        waiting.cancel()
    sys.excepthook = _end


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ends this process after an error: at its usual end, it would wait for the others, which wait for it."""
    sys.__excepthook__(kind, error, trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
