"""The command line: ``lsar-jax COMMAND``, or ``python -m lsar_jax COMMAND``."""

import sys

from lsar_jax.console.run import Command, run_named

__all__ = ["main"]

COMMANDS = {
    "encode": Command("lsar_jax.cli.encode", "Encode", "encode text of any length into a folder"),
    "fit": Command("lsar_jax.cli.fit", "FitCommands", "fit a transform on text or vectors"),
    "apply": Command("lsar_jax.cli.apply", "Apply", "apply a transform to vectors or text"),
    "report": Command("lsar_jax.cli.report", "Report", "choose a layer, method and rank for text of yours"),
    "explore": Command("lsar_jax.cli.explore", "Explore", "look at text before and after a transform, on one page"),
    "mine": Command("lsar_jax.cli.mine", "Mine", "find translations in two collections of any size"),
    "duplicates": Command(
        "lsar_jax.cli.duplicates", "Duplicates", "group translations and near-duplicates inside one collection"
    ),
    "merge": Command("lsar_jax.cli.merge", "Merge", "end a job that ran in shares, with --shard I/N"),
    "convert": Command("lsar_jax.cli.convert", "Convert", "convert a pickled checkpoint to a safetensors folder"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one command."""
    about = "COMMAND --help shows the options that matter most, and COMMAND --help-all shows all of them.\n"
    about += "Evaluations, python -m eval, and training, python -m train.align ..., run in a checkout of the source."
    return run_named({"": COMMANDS}, "lsar-jax", arguments, about=about)


if __name__ == "__main__":
    sys.exit(main())
