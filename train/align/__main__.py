"""Runs ``python -m train.align``; see ``train.align.command``."""

import sys

from lsar_jax.cli.run import run
from train.align import command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Aligns an encoder."""
    return run(command.Align, "python -m train.align", arguments, command.__doc__, shared=True)


if __name__ == "__main__":
    sys.exit(main())
