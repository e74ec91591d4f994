"""Runs ``python -m train.word_pairs``; see ``train.word_pairs.command``."""

import sys

from lsar_jax.cli.run import run
from train.word_pairs import command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Aligns the words of parallel text."""
    return run(command.WordPairs, "python -m train.word_pairs", arguments, command.__doc__)


if __name__ == "__main__":
    sys.exit(main())
