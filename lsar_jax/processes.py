"""Processes, on one machine or many, that share a job: started by ``jax.distributed``, over a folder that all can see.

``share`` says which process this is and how many there are; without ``start_processes`` there is one.
"""

import os
import re

import jax

__all__ = ["START", "share", "start_processes", "wait_for_all"]

# What a command line begins with.
START = "--distributed"

_HEARTBEAT = "LSAR_JAX_HEARTBEAT_SECONDS"


def start_processes(where: str = "") -> None:
    """Connects this process with the others; call it before anything that uses a device.

    If one of the processes ends before the others, these are ended too, with a message, after 100 seconds or those in
    the environment variable ``LSAR_JAX_HEARTBEAT_SECONDS``.

    Args:
      where: address of process 0, the number of this process and that of all, ``HOST:PORT,NUMBER/COUNT``, such as
        ``10.0.0.1:8476,0/2``; empty on Slurm, Open MPI, Kubernetes and Cloud TPU, which jax asks for them.

    Raises:
      ValueError: ``where`` is something else, or jax finds no such cluster.

    Example:
      >>> from lsar_jax.processes import start_processes
      >>> start_processes("10.0.0.1:8476,2/2")
      Traceback (most recent call last):
          ...
      ValueError: --distributed='10.0.0.1:8476,2/2' is not HOST:PORT,NUMBER/COUNT with a number from 0 to COUNT - 1
    """
    told = re.fullmatch(r"(\S+:\d+),(\d+)/(\d+)", where)
    if where and (told is None or int(told[2]) >= int(told[3])):
        raise ValueError(f"{START}={where!r} is not HOST:PORT,NUMBER/COUNT with a number from 0 to COUNT - 1")
    seconds = os.environ.get(_HEARTBEAT, "100")
    if not seconds.isdigit() or int(seconds) < 1:
        raise ValueError(f"{_HEARTBEAT} is {seconds!r}; it must be a whole number of seconds")
    address, number, count = (told[1], int(told[2]), int(told[3])) if told else (None, None, None)
    try:
        jax.distributed.initialize(address, count, number, heartbeat_timeout_seconds=int(seconds))
    except (RuntimeError, ValueError) as error:
        hint = "" if where else f"; outside of a cluster that jax knows, give {START}=HOST:PORT,NUMBER/COUNT"
        raise ValueError(f"the processes could not be connected: {error}{hint}") from error


def share() -> tuple[int, int]:
    """Returns the number of this process, and that of all.

    Example:
      >>> from lsar_jax.processes import share
      >>> share()
      (0, 1)
    """
    return jax.process_index(), jax.process_count()


def wait_for_all(name: str) -> None:
    """Waits until every process has called this with the same name.

    Raises:
      ConnectionError: another process has ended.

    Example:
      >>> from lsar_jax.processes import wait_for_all
      >>> wait_for_all("begun")  # there is no other process
    """
    if jax.process_count() > 1:
        from jax.experimental.multihost_utils import sync_global_devices

        try:
            sync_global_devices(name)
        except jax.errors.JaxRuntimeError as error:
            told = str(error).partition("\n")[0]
            raise ConnectionError(f"another process of the job ended; start the job again ({told})") from error
