"""The command line: ``lsar-jax COMMAND``, or ``python -m lsar_jax COMMAND``."""

import sys
from pathlib import Path

from lsar_jax.console.run import commands_in, run_named

__all__ = ["main"]

GROUPS = commands_in(Path(__file__).with_name("commands.toml"))
COMMANDS = GROUPS[""]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command."""
    about = "COMMAND --help shows the options that matter most, and COMMAND --help-all shows all of them.\n"
    about += "Evaluations, python -m eval, and training, python -m train.align ..., run in a checkout of the source."
    return run_named(GROUPS, "lsar-jax", arguments, about=about)


if __name__ == "__main__":
    sys.exit(main())
