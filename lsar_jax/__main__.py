"""The command line: ``lsar-jax COMMAND``, or ``python -m lsar_jax COMMAND``."""

import sys

import tyro

from lsar_jax.apply import apply
from lsar_jax.convert import convert
from lsar_jax.fit import fit

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; what the user got wrong is one line, not a traceback."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            {"fit": fit, "apply": apply, "convert": convert}, prog="lsar-jax", args=arguments
        )
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
