"""The command line: ``lsar-jax COMMAND``, or ``python -m lsar_jax COMMAND``."""

import importlib
import sys

import tyro

__all__ = ["main"]

# Each command, which is also the name of its file in ``cli``, and what it does.
COMMANDS = {
    "fit": "fit a transform on text or vectors",
    "apply": "apply a transform to a file of vectors",
    "convert": "convert a pickled checkpoint to a safetensors folder",
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; a user error is printed as one line, without a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help"):
        print("usage: lsar-jax COMMAND [OPTIONS]\n")
        print("\n".join(f"  {name:10}{what}" for name, what in COMMANDS.items()))
        return 0 if given else 2
    name, *rest = given
    if name not in COMMANDS:
        print(f"error: there is no command {name!r}; choose one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    command = importlib.import_module(f"lsar_jax.cli.{name}").COMMAND
    try:
        tyro.cli(command, prog=f"lsar-jax {name}", args=rest).run()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
