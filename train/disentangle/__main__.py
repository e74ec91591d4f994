"""Runs ``python -m train.disentangle``; see ``train.disentangle.command``."""

import sys

from train.command import command
from train.disentangle import command as heads

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Trains one objective."""
    return command(heads.Disentangle, "python -m train.disentangle", heads.__doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
