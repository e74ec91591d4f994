"""Connects processes, started by hand or by a cluster that jax knows, with ``jax.distributed``."""

import os
import re
import socket
import sys
from importlib.metadata import version
from types import TracebackType

import jax

from lsar_jax.processes.collectives import gather

__all__ = ["START", "start_processes"]

#: First argument of a command that processes run together.
START = "--distributed"


def start_processes(where: str = "") -> None:
    """Connects this process with the others; call it before anything that uses a device.

    Process 0 listens at the address given, or at the one in ``JAX_COORDINATOR_BIND_ADDRESS``. jax waits 300 seconds for
    all processes, and then ends those that came with a message of its own. If a process ends before the others, these
    end too: at once if it ends with an error or they wait for it, and else after 100 seconds.

    Args:
      where: ``HOST:PORT,NUMBER/COUNT``, such as ``10.0.0.1:8476,0/2``: the address of process 0, the number of this
        process and the number of processes. Empty on Slurm, Open MPI, Kubernetes and Cloud TPU, which jax asks.

    Raises:
      ValueError: ``where`` has another form, process 0 cannot listen there, jax finds no such cluster, or the processes
        have other versions of lsar_jax or jax.
    """
    match = re.fullmatch(r"(\[[^\s\[\]]+\]|[^\s\[\]:]+):(\d{1,5}),(\d{1,6})/(\d{1,6})", where, re.ASCII)
    if where and (not match or int(match[3]) >= int(match[4]) or not 0 < int(match[2]) < 1 << 16):
        raise ValueError(f"{START}={where!r} is not HOST:PORT,NUMBER/COUNT with a number from 0 to COUNT - 1")
    address, number, count = (f"{match[1]}:{match[2]}", int(match[3]), int(match[4])) if match else (None, None, None)
    bind = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", address)  # by default, jax would listen on all addresses
    if bind and number == 0:
        _check_free(bind)
    # Its handler of SIGTERM would keep a job from being stopped.
    jax.config.update("jax_enable_preemption_service", False)
    waits = f"jax waits{f' at {address}' if address else ''} for all processes"
    print(f"{waits}, and ends this one unless they come in 300 s", file=sys.stderr, flush=True)
    try:
        jax.distributed.initialize(address, count, number, coordinator_bind_address=bind)
    except (RuntimeError, ValueError) as error:
        hint = "" if where else f"; outside of a cluster that jax knows, give {START}=HOST:PORT,NUMBER/COUNT"
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"the processes could not be connected: {reason}{hint}") from error
    sys.excepthook = _end
    mine = f"{count or jax.process_count()} processes, lsar_jax {version('lsar_jax')}, jax {version('jax')}"
    for other, alike in enumerate(gather(mine.encode())):
        if alike != mine.encode():
            raise ValueError(f"process {other} has {alike.decode()}, but process {jax.process_index()} has {mine}")


def _check_free(address: str) -> None:
    """Raises ValueError unless this process can listen at an address; jax crashes if it cannot."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), int(port)), family=family).close()
    except (OSError, ValueError, OverflowError) as error:
        reason = str(error).partition(" (")[0]
        raise ValueError(
            f"process 0 cannot listen at {address}: {reason}; give an address of its machine and a free port, the same "
            "to all processes"
        ) from error


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ends this process after an error: at its usual end, it would wait for the others, which wait for it."""
    sys.__excepthook__(kind, error, trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
