"""Zero-shot transfer of several encoders: a table of scores with error bars, in the layout of the papers.

    python -m eval transfer results/transfer/pos-original results/transfer/pos-strong --out results/transfer/pos

Rows are encoders, the first being what the others are compared with; columns are tests. A cell is the mean over seeds
and the sample standard deviation. As in Table 1 of Wu and Dredze (EMNLP 2020), ``+`` and ``-`` mark means that are more
than one standard deviation of the first encoder above or below its mean. The last columns are the mean over the tests
that are not English, and that over all tests, the AVER of the paper. Each has the mean of its tests' standard
deviations, which its marks go by, and its own in brackets. Folders of several tasks give a table each, and one of the
means over all tests.

How an encoder was aligned names its row: the objective of ``train.align``, with ``linear`` for maps, and ``features``
for a frozen encoder. Only the results of one way of training, frozen or not, need the same options of training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from jaxtyping import Float
from scipy.stats import permutation_test

from eval.report.tables import Cell, Table
from lsar_jax import EncoderSpec
from lsar_jax.console.output import console, print_table
from lsar_jax.files import read_json
from lsar_jax.measures.results import Result, write_results
from lsar_jax.measures.run_record import recorded
from train.finetune.conllu_ner_xnli import is_dataset

__all__ = [
    "AVERAGE", "MEAN", "SeedTest", "Spread", "Transfer", "by_task", "is_transfer", "seed_test", "tasks_test",
    "transfer_results", "transfer_rows", "transfer_table",
]  # fmt: skip

# The tests that stand for the mean of those that are not English, and for the mean of all.
MEAN = "other languages"
AVERAGE = "all languages"
# Random assignments of a test over tasks.
_DRAWS = 100_000
# What must be the same for encoders to be compared: of the text, and of those that are trained in the same way.
_TEXT = ("max_length", "most", "most_dev", "most_tested", "held_out", "dtype", "chinese_words")
_TRAINING = (
    "features", "learning_rate", "batch", "epochs", "warmup", "validations", "patience", "dropout", "trained_blocks",
)  # fmt: skip


class Spread(NamedTuple):
    """Scores over seeds."""

    mean: float
    std: float  # sample standard deviation; NaN for one seed
    mark: str = ""  # + or - if the mean is beyond one standard deviation of the first encoder
    within: float = float("nan")  # for the mean over tests, the mean of their standard deviations

    @property
    def text(self) -> str:
        """The mean and its mark."""
        return f"{self.mean:.1f}{self.mark}"

    @property
    def note(self) -> str:
        """The standard deviation; empty for one seed."""
        if not np.isnan(self.within):
            return f"± {self.within:.1f} ({self.std:.1f})"
        return "" if np.isnan(self.std) else f"± {self.std:.1f}"

    def __str__(self) -> str:
        return f"{self.text} {self.note}".rstrip()


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
        with recorded(self):
            return transfer_results(self.folders, self.out)


def transfer_results(folders: Sequence[Path], out: Path, seeds: Sequence[int] = ()) -> list[Result]:
    """Prints the tables of output folders of train.finetune, by default of all seeds, and writes ``results.jsonl``."""
    tasks: dict[str, list[_Run]] = {}
    for folder in folders:
        run = _read(folder)
        run.transfer["seeds"] = {str(s): run.transfer["seeds"][str(s)] for s in seeds} or run.transfer["seeds"]
        tasks.setdefault(run.transfer["task"], []).append(run)
    results = {task: _of_task(of_task) for task, of_task in tasks.items()}
    every = [result for of_task in results.values() for result in of_task]
    write_results(every, out / "results.jsonl")
    for task, of_task in results.items():
        _print(of_task, tasks[task])
    if len(results) > 1:
        rows = {task: transfer_rows(of_task) for task, of_task in results.items()}
        names = dict.fromkeys(name for of_task in rows.values() for name in of_task)
        cells = [[name, *(str(of.get(name, {}).get(AVERAGE, "")) for of in rows.values())] for name in names]
        print_table(f"Mean over {AVERAGE}, with the mean of their standard deviations", ["", *rows], cells)
    console.print(f"wrote {out / 'results.jsonl'}")
    return every


class _Run(NamedTuple):
    """A folder of train.finetune, with its ``transfer.json`` and ``config.json``."""

    folder: Path
    transfer: dict[str, Any]
    config: dict[str, Any]


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
        try:
            found = _results(transfer, config)
        except KeyError as error:
            raise ValueError(f"{folder / 'transfer.json'}: a score has no {error}") from error
        if again := {_key(result) for result in results} & {_key(result) for result in found}:
            name, seed, _ = min(again)
            raise ValueError(f"{folder} has scores of {name}, seed {seed}, and so has another folder; omit one")
        results += found
        others += _spreads(found)
    revisions: dict[str, str] = {}
    for name, result in zip(_names(results), results, strict=True):
        if revisions.setdefault(name, result.revision) != result.revision:
            raise ValueError(f"two encoders are named {name}; rename the folder of one")
    return results + others


def _print(results: Sequence[Result], runs: Sequence[_Run]) -> None:
    """Prints the table of a task, and the tests over seeds of the mean over other languages."""
    rows, transfer = transfer_rows(results), runs[0].transfer
    first, *others = rows
    counts = ", ".join(f"{name} {max(map(len, tests.values()))}" for name, tests in _scores(results).items())
    title = f"{transfer['task']}, {transfer['metric']}; {_sizes(results)}; seeds: {counts}"
    # On the screen, tests are rows: there are more of them than of encoders.
    lines = [[test, *(str(cells[test]) for cells in rows.values())] for test in rows[first]]
    print_table(title, ["test", *rows], lines)
    pairs = [(first, name) for name in others]
    # Maps change frozen features, so that these are what they are compared with, too.
    pairs += [(f, m) for f in others for m in others if f.endswith(_plus("features")) and m.endswith(_plus("linear"))]
    for base, name in pairs if MEAN in rows[first] else ():
        found = seed_test(results, base, name)
        console.print(
            f"{name} minus {base}, {MEAN}: {found.difference:+.2f}, p = {found.p:.3f}; these seeds can give "
            f"{found.least:.3f} at least"
        )
    for folder, transfer, _ in runs:
        scores = next(iter(transfer["seeds"].values()))["scores"]
        unmapped = [test for test, score in scores.items() if score["language"] != "en" and not score["mapped"]]
        if transfer["maps"] and unmapped:
            console.print(f"{folder}: {', '.join(unmapped)} tested without {transfer['maps']}, as there are none")


def by_task(results: Sequence[Result]) -> list[list[Result]]:
    """The results of each task; those of one table."""
    tasks: dict[str, list[Result]] = {}
    for result in results:
        tasks.setdefault(result.task, []).append(result)
    return list(tasks.values())


def is_transfer(result: Result) -> bool:
    """Whether a result is of ``python -m eval transfer``, and no number of examples."""
    return result.task.startswith("transfer-") and "test" in result.options


def transfer_rows(results: Sequence[Result]) -> dict[str, dict[str, Spread]]:
    """Encoder -> test -> scores over seeds, of which those of other encoders are compared with the first's."""
    english = {str(result.options["test"]) for result in results if result.languages == ("en",)}
    left_out = {MEAN: {MEAN, AVERAGE, *english}, AVERAGE: {MEAN, AVERAGE}}
    rows: dict[str, dict[str, Spread]] = {}
    for name, by_test in _scores(results).items():
        stds = {test: float(np.std(of, ddof=1)) if len(of) > 1 else float("nan") for test, of in by_test.items()}
        cells = {test: Spread(float(np.mean(values)), stds[test]) for test, values in by_test.items()}
        for mean in left_out.keys() & cells.keys():
            within = [std for test, std in stds.items() if test not in left_out[mean]]
            cells[mean] = cells[mean]._replace(within=float(np.mean(within)))
        rows[name] = cells
        first = next(iter(rows.values()))
        for test in cells.keys() & first.keys():
            apart, base = cells[test].mean - first[test].mean, first[test]
            if abs(apart) > (base.std if np.isnan(base.within) else base.within):
                cells[test] = cells[test]._replace(mark="+" if apart > 0 else "-")
    return rows


def _scores(results: Sequence[Result]) -> dict[str, dict[str, list[float]]]:
    """Encoder -> test -> the scores of its seeds; tables that are shown together may share an encoder."""
    scores: dict[str, dict[str, list[float]]] = {}
    results = [result for result in results if result.seed is not None]
    once = {_key(result): (name, result) for name, result in zip(_names(results), results, strict=True)}
    for name, result in once.values():
        scores.setdefault(name, {}).setdefault(str(result.options["test"]), []).append(result.value)
    return scores


def transfer_table(results: Sequence[Result]) -> Table:
    """Returns the table of a task for the report: an encoder in each row, and a test in each column."""
    rows = transfer_rows(results)
    tests = list(next(iter(rows.values())))
    best = {test: max(cells[test].mean for cells in rows.values() if test in cells) for test in tests}
    lines = []
    for encoder, cells in rows.items():
        line = [(cells[test], best[test]) if test in cells else None for test in tests]
        lines.append([Cell(encoder), *(Cell(s[0].text, s[0].mean == s[1], s[0].note) if s else Cell("") for s in line)])
    metric, task = results[0].metric.partition(" ")[0], results[0].task.removeprefix("transfer-")
    title = f"{metric} of zero-shot transfer, {task}, mean and std over seeds; {_sizes(results)}"
    return Table(title, ["encoder", *tests], lines)


def _sizes(results: Sequence[Result]) -> str:
    """How much text the encoders of a table were trained and tested on."""
    ways = dict.fromkeys(_training(result.options) for result in results if result.seed is not None)
    tested = results[0].options["most_tested"]
    tested = "all sentences" if tested is None else f"at most {tested} sentences"
    return f"{', '.join(ways)}, tested on {tested} each"


def _training(options: Mapping[str, Any]) -> str:
    blocks, passes = options["trained_blocks"], f"{options['epochs']} pass{'' if options['epochs'] == 1 else 'es'}"
    trained = "features" if options["features"] else "all blocks" if blocks is None else f"the last {blocks} blocks"
    most = "all sentences" if options["most"] is None else f"at most {options['most']} sentences"
    return f"{trained} trained on {most} in {passes}"


class SeedTest(NamedTuple):
    """A test of two encoders over seeds."""

    difference: float  # of their means, second minus first
    p: float  # two-sided
    least: float  # the lowest p that this number of seeds can give: 0.1 with three seeds each, 0.008 with five


def seed_test(results: Sequence[Result], first: str, second: str, test: str = MEAN) -> SeedTest:
    """Tests whether two encoders differ by more than their seeds do, by all ways to assign the scores to the two.

    Raises ValueError if there are more than twenty scores, or none.
    """
    found, ways, least = _assigned(results, first, second, test)
    return SeedTest(found, float((np.abs(ways) >= abs(found) - 1e-9).mean()), least)


def tasks_test(tables: Sequence[Sequence[Result]], first: str, second: str) -> SeedTest:
    """Tests whether two encoders differ on average over tasks, by more than their seeds do.

    The difference is the mean over tasks, in points of each task's own metric, of the difference in ``seed_test``.
    Scores are assigned to the two encoders anew within each task, at random. Raises ValueError if two tables are of one
    task.
    """
    tasks = [results[0].task for results in tables]
    if again := {task for task in tasks if tasks.count(task) > 1}:
        raise ValueError(f"several tables are of {min(again)}; give one for each task")
    found, ways, lowest = zip(*(_assigned(results, first, second, MEAN) for results in tables), strict=True)
    # The lowest share of all joint assignments: the one found and, if both have equally many scores of every task, the
    # one that exchanges the two.
    mirrored = all(least * len(of) > 1.5 for of, least in zip(ways, lowest, strict=True))
    least = (2 if mirrored else 1) / np.prod([float(len(of)) for of in ways])
    rng = np.random.default_rng(0)
    drawn = np.mean([rng.choice(of, _DRAWS) for of in ways], axis=0)
    difference = float(np.mean(found))
    as_large = int((np.abs(drawn) >= abs(difference) - 1e-9).sum())
    return SeedTest(difference, (1 + as_large) / (1 + _DRAWS), max(1 / (1 + _DRAWS), float(least)))


def _assigned(
    results: Sequence[Result], first: str, second: str, test: str
) -> tuple[float, Float[np.ndarray, " way"], float]:
    """The difference of two encoders, the differences of all ways to assign their scores, and the lowest p-value."""
    scores = _scores(results)
    for encoder in (first, second):
        if test not in scores.get(encoder, ()):
            raise ValueError(f"{encoder!r} has no scores of {test!r}; the encoders are {', '.join(scores)}")
    sides = [np.array(scores[encoder][test]) for encoder in (first, second)]
    if (count := sum(map(len, sides))) > 20:
        raise ValueError(f"{first} and {second} have {count} scores of {test!r}; the test takes at most 20")
    found = permutation_test(sides, lambda a, b, axis: b.mean(axis) - a.mean(axis), n_resamples=np.inf)
    ways = found.null_distribution
    return float(found.statistic), ways, (2 if len(sides[0]) == len(sides[1]) else 1) / len(ways)


def _read(folder: Path) -> _Run:
    transfer = read_json(folder / "transfer.json", dict, ("task", "metric", "encoder", "maps", "seeds"))
    return _Run(folder, transfer, read_json(folder / "config.json", dict, ("files", "train", "dev", "max_length")))


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the text, which must be the same in all runs; files are compared by their contents."""
    files = {str(path): f"the file {digest}" for path, digest in config["files"].items()}
    texts = {name: files.get(str(config[name]), config[name]) for name in ("train", "dev")}
    tests = {f"test {path if is_dataset(path) else Path(path).name}": file for path, file in files.items()}
    return (
        {name: config.get(name) for name in ("task", *_TEXT)} | {"languages": config.get("languages")} | texts | tests
    )


def _results(transfer: Mapping[str, Any], config: Mapping[str, Any]) -> list[Result]:
    """The scores of each seed: of each test, and their means."""
    spec, metric, aligned = EncoderSpec.from_dict(transfer["encoder"]), transfer["metric"], transfer.get("alignment")
    options = {name: config.get(name) for name in ("train", "dev", *_TRAINING, *_TEXT)}
    options |= {"training": _training(options), "fit_on": (aligned or {}).get("text", "")}
    unaligned = "linear" if transfer["maps"] else "features" if options["features"] else "original"
    scores = []
    for seed, end in transfer["seeds"].items():
        of_seed = [(test, s[metric], (s["language"],), s["n"]) for test, s in end["scores"].items()]
        others = [score for score in of_seed if score[2] != ("en",)]
        for mean, over in ((MEAN, others), (AVERAGE, of_seed if len(of_seed) > 1 else [])):
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
            task=f"transfer-{transfer['task']}", languages=languages, encoder=(aligned or {}).get("encoder", spec.id),
            revision=spec.revision, layer=spec.layer, pooling=spec.pooling, dtype=spec.dtype,
            max_length=config["max_length"], transform=(aligned or {}).get("objective", unaligned), parameters={},
            fitted_on=str(config["train"]), metric=f"{metric} {names.get(test, test)}", value=value, n=count, seed=seed,
            seconds=0.0, options={"test": test, **options}, direction="higher",
        )
        for seed, test, value, languages, count in scores
    ]  # fmt: skip


def _spreads(results: Sequence[Result]) -> list[Result]:
    """The standard deviation over seeds of each test; of the mean over all, the mean of those of its tests."""
    [cells] = transfer_rows(results).values()
    firsts = {str(result.options["test"]): result for result in reversed(results)}
    spreads = {test: cell.std if np.isnan(cell.within) else cell.within for test, cell in cells.items()}
    return [
        replace(
            firsts[test], metric=f"{firsts[test].metric}, std", value=std, seed=None,
            options={**firsts[test].options, "test": f"{test}, std"},
        )
        for test, std in spreads.items()
        if not np.isnan(std)
    ]  # fmt: skip


def _plus(transform: str) -> str:
    return "" if transform == "original" else f" + {transform}"


def _names(results: Sequence[Result]) -> list[str]:
    """The name of each result's encoder, with the layer if it has several, and with the maps if any."""
    layers: dict[str, set[int]] = {}
    for result in results:
        layers.setdefault(result.encoder, set()).add(result.layer)
    names = []
    for result in results:
        layer = f", layer {result.layer}" if len(layers[result.encoder]) > 1 else ""
        names.append(f"{result.encoder}{layer}{_plus(result.transform)}")
    return names


def _key(result: Result) -> tuple[str, int, str]:
    """The encoder with its maps, the seed and the test, which identify a result."""
    encoder = f"{result.encoder}, layer {result.layer}, {result.revision}, {result.transform}"
    return encoder, result.seed or 0, str(result.options["test"])
