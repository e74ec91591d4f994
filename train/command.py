"""Runs a training command: its options from the command line, a user's mistake as one line."""

import sys
from typing import Protocol

import tyro

__all__ = ["command"]


class Command(Protocol):
    """Options that can be run."""

    def run(self) -> object:
        """Does the work."""


def command(kind: type[Command], prog: str, description: str | None, arguments: list[str] | None) -> int:
    """Runs a command.

    Args:
      kind: a dataclass of options with ``run``.
      prog: name of the program in ``--help``.
      description: for ``--help``.
      arguments: of the command line; by default those of this process.

    Returns:
      The exit status: 0, or 1 after a mistake of the user.
    """
    task = tyro.cli(kind, prog=prog, description=description, args=arguments)
    try:
        task.run()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
