"""Runs ``python -m eval TASK``, which measures an encoder before and after each transform."""

import importlib
import sys

import tyro

__all__ = ["main"]

# Task name -> module, class, description. Only the module of the requested task is imported.
TASKS = {
    "udhr": ("tasks.udhr", "Udhr", "retrieval of the same paragraph in 40 languages (make demo)"),
    "tatoeba": ("tasks.tatoeba", "Tatoeba", "retrieval of translations in 36 languages"),
    "lareqa": ("tasks.lareqa", "Lareqa", "answer retrieval from a multilingual pool"),
    "sts17": ("tasks.sts17", "Sts17", "semantic similarity against human scores"),
    "bucc": ("tasks.bucc", "Bucc", "mining of translations hidden in two collections"),
    "bitext": ("tasks.bitext", "Bitext", "retrieval on held-out pairs of any parallel text"),
    "code-switch": ("tasks.code_switch", "CodeSwitch", "Tatoeba with some words already English"),
    "amazon": ("tasks.amazon", "Amazon", "sentiment of reviews, trained on English"),
    "pool": ("tasks.pool", "Pool", "language preference and clusters in any multilingual pool"),
    "leakage": ("tasks.leakage", "Leakage", "semantic leakage of heads trained by train.disentangle"),
    "geometry": ("tasks.geometry", "Geometry", "the geometry of the space after each method, with figures"),
    "all": ("suite", "Suite", "every task whose data is available, and a report"),
    "report": ("report.page", "Report", "one page with all results"),
    "compare": ("report.compare", "Compare", "a paired test of two methods"),
    "make-bucc": ("data.make_bucc", "MakeBucc", "BUCC-style files from other parallel text"),
    "make-dictionaries": ("data.dictionaries", "MakeDictionaries", "bilingual dictionaries converted from FreeDict"),
    "curve": ("studies.curve", "Curve", "accuracy against the number of fitting sentences"),
    "sweep": ("studies.sweep", "Sweep", "every layer, method and rank in one pass"),
    "algorithm1": ("studies.algorithm1", "Algorithm1", "LSAR's Algorithm 1 as printed, in float32"),
    "precision": ("studies.bfloat16", "Precision", "bfloat16 compared with float32"),
    "engine": ("studies.bundled_engine", "Engine", "the bundled encoder compared with its wheel's engine"),
    "bench": ("speed.encoding", "Bench", "encoding speed compared with sentence-transformers"),
    "fitbench": ("speed.fits", "FitBench", "fitting time compared with numpy and scikit-learn"),
    "headsbench": ("speed.training", "HeadsBench", "training speed compared with a PyTorch loop"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one task; user errors are printed on one line, without a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help"):
        print(_usage())
        return 0 if given else 2
    name, *rest = given
    if name not in TASKS:
        print(f"error: unknown task {name!r}; choose one of {', '.join(TASKS)}", file=sys.stderr)
        return 2
    module, kind, _ = TASKS[name]
    try:
        task = getattr(importlib.import_module(f"eval.{module}"), kind)
        tyro.cli(task, prog=f"python -m eval {name}", args=rest).run()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _usage() -> str:
    width = max(map(len, TASKS))
    lines = [f"  {name:{width}}  {what}" for name, (_, _, what) in TASKS.items()]
    return "\n".join(
        [
            "usage: python -m eval TASK [OPTIONS]",
            "",
            "Measures an encoder before and after each transform. `python -m eval TASK --help` lists the options.",
            "",
            *lines,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
