"""Processes meet at the port of process 0, and compare their versions, before jax takes it.

jax's own service ends a job that anything else registers with, and crashes or stays silent if it cannot listen or if a
process does not come.
"""

import re
import socket
import sys
import time
from contextlib import ExitStack, suppress
from importlib.metadata import version

import jax

__all__ = ["SILENT", "WAIT", "meet", "say"]

#: Seconds for all processes to come, and of silence before saying who is missing.
WAIT = 300
SILENT = 5
# Seconds for a visitor to say who it is, and bytes of what it says.
_HELLO = 2
_LONGEST = 1000


def meet(address: str, bind: str, number: int, count: int) -> None:
    """Waits until all processes are there, and are alike; raises ValueError if they are not.

    Args:
      address: where the others reach process 0.
      bind: where process 0 listens.
      number: number of this process.
      count: number of processes.
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
            if waited > WAIT:
                refusal = f"process {missing} of {count} did not come to {address} in {WAIT} seconds"
                _send(f"no: {refusal}", *there.values())
                raise ValueError(refusal)
            if waited > SILENT and not told:
                told = True
                say(f"process 0 waits at {address} for process {missing} of {count}, for {WAIT - waited:.0f} s more")
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
        say(f"ignored a connection from {host}")
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
    end, told, answer, reason = time.monotonic() + WAIT, False, b"", ""
    while not answer:
        left = end - time.monotonic()
        if left < 0:
            raise ValueError(f"process 0 was not at {address} in {WAIT} seconds{reason}")
        if left < WAIT - SILENT and not told:
            told = True
            say(f"process {number} waits for process 0 at {address}, for {left:.0f} s more{reason}")
        try:
            with socket.create_connection(_parts(address), timeout=min(left, SILENT) + 0.1) as connection:
                connection.sendall(f"lsar_jax process {number} of {alike}\n".encode())
                connection.settimeout(SILENT)
                answer = _answer(connection)
                if not answer and not _gone(connection):
                    say(f"process {number} is at {address}, and waits for the other processes, for {left:.0f} s more")
                    connection.settimeout(left + SILENT)
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


def say(line: str) -> None:
    """Prints a line to standard error."""
    print(line, file=sys.stderr, flush=True)
