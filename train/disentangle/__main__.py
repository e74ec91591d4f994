"""Runs ``python -m train.disentangle``; see ``train.disentangle.command``."""

import sys

from lsar_jax.cli.run import run
from train.disentangle import command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Trains one objective."""
    return run(command.Disentangle, "python -m train.disentangle", arguments, command.__doc__)


if __name__ == "__main__":
    sys.exit(main())
