"""Commands: parsed without running them, and run in a process whose memory is measured."""

import importlib
import shlex
import subprocess
import sys

import pytest
import tyro

from eval.__main__ import TASKS
from lsar_jax.__main__ import COMMANDS

__all__ = ["parsed", "peak_memory"]

SHARED = ("train.align", "train.finetune")
# Not getrusage, which also counts what the tests' own process held when it started this one.
MEMORY = """
import sys
from pathlib import Path
from lsar_jax.__main__ import main
assert main(sys.argv[1:]) == 0
print(*[line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")])
"""


def peak_memory(*arguments):
    """The peak of a process that runs ``lsar-jax``, in MB."""
    if sys.platform != "linux":
        pytest.skip("other systems have no /proc/self/status")
    run = subprocess.run([sys.executable, "-c", MEMORY, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return int(run.stdout.split()[-1]) / 1024


def parsed(command):
    """The options of a command ``python -m eval ...``, ``python -m train.x ...`` or ``lsar-jax ...``.

    Raises AssertionError if there is no such command, and SystemExit if its options do not parse.
    """
    words = shlex.split(command)
    if words[:1] == ["lsar-jax"]:
        named, arguments = COMMANDS, words[1:]
    else:
        assert words[:2] == ["python", "-m"], command
        named, arguments = (TASKS if words[2] == "eval" else {}), words[3:]
        # Only of what processes run together: any other command would not parse.
        if words[2] in SHARED and arguments[0].startswith("--distributed"):
            arguments = arguments[1:]
    if not named:
        try:
            module = importlib.import_module(f"{words[2]}.__main__")
        except ModuleNotFoundError:
            module = importlib.import_module(words[2])
        kind, prog = module.main.args
        return tyro.cli(kind, prog=prog, args=arguments)
    name, *rest = arguments
    assert name in named, f"{name} is not one of {', '.join(named)}"
    found = named[name]
    return tyro.cli(getattr(importlib.import_module(found.module), found.kind), prog=name, args=rest)
