"""Runs ``python -m eval TASK``, which measures an encoder before and after each transform."""

import sys

from lsar_jax.cli.run import Command, run_named

__all__ = ["main"]

TASKS = {
    "udhr": Command("eval.tasks.udhr", "COMMAND", "retrieval of the same paragraph in 40 languages (make demo)"),
    "tatoeba": Command("eval.tasks.tatoeba", "COMMAND", "retrieval of translations in 36 languages"),
    "lareqa": Command("eval.tasks.lareqa", "COMMAND", "answer retrieval from a multilingual pool"),
    "sts17": Command("eval.tasks.sts17", "COMMAND", "semantic similarity against human scores"),
    "bucc": Command("eval.tasks.bucc", "COMMAND", "mining of translations hidden in two collections"),
    "bitext": Command("eval.tasks.bitext", "COMMAND", "retrieval on held-out pairs of any parallel text"),
    "code-switch": Command("eval.tasks.code_switch", "COMMAND", "Tatoeba with some words replaced by English ones"),
    "amazon": Command("eval.tasks.amazon", "COMMAND", "sentiment of reviews, trained on English"),
    "pool": Command("eval.tasks.pool", "COMMAND", "language preference and clusters in any multilingual pool"),
    "leakage": Command("eval.tasks.leakage", "Leakage", "semantic leakage of heads trained by train.disentangle"),
    "geometry": Command("eval.tasks.geometry", "COMMAND", "the geometry of the space after each method, with figures"),
    "answers": Command("eval.tasks.answers", "COMMAND", "whether answers are preferred in the question's language"),
    "bias": Command("eval.bias.command", "Bias", "a report on text of your own: which layer, method and rank to use"),
    "explore": Command("eval.explore", "Explore", "a page to look at text of your own, before and after a transform"),
    "all": Command("eval.suite", "Suite", "every task whose data is available, and a report"),
    "repro": Command("eval.papers.repro", "Repro", "a table or figure of a paper: its commands, and the comparison"),
    "report": Command("eval.report.page", "Report", "one page with all results"),
    "study": Command("eval.study", "Study", "Wu and Dredze's study: objectives of alignment, over tasks and seeds"),
    "transfer": Command("eval.report.transfer", "Transfer", "zero-shot transfer of encoders trained by train.finetune"),
    "compare": Command(
        "eval.report.compare", "Compare", "a test of two methods on the same queries, or of two encoders over seeds"
    ),
    "make-bucc": Command("eval.data.make_bucc", "MakeBucc", "BUCC-style files from other parallel text"),
    "make-dictionaries": Command(
        "eval.data.dictionaries", "MakeDictionaries", "bilingual dictionaries converted from FreeDict"
    ),
    "speed": Command("eval.speed.command", "Speed", "benchmarks of speed, each beside its peers, and one table"),
    "aot": Command("eval.aot.command", "Aot", "memory and traffic of every program, compiled for a TPU or GPU"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one task."""
    about = "Measures an encoder before and after each transform. `python -m eval TASK --help` lists the options."
    return run_named(TASKS, "python -m eval", arguments, noun="task", about=about)


if __name__ == "__main__":
    sys.exit(main())
