"""Zero-shot transfer of several encoders: a table of scores with error bars, in the layout of the papers.

    python -m eval transfer results/transfer/pos-original results/transfer/pos-strong --out results/transfer/pos

Rows are encoders, the first being what the others are compared with; columns are tests. A cell is the mean over seeds
and the sample standard deviation. As in Table 1 of Wu and Dredze (EMNLP 2020), ``+`` and ``-`` mark means that are more
than one standard deviation of the first encoder above or below its mean. The last columns are the mean over the tests
that are not English, and that over all tests, the AVER of the paper. Each has the mean of its tests' standard
deviations, which its marks go by, and its own in brackets. Folders of several tasks give a table each.

How an encoder was aligned names its row: the objective of ``train.align``, with ``linear`` for maps, and ``features``
for a frozen encoder. Only the results of one way of training, frozen or not, need the same options of training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from eval.report import seed_scores as table
from lsar_jax import EncoderSpec
from lsar_jax.checks import errors_of
from lsar_jax.console.output import console, print_table
from lsar_jax.files import read_json
from lsar_jax.measures.results import Result, write_results
from lsar_jax.measures.run_record import recorded
from train.finetune.conllu_ner_xnli import is_dataset

__all__ = ["Transfer"]

# What must be the same for encoders to be compared: of the text, and of those that are trained in the same way.
_TEXT = ("max_length", "most", "most_dev", "most_tested", "held_out", "dtype", "chinese_words")
_TRAINING = ("features", "learning_rate", "batch", "epochs", "validations", "dropout", "trained_blocks")


# A folder of train.finetune, with its ``transfer.json`` and ``config.json``.
_Run = tuple[Path, dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class Transfer:
    """Collects what python -m train.finetune wrote for several encoders.

    Attributes:
      folders: output folders of train.finetune; the others of a task are compared with its first.
      out: folder for the results.
      overwrite: replace results in the folder that are from other options.
    """

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path = Path("results/transfer")
    overwrite: bool = False

    def run(self) -> list[Result]:
        """Prints the tables and writes ``results.jsonl``; raises ValueError for runs that cannot be compared."""
        if not self.folders:
            raise ValueError("give at least one folder that python -m train.finetune wrote")
        tasks: dict[str, list[_Run]] = {}
        for folder in self.folders:
            transfer = read_json(folder / "transfer.json", dict, ("task", "metric", "encoder", "maps", "seeds"))
            config = read_json(folder / "config.json", dict, ("files", "train", "dev", "max_length"))
            tasks.setdefault(transfer["task"], []).append((folder, transfer, config))
        with recorded(self):
            results = {task: _of_task(of_task) for task, of_task in tasks.items()}
            every = [result for of_task in results.values() for result in of_task]
            write_results(every, self.out / "results.jsonl")
        for task, of_task in results.items():
            _print(of_task, tasks[task])
        console.print(f"wrote {self.out / 'results.jsonl'}")
        return every


def _of_task(runs: Sequence[_Run]) -> list[Result]:
    """The results of the runs of a task, after checking that they can be compared; scores of seeds come first."""
    alike: dict[bool | None, tuple[Path, dict[str, Any]]] = {}
    results: list[Result] = []
    others: list[Result] = []
    for folder, transfer, config in runs:
        training = {name: config.get(name) for name in _TRAINING}
        # The options of the text must be the same in all runs, and those of training in those that are trained alike.
        for way, options in ((None, _options(config)), (bool(training["features"]), training)):
            first, same = alike.setdefault(way, (folder, options))
            for option in sorted({*same, *options}):
                if options.get(option) != same.get(option):
                    raise ValueError(
                        f"{folder} has {option} {options.get(option)!r}, but {first} has {same.get(option)!r}; omit one"
                    )
        with errors_of(f"{folder / 'transfer.json'}: a score lacks a name", KeyError):
            found = _results(transfer, config)
        if again := {table.result_key(result) for result in results} & {table.result_key(result) for result in found}:
            name, seed, _ = min(again)
            raise ValueError(f"{folder} has scores of {name}, seed {seed}, and so has another folder; omit one")
        results += found
        others += _spreads(found)
    revisions: dict[str, str] = {}
    for name, result in zip(table.encoder_names(results), results, strict=True):
        if revisions.setdefault(name, result.revision) != result.revision:
            raise ValueError(f"two encoders are named {name}; rename the folder of one")
    return results + others


def _print(results: Sequence[Result], runs: Sequence[_Run]) -> None:
    """Prints the table of a task, and the tests over seeds of the mean over other languages."""
    rows, transfer = table.transfer_rows(results), runs[0][1]
    first, *others = rows
    counts = ", ".join(f"{name} {max(map(len, of.values()))}" for name, of in table.scores_by_test(results).items())
    title = f"{transfer['task']}, {transfer['metric']}; {table.sizes(results)}; seeds: {counts}"
    # On the screen, tests are rows: there are more of them than of encoders.
    lines = [[test, *(str(cells[test]) for cells in rows.values())] for test in rows[first]]
    print_table(title, ["test", *rows], lines)
    pairs = [(first, name) for name in others]
    # Maps change frozen features, so that these are what they are compared with, too.
    frozen, mapped = ([n for n in others if n.endswith(table.with_maps(way))] for way in ("features", "linear"))
    pairs += product(frozen, mapped)
    for base, name in pairs if table.MEAN in rows[first] else ():
        difference, p, least = table.seed_test(results, base, name)
        console.print(
            f"{name} minus {base}, {table.MEAN}: {difference:+.2f}, p = {p:.3f}; these seeds can give "
            f"{least:.3f} at least"
        )


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the text, which must be the same in all runs; files are compared by their contents."""
    files = {str(path): f"the file {digest}" for path, digest in config["files"].items()}
    texts = {name: files.get(str(config[name]), config[name]) for name in ("train", "dev")}
    tests = {f"test {path if is_dataset(path) else Path(path).name}": file for path, file in files.items()}
    return {name: config.get(name) for name in ("task", "languages", *_TEXT)} | texts | tests


def _results(transfer: Mapping[str, Any], config: Mapping[str, Any]) -> list[Result]:
    """The scores of each seed: of each test, and their means."""
    spec, metric = EncoderSpec.from_dict(transfer["encoder"]), transfer["metric"]
    aligned = transfer.get("alignment") or {}
    options = {name: config.get(name) for name in ("train", "dev", *_TRAINING, *_TEXT)}
    options |= {"training": table.training_of(options), "fit_on": aligned.get("text", "")}
    options |= {f"alignment_{name}": aligned.get(name) for name in ("steps", "batch", "learning_rate")}
    unaligned = "linear" if transfer["maps"] else "features" if options["features"] else "original"
    scores = []
    for seed, end in transfer["seeds"].items():
        of_seed = [(test, s[metric], (s["language"],), s["n"]) for test, s in end["scores"].items()]
        others = [score for score in of_seed if score[2] != ("en",)]
        for mean, over in ((table.MEAN, others), (table.AVERAGE, of_seed if len(of_seed) > 1 else [])):
            if over:
                _, values, languages, counts = zip(*over, strict=True)
                codes = tuple(dict.fromkeys(code for (code,) in languages))
                of_seed = [*of_seed, (mean, float(np.mean(values)), codes, sum(counts))]
        scores += [(int(seed), *score) for score in of_seed]
    tests = next(iter(transfer["seeds"].values()))["scores"]
    tested = [score["language"] for score in tests.values()]
    # A language that has one test names it, as in the papers.
    names = {test: s["language"] for test, s in tests.items() if tested.count(s["language"]) == 1}
    return [
        Result(
            task=f"transfer-{transfer['task']}", languages=languages, encoder=aligned.get("encoder", spec.id),
            revision=spec.revision, layer=spec.layer, pooling=spec.pooling, dtype=spec.dtype,
            max_length=config["max_length"], transform=aligned.get("objective", unaligned), parameters={},
            fitted_on=str(config["train"]), metric=f"{metric} {names.get(test, test)}", value=value, n=count, seed=seed,
            seconds=0.0, options={"test": test, **options}, direction="higher",
        )
        for seed, test, value, languages, count in scores
    ]  # fmt: skip


def _spreads(results: Sequence[Result]) -> list[Result]:
    """The standard deviation over seeds of each test; of a mean over tests, the mean of theirs."""
    [cells] = table.transfer_rows(results).values()
    firsts = {str(result.options["test"]): result for result in reversed(results)}
    return [
        replace(
            firsts[test], metric=f"{firsts[test].metric}, std", value=cell.std, seed=None, direction="neither",
            options={**firsts[test].options, "test": f"{test}, std"},
        )
        for test, cell in cells.items()
        if not np.isnan(cell.std)
    ]  # fmt: skip
