"""Runs ``python -m eval TASK``, which measures an encoder before and after each transform."""

import sys
from pathlib import Path

from lsar_jax.console.run import commands_in, run_named

__all__ = ["GROUPS", "TASKS", "main"]

# By title, the commands of a group by name.
GROUPS = commands_in(Path(__file__).with_name("commands.toml"))
TASKS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(arguments: list[str] | None = None) -> int:
    """Runs one task."""
    about = "TASK --help shows the options that matter most, and TASK --help-all shows all of them."
    return run_named(GROUPS, "python -m eval", arguments, noun="task", about=about)


if __name__ == "__main__":
    sys.exit(main())
