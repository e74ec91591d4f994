"""Processes meet at the port of process 0 before jax takes it."""

import socket
import threading
import time
from contextlib import suppress
from importlib.metadata import version

import pytest

from lsar_jax import processes
from lsar_jax.processes import meeting


@pytest.fixture(autouse=True)
def short(monkeypatch):
    for name, seconds in (("WAIT", 1.0), ("SILENT", 0.2), ("_HELLO", 0.2)):
        monkeypatch.setattr(meeting, name, seconds)


@pytest.fixture
def patient(monkeypatch):
    """For meetings to which all come, however slow the machine is."""
    for name in ("WAIT", "SILENT", "_HELLO"):
        monkeypatch.setattr(meeting, name, 30.0)


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def met(address, *each):
    """Runs processes, each a number and a count, as threads; returns the error of each, or an empty string."""
    errors = [""] * len(each)

    def meet(place, number, count):
        try:
            meeting.meet(address, address, number, count)
        except ValueError as error:
            errors[place] = str(error)

    threads = [threading.Thread(target=meet, args=(place, *one)) for place, one in enumerate(each)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_all_come(address, patient):
    assert met(address, (2, 3), (0, 3), (1, 3)) == ["", "", ""]
    assert met(address, (0, 1)) == [""]


def test_one_does_not_come(address, capsys):
    expected = f"process 2 of 3 did not come to {address} in 1.0 seconds"
    assert met(address, (0, 3), (1, 3)) == [expected, expected]
    told = capsys.readouterr().err
    assert f"process 0 waits at {address} for process " in told
    assert f"process 1 is at {address}, and waits for the other processes" in told
    [error] = met(address, (1, 3))
    assert error == f"process 0 was not at {address} in 1.0 seconds: Connection refused"


def test_visitors_who_say_nothing_keep_nobody_waiting(address, patient, capsys):
    """And a process may say who it is in pieces, at a host that has a name."""
    host, port = meeting._parts(address)

    def meet():
        errors.extend(met(address, (0, 3), (1, 3)))

    errors = []
    thread = threading.Thread(target=meet)
    thread.start()
    silent = [knock(host, port) for _ in range(5)]
    alike = f"3 processes, lsar_jax {version('lsar_jax')}, jax {version('jax')}"
    with knock(host, port) as last:
        for part in ("lsar_jax process ", f"2 of {alike}", "\n"):
            last.sendall(part.encode())
            time.sleep(0.05)
        thread.join()
        assert last.recv(10) == b"go\n"
    assert errors == ["", ""]
    for visitor in silent:
        visitor.close()
    assert "no process of this job" not in capsys.readouterr().err


def knock(host, port):
    """Connects, as soon as process 0 listens."""
    for _ in range(1000):
        with suppress(ConnectionRefusedError):
            return socket.create_connection((host, port))
        time.sleep(0.01)
    raise AssertionError(f"nobody listens at {host}:{port}")


def test_processes_that_differ(address, patient):
    errors = met(address, (0, 2), (1, 3))
    assert errors[0] == errors[1]
    assert errors[0].startswith("process 1 has 3 processes, lsar_jax ")
    assert f"but process 0 at {address} has 2 processes, lsar_jax " in errors[0]


def test_a_number_that_is_taken(address):
    # Without process 2, because the second process 1 may come after a meeting of all.
    absent = f"process 2 of 3 did not come to {address} in 1.0 seconds"
    taken = f"another process 1 is at {address}, of this job or of another"
    assert sorted(met(address, (1, 3), (1, 3), (0, 3))) == [taken, absent, absent]


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"lsar_jax process 1 of\n", b"\0\xff"])
def test_strangers_do_not_end_a_job(address, said, monkeypatch, capsys):
    for name in ("WAIT", "SILENT"):
        monkeypatch.setattr(meeting, name, 30.0)
    host, port = address.split(":")

    def visit():
        with socket.create_connection((host, port)) as stranger:
            stranger.sendall(said)
            stranger.recv(9)

    job = threading.Thread(target=lambda: errors.extend(met(address, (0, 2))))
    errors = []
    job.start()
    for _ in range(200):
        try:
            visit()
            break
        except ConnectionRefusedError:
            threading.Event().wait(0.01)
    assert met(address, (1, 2)) == [""]
    job.join()
    assert errors == [""]
    assert "ignored a connection from 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400\r\n", b"\0\0\0\4"])
def test_a_port_that_is_taken(said):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        [error] = met(address, (0, 2))
        assert error.startswith(f"process 0 cannot listen at {address}: Address already in use")

        def answer():
            with server.accept()[0] as visitor:
                visitor.sendall(said)

        threading.Thread(target=answer).start()
        [error] = met(address, (1, 2))
        assert error.startswith(f"what is at {address} is not process 0 waiting for process 1: ")


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine(host):
    [error] = met(f"{host}:8476", (0, 2))
    assert error.startswith(f"process 0 cannot listen at {host}:8476: ")


@pytest.mark.parametrize(
    "where",
    ["10.0.0.1:0,0/2", "10.0.0.1:65536,0/2", "10.0.0.1:99999999,0/2", "a:1,2/2", "a:1,0/0", "a:1,-1/2", "a,0/2", "a:1"]
    + [f"{host}:8476,0/2" for host in ("[::1", "::1", "a" * 300, "xn--\u00e4.de", "", "a b")],
)
def test_what_is_no_address(where):
    with pytest.raises(ValueError, match="is not HOST:PORT,NUMBER/COUNT|idna"):
        processes.start_processes(where)
