"""Runs ``python -m eval TASK``, which measures an encoder before and after each transform."""

import sys

from lsar_jax.console.run import Command, run_named

__all__ = ["GROUPS", "TASKS", "main"]

MEASURE = {
    "udhr": Command("eval.tasks.udhr", "COMMAND", "search for the same paragraph in 40 languages (make demo)"),
    "tatoeba": Command("eval.tasks.benchmarks.tatoeba", "COMMAND", "search for translations in 36 languages"),
    "lareqa": Command("eval.tasks.benchmarks.lareqa", "COMMAND", "search for answers in a pool of many languages"),
    "sts17": Command("eval.tasks.benchmarks.sts17", "COMMAND", "compare similarities with human scores"),
    "bucc": Command("eval.tasks.benchmarks.bucc", "COMMAND", "mine translations hidden in two collections"),
    "bitext": Command("eval.tasks.bitext", "COMMAND", "search for translations in any parallel text"),
    "flores": Command("eval.tasks.benchmarks.flores_ntrex", "FLORES", "search for translations in 204 languages"),
    "ntrex": Command("eval.tasks.benchmarks.flores_ntrex", "NTREX", "search for translations in 121 languages"),
    "scripts": Command("eval.tasks.benchmarks.flores_ntrex", "SCRIPTS", "languages in two scripts: language or script"),
    "belebele": Command("eval.tasks.benchmarks.belebele", "COMMAND", "search for a question's passage, also romanised"),
    "mlqa": Command("eval.tasks.benchmarks.mlqa_miracl", "MLQA", "search for a question's passage, by language pair"),
    "pool": Command("eval.tasks.benchmarks.document_pools", "COMMAND", "search one pool of documents in all languages"),
    "miracl": Command("eval.tasks.benchmarks.mlqa_miracl", "MIRACL", "search for a passage, in 18 languages"),
    "code-switch": Command("eval.tasks.code_switch", "COMMAND", "Tatoeba with some words replaced by English ones"),
    "amazon": Command("eval.tasks.benchmarks.amazon", "COMMAND", "classify reviews after training on English ones"),
    "preference": Command("eval.tasks.language_preference", "COMMAND", "language preference, by several papers"),
    "threshold": Command("eval.tasks.one_threshold", "COMMAND", "one threshold of scores for all pairs of languages"),
    "clustering": Command("eval.tasks.clustering", "COMMAND", "whether clusters follow topics or languages"),
    "answers": Command("eval.tasks.answers", "COMMAND", "whether answers in the question's language are preferred"),
    "leakage": Command("eval.tasks.leakage", "Leakage", "semantic leakage of heads trained by train.disentangle"),
    "geometry": Command("eval.tasks.geometry", "COMMAND", "the geometry of the space after each method, with figures"),
    "all": Command("eval.suite", "Suite", "every task whose data is here, and a report"),
}
REPORT = {
    "report": Command(
        "eval.report.page", "ResultsPage", "results of tasks on one page, and what methods cost and gain"
    ),
    "compare": Command("eval.report.compare", "Compare", "test whether two methods differ on the same queries"),
    "transfer": Command("eval.report.transfer", "Transfer", "tables of the runs of train.finetune, by encoder"),
}
REPRODUCE = {
    "repro": Command("eval.papers.repro", "Repro", "run a table or figure of a paper, and compare it with ours"),
    "examples": Command("eval.example_counts", "ExampleCounts", "the number of examples in each part of a task's text"),
    "make-bucc": Command("eval.data.make_bucc", "MakeBucc", "make files like BUCC's from other parallel text"),
    "make-dictionaries": Command(
        "eval.data.dictionaries", "MakeDictionaries", "make bilingual dictionaries from FreeDict's"
    ),
}
SPEED = {
    "speed": Command("eval.bench.speed", "Speed", "run benchmarks, each beside its peers"),
    "aot": Command("eval.bench.aot", "Aot", "memory and traffic of every program, compiled for a TPU or GPU"),
}
GROUPS = {
    "Measure an encoder, before and after each transform": MEASURE,
    "Report": REPORT,
    "Reproduce the papers": REPRODUCE,
    "Speed": SPEED,
}
TASKS = MEASURE | REPORT | REPRODUCE | SPEED


def main(arguments: list[str] | None = None) -> int:
    """Runs one task."""
    about = "TASK --help shows the options that matter most, and TASK --help-all shows all of them."
    return run_named(GROUPS, "python -m eval", arguments, noun="task", about=about)


if __name__ == "__main__":
    sys.exit(main())
