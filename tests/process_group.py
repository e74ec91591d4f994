"""Two processes on the loopback interface that compute together, with two devices each."""

import os
import socket
import subprocess
import sys
from pathlib import Path

__all__ = ["ended", "free_address", "started"]


def free_address():
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def started(module, *arguments, folder, each=((), ()), slurm=False):
    """Starts the processes, ``python -m module``, in ``folder``, with the arguments of both and of each.

    They are given the address, or what Slurm tells its tasks.
    """
    address = free_address()
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": str(Path(__file__).parents[1])}
    if slurm:
        job = {"JOB_ID": "1", "STEP_NODELIST": "127.0.0.1", "NTASKS": "2"}
        environment |= {f"SLURM_{name}": value for name, value in job.items()}
        environment |= {"JAX_COORDINATOR_PORT": address.partition(":")[2], "JAX_COORDINATOR_BIND_ADDRESS": address}
    return [
        subprocess.Popen(
            [sys.executable, "-m", module, "--distributed" if slurm else f"--distributed={address},{number}/2",
             *map(str, arguments), *each[number]],
            cwd=folder, env=environment | {f"SLURM_{name}ID": str(number) for name in ("PROC", "LOCAL") if slurm},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip


def ended(processes):
    """Returns the exit status, what was printed and the errors of the processes, each a list."""
    ends = [process.communicate(timeout=300) for process in processes]
    return [process.returncode for process in processes], *(list(texts) for texts in zip(*ends, strict=True))
