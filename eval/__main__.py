"""``python -m eval TASK``: measures an encoder before and after each transform."""

import importlib
import sys

import tyro

__all__ = ["main"]

# Task: its module, its class, what it does. Only the module of the task at hand is imported.
TASKS = {
    "udhr": ("tasks.udhr", "Udhr", "the same paragraph in 40 languages (make demo)"),
    "tatoeba": ("tasks.tatoeba", "Tatoeba", "translations, 36 languages"),
    "lareqa": ("tasks.lareqa", "Lareqa", "answers in a pool of many languages"),
    "sts17": ("tasks.sts17", "Sts17", "semantic similarity, people's scores"),
    "bucc": ("tasks.bucc", "Bucc", "mining of hidden translations"),
    "bitext": ("tasks.bitext", "Bitext", "held-out pairs of any parallel text"),
    "code-switch": ("tasks.code_switch", "CodeSwitch", "Tatoeba with some words already English"),
    "amazon": ("tasks.amazon", "Amazon", "opinions of reviews, trained on English"),
    "pool": ("tasks.pool", "Pool", "preference and clusters in any multilingual pool"),
    "leakage": ("tasks.leakage", "Leakage", "meaning and language heads of train.disentangle"),
    "geometry": ("tasks.geometry", "Geometry", "what each method does to the space, with figures"),
    "all": ("suite", "Suite", "every task that there is data for, and a report"),
    "report": ("report.page", "Report", "a page of all results"),
    "compare": ("report.compare", "Compare", "a paired test of two methods"),
    "make-bucc": ("data.make_bucc", "MakeBucc", "files in BUCC's form from other parallel text"),
    "make-dictionaries": ("data.dictionaries", "MakeDictionaries", "bilingual dictionaries from FreeDict's"),
    "curve": ("studies.curve", "Curve", "accuracy against the number of sentences fitted on"),
    "sweep": ("studies.sweep", "Sweep", "every layer, method and rank in one pass"),
    "algorithm1": ("studies.algorithm1", "Algorithm1", "LSAR's printed algorithm in float32"),
    "precision": ("studies.bfloat16", "Precision", "bfloat16 beside float32"),
    "engine": ("studies.bundled_engine", "Engine", "the bundled encoder beside its wheel's engine"),
    "bench": ("speed.encoding", "Bench", "encoding beside sentence-transformers"),
    "fitbench": ("speed.fits", "FitBench", "fits beside numpy and scikit-learn"),
    "headsbench": ("speed.training", "HeadsBench", "training steps beside a PyTorch loop"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one task; a user's mistake is printed as one line, without a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help"):
        print(_usage())
        return 0 if given else 2
    name, *rest = given
    if name not in TASKS:
        print(f"error: there is no task {name!r}; choose one of {', '.join(TASKS)}", file=sys.stderr)
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
