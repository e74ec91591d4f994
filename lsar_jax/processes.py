"""Processes, on one machine or many, that share a job: started by ``jax.distributed``, over a folder that all can see.

Without ``start_processes`` there is one. A function that says so is a collective: every process must call it, in the
same order, and if another one ends it raises ConnectionError. Processes exchange bytes, so that float64 and signs of
zero stay as they are.
"""

import hashlib
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.metadata import version
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
# Where process 0 listens, if not at the address that the others are given.
_BIND = "JAX_COORDINATOR_BIND_ADDRESS"
# Seconds for all processes to come, of silence before saying who is missing, and for a visitor to say who it is.
_WAIT = 300
_SILENT = 5
_HELLO = 2
# Bytes of what a visitor says.
_LONGEST = 1000


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
        _meet(address, bind, number, count)
    # Its handler of SIGTERM would keep a job from being stopped.
    jax.config.update("jax_enable_preemption_service", False)
    waiting = threading.Timer(_SILENT, _say, [f"jax waits for all processes, for {_WAIT - _SILENT} s more"])
    waiting.daemon = True
    waiting.start()
    try:
        jax.distributed.initialize(
            address, count, number, initialization_timeout=_WAIT, heartbeat_timeout_seconds=int(seconds),
            coordinator_bind_address=bind,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        hint = "" if where else f"; outside of a cluster that jax knows, give {START}=HOST:PORT,NUMBER/COUNT"
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the processes could not be connected: {reason}{hint}") from error
    finally:
        waiting.cancel()
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


def _meet(address: str, bind: str, number: int, count: int) -> None:
    """Waits until all processes are there, and are alike.

    jax's own service, which then takes the port, ends a job that anything else registers with, and crashes or stays
    silent if it cannot listen or if a process does not come.
    """
    alike = f"{count} processes, lsar_jax {version('lsar_jax')}, jax {jax.__version__}"
    if number == 0:
        _receive(address, bind, count, alike)
    else:
        _visit(address, number, alike)


def _receive(address: str, bind: str, count: int, alike: str) -> None:
    """Waits for the other processes at the address of process 0, which this is."""
    begun, told = time.monotonic(), False
    there: dict[int, socket.socket] = {}
    # Those who have not yet said who they are, with their hosts, what they have said, and until when they may.
    visitors: dict[socket.socket, tuple[str, bytes, float]] = {}
    with ExitStack() as stack:
        server = stack.enter_context(_server(bind, count))
        while missing := ", ".join(str(other) for other in range(1, count) if other not in there):
            waited = time.monotonic() - begun
            if waited > _WAIT:
                refusal = f"process {missing} of {count} did not come to {address} in {_WAIT} seconds"
                _send(f"no: {refusal}", *there.values())
                raise ValueError(refusal)
            if waited > _SILENT and not told:
                told = True
                _say(f"process 0 waits at {address} for process {missing} of {count}, for {_WAIT - waited:.0f} s more")
            try:
                new, (host, *_) = server.accept()
                stack.enter_context(new).setblocking(False)
                visitors[new] = host, b"", time.monotonic() + _HELLO
            except TimeoutError:
                there = {other: visitor for other, visitor in there.items() if not _gone(visitor)}
            # All of them at once, because silent ones would keep the others waiting.
            for visitor, (host, said, until) in list(visitors.items()):
                with suppress(BlockingIOError):
                    part = _answer(visitor)
                    said, until = said + part, until if part else 0
                if b"\n" not in said and len(said) < _LONGEST and time.monotonic() < until:
                    visitors[visitor] = host, said, until
                    continue
                del visitors[visitor]
                if not _welcome(visitor, host, said, alike, address, there):
                    visitor.close()
        _send("go", *there.values())


def _server(bind: str, count: int) -> socket.socket:
    """Returns the socket at which process 0 listens."""
    try:
        family, *_, place = socket.getaddrinfo(*_parts(bind), type=socket.SOCK_STREAM)[0]
        server = socket.create_server(place[:2], family=family, backlog=count)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (")[0]
        raise ValueError(
            f"process 0 cannot listen at {bind}: {reason}; give an address of its machine and a free port, the same "
            "to all processes"
        ) from error
    server.settimeout(0.2)
    return server


def _welcome(
    visitor: socket.socket, host: str, said: bytes, alike: str, address: str, there: dict[int, socket.socket]
) -> bool:
    """Whether a visitor is a process of this job, which then is ``there``; one of another version ends the job."""
    hello = re.fullmatch(rb"lsar_jax process (\d{1,6}) of (.{1,200})\n", said)
    if hello is None:
        _say(f"ignored a connection from {host}")
        return False
    other, others = int(hello[1]), hello[2].decode(errors="replace")
    if others != alike:
        refusal = f"process {other} has {others}, but process 0 at {address} has {alike}"
        _send(f"no: {refusal}", visitor, *there.values())
        raise ValueError(refusal)
    if not 0 < other < int(alike.split()[0]) or other in there:
        _send(f"no: another process {other} is at {address}, of this job or of another", visitor)
        return False
    there[other] = visitor
    return True


def _visit(address: str, number: int, alike: str) -> None:
    """Tells process 0 that this one is there, and waits until all are."""
    end, told, answer, reason = time.monotonic() + _WAIT, False, b"", ""
    while not answer:
        left = end - time.monotonic()
        if left < 0:
            raise ValueError(f"process 0 was not at {address} in {_WAIT} seconds{reason}")
        if left < _WAIT - _SILENT and not told:
            told = True
            _say(f"process {number} waits for process 0 at {address}, for {left:.0f} s more{reason}")
        try:
            with socket.create_connection(_parts(address), timeout=min(left, _SILENT) + 0.1) as connection:
                connection.sendall(f"lsar_jax process {number} of {alike}\n".encode())
                connection.settimeout(_SILENT)
                answer = _answer(connection)
                if not answer and not _gone(connection):
                    _say(f"process {number} is at {address}, and waits for the other processes, for {left:.0f} s more")
                    connection.settimeout(left + _SILENT)
                    answer = _answer(connection)
                answer = answer or b"nothing"
        except OSError as error:
            reason = f": {error.strerror or error}"
            time.sleep(0.2)
    if answer.startswith(b"no: "):
        raise ValueError(answer[4:].decode(errors="replace").strip())
    if answer != b"go\n":
        raise ValueError(
            f"what is at {address} is not process 0 waiting for process {number}: it ended, has begun without it, or "
            "the port is that of another job or program"
        )


def _parts(address: str) -> tuple[str, int]:
    """Returns the host and the port of an address, which has brackets for IPv6."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _answer(connection: socket.socket) -> bytes:
    """Returns a short line that the other side sends, or a part of it; empty if it sends nothing, or ends."""
    try:
        return connection.recv(_LONGEST)
    except BlockingIOError:  # it may still send something
        raise
    except OSError:
        return b""


def _gone(connection: socket.socket) -> bool:
    """Whether the other side has ended, or sends what nobody asked for."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _send(line: str, *connections: socket.socket) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.sendall(f"{line}\n".encode())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


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
