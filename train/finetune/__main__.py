"""Runs ``python -m train.finetune``; see ``train.finetune.command``."""

import sys

from lsar_jax.cli.run import run
from train.finetune import command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Trains a task in English, and tests it in other languages."""
    return run(command.Finetune, "python -m train.finetune", arguments, command.__doc__, shared=True)


if __name__ == "__main__":
    sys.exit(main())
