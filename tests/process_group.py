"""Several processes on the loopback interface that share a job."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

__all__ = ["ended", "kill_one", "started"]


def started(module, arguments, count, *, folder, each=(), places=()):
    """Starts the processes of a job, ``python -m module``, in ``folder``, or each in a folder of ``places``.

    ``arguments`` are those of all, and ``each`` has more of each.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "2", "LSAR_JAX_HEARTBEAT_SECONDS": "10", "PYTHONPATH": root,
    }  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, f"--distributed=127.0.0.1:{port},{number}/{count}", *map(str, arguments),
             *(each[number] if each else ())],
            cwd=places[number] if places else folder, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for number in range(count)
    ]  # fmt: skip


def ended(processes):
    """Returns the exit status and the errors of each process."""
    ends = [process.communicate(timeout=300) for process in processes]
    # With what they printed, for whoever looks.
    for process, (printed, _) in zip(processes, ends, strict=True):
        process.printed = printed
    return [process.returncode for process in processes], [error for _, error in ends]


def kill_one(processes, number, begun, sign=signal.SIGKILL):
    """Kills one of two processes once ``begun`` returns something, and sees the other one end with a message."""
    deadline = time.monotonic() + 200
    while not begun():
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.002)
    processes[number].send_signal(sign)
    status, errors = ended(processes)
    assert status[number] == -sign
    assert status[1 - number] not in (0, None)
    # From us, if it was waiting for the other one, and else from jax.
    messages = "another process of the job ended|if another process ended|heartbeat|unhealthy|another task died"
    assert re.search(messages, errors[1 - number].lower()), errors[1 - number]
