"""Runs a training command with options from the command line, reporting user errors on one line."""

import sys
from typing import Protocol

import tyro

__all__ = ["command"]


class Command(Protocol):
    """A dataclass of options with a ``run`` method."""

    def run(self) -> object:
        """Runs the command."""


def command(kind: type[Command], prog: str, description: str | None, arguments: list[str] | None) -> int:
    """Parses the options of a command and runs it.

    Args:
      kind: a dataclass of options with a ``run`` method.
      prog: name of the program in ``--help``.
      description: text shown by ``--help``.
      arguments: command-line arguments; by default those of this process.

    Returns:
      The exit status: 0, or 1 after a user error.
    """
    task = tyro.cli(kind, prog=prog, description=description, args=arguments)
    try:
        task.run()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
