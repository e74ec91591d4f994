"""Zero-shot transfer of several encoders: a table of scores with error bars, in the layout of the papers.

    python -m eval transfer results/transfer/pos-original results/transfer/pos-strong --out results/transfer/pos

Rows are encoders, the first being what the others are compared with; columns are tests. A cell is the mean over seeds
and the sample standard deviation. As in Table 1 of Wu and Dredze (EMNLP 2020), ``+`` and ``-`` mark means that are more
than one standard deviation of the first encoder above or below its mean. The last column is the mean over the tests
that are not English, with the mean of their standard deviations, which its marks go by, and its own in brackets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from jaxtyping import Float

from eval.results import Result, write_results
from eval.run_record import recorded
from lsar_jax import EncoderSpec
from lsar_jax.cli.console import console, print_table
from lsar_jax.corpora.labelled import is_dataset
from lsar_jax.files import read_json

__all__ = ["MEAN", "SeedTest", "Spread", "Transfer", "is_transfer", "seed_test", "sizes", "tasks_test", "transfer_rows"]

# The test that stands for the mean of the others.
MEAN = "other languages"
# Random assignments of a test over tasks.
_DRAWS = 100_000
# What must be the same for encoders to be compared.
_SAME = (
    "features", "learning_rate", "batch", "epochs", "warmup", "validations", "patience", "dropout",
    "trained_blocks", "max_length", "most", "most_dev", "most_tested", "held_out", "dtype",
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
      folders: output folders of train.finetune, all of one task; the first is what the others are compared with.
      out: folder for the results.
      overwrite: replace results in the folder that are from other options.
    """

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path = Path("results/transfer")
    overwrite: bool = False

    def run(self) -> list[Result]:
        """Prints the table and writes ``results.jsonl``; raises ValueError for runs that cannot be compared."""
        if not self.folders:
            raise ValueError("give at least one folder that python -m train.finetune wrote")
        with recorded(self):
            return self._evaluate()

    def _evaluate(self) -> list[Result]:
        runs = [_read(folder) for folder in self.folders]
        options = [_options(config) for _, config in runs]
        for folder, other in zip(self.folders, options, strict=True):
            for option in sorted({*options[0], *other}):
                if other.get(option) != options[0].get(option):
                    raise ValueError(
                        f"{folder} has {option} {other.get(option)!r}, but {self.folders[0]} has "
                        f"{options[0].get(option)!r}; omit one"
                    )
        results: list[Result] = []
        for folder, (transfer, config) in zip(self.folders, runs, strict=True):
            try:
                more = _results(transfer, config)
            except KeyError as error:
                raise ValueError(f"{folder / 'transfer.json'}: a score has no {error}") from error
            if again := {_key(result) for result in results} & {_key(result) for result in more}:
                name, seed, _ = min(again)
                raise ValueError(f"{folder} has scores of {name}, seed {seed}, and so has another folder; omit one")
            results += more
        revisions: dict[str, str] = {}
        for name, result in zip(_names(results), results, strict=True):
            if revisions.setdefault(name, result.revision) != result.revision:
                raise ValueError(f"two encoders are named {name}; rename the folder of one")
        write_results(results, self.out / "results.jsonl")
        rows, (first, *others) = transfer_rows(results), revisions
        counts = ", ".join(f"{name} {max(map(len, tests.values()))}" for name, tests in _scores(results).items())
        title = f"{runs[0][0]['task']}, {runs[0][0]['metric']}; {sizes(results)}; seeds: {counts}"
        # On the screen, tests are rows: there are more of them than of encoders.
        lines = [[test, *(str(cells[test]) for cells in rows.values())] for test in rows[first]]
        print_table(title, ["test", *rows], lines)
        for name in others if MEAN in rows[first] else ():
            found = seed_test(results, first, name)
            console.print(
                f"{name} minus {first}, {MEAN}: {found.difference:+.2f}, p = {found.p:.3f}; these seeds can give "
                f"{found.least:.3f} at least"
            )
        for folder, (transfer, _) in zip(self.folders, runs, strict=True):
            scores = next(iter(transfer["seeds"].values()))["scores"]
            unmapped = [test for test, score in scores.items() if score["language"] != "en" and not score["mapped"]]
            if transfer["maps"] and unmapped:
                console.print(f"{folder}: {', '.join(unmapped)} tested without {transfer['maps']}, as there are none")
        console.print(f"wrote {self.out / 'results.jsonl'}")
        return results


def is_transfer(result: Result) -> bool:
    """Whether a result is of ``python -m eval transfer``."""
    return result.task.startswith("transfer-")


def transfer_rows(results: Sequence[Result]) -> dict[str, dict[str, Spread]]:
    """Encoder -> test -> scores over seeds, of which those of other encoders are compared with the first's."""
    english = {str(result.options["test"]) for result in results if result.languages == ("en",)}
    rows: dict[str, dict[str, Spread]] = {}
    for name, by_test in _scores(results).items():
        stds = {test: float(np.std(of, ddof=1)) if len(of) > 1 else float("nan") for test, of in by_test.items()}
        cells = {test: Spread(float(np.mean(values)), stds[test]) for test, values in by_test.items()}
        if MEAN in cells:
            within = [std for test, std in stds.items() if test != MEAN and test not in english]
            cells[MEAN] = cells[MEAN]._replace(within=float(np.mean(within)))
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
    once = {_key(result): (name, result) for name, result in zip(_names(results), results, strict=True)}
    for name, result in once.values():
        scores.setdefault(name, {}).setdefault(str(result.options["test"]), []).append(result.value)
    return scores


def sizes(results: Sequence[Result]) -> str:
    """What the encoders of a table were trained and tested on, for its title."""
    options, blocks = results[0].options, results[0].options["trained_blocks"]
    trained = "features" if options["features"] else "all blocks" if blocks is None else f"the last {blocks} blocks"
    passes = f"{options['epochs']} pass{'' if options['epochs'] == 1 else 'es'}"
    most, tested = (
        "all sentences" if options[name] is None else f"at most {options[name]} sentences"
        for name in ("most", "most_tested")
    )
    return f"{trained} trained on {most} in {passes}, tested on {tested} each"


class SeedTest(NamedTuple):
    """A test of two encoders over seeds."""

    difference: float  # of their means, second minus first
    p: float  # two-sided
    least: float  # the lowest p that this number of seeds can give: 0.1 with three seeds each, 0.008 with five


def seed_test(results: Sequence[Result], first: str, second: str, test: str = MEAN) -> SeedTest:
    """Tests whether two encoders differ by more than their seeds do.

    Of all ways to assign the scores to the two encoders, p is the share with a difference in means at least as large,
    in either direction. All ways are tried; raises ValueError if there are more than twenty scores, or none.
    """
    found, ways, least = _assigned(results, first, second, test)
    return SeedTest(found, float((np.abs(ways) >= abs(found) - 1e-9).mean()), least)


def tasks_test(tables: Sequence[Sequence[Result]], first: str, second: str) -> SeedTest:
    """Tests whether two encoders differ on average over tasks, by more than their seeds do.

    The difference is the mean over tasks of that of ``seed_test``, in points of each task's own metric. Scores are
    assigned to the two encoders anew within each task, at random. Raises ValueError if two tables are of one task.
    """
    tasks = [results[0].task for results in tables]
    if again := {task for task in tasks if tasks.count(task) > 1}:
        raise ValueError(f"several tables are of {min(again)}; give one for each task")
    parts = [_assigned(results, first, second, MEAN) for results in tables]
    # The lowest share of all joint assignments: the one found and, if both have equally many scores of every task, the
    # one that exchanges the two.
    mirrored = all(least * len(ways) > 1.5 for _, ways, least in parts)
    least = (2 if mirrored else 1) / np.prod([float(len(ways)) for _, ways, _ in parts])
    found = float(np.mean([difference for difference, _, _ in parts]))
    rng = np.random.default_rng(0)
    drawn = np.mean([rng.choice(ways, _DRAWS) for _, ways, _ in parts], axis=0)
    as_large = int((np.abs(drawn) >= abs(found) - 1e-9).sum())
    return SeedTest(found, (1 + as_large) / (1 + _DRAWS), max(1 / (1 + _DRAWS), float(least)))


def _assigned(
    results: Sequence[Result], first: str, second: str, test: str
) -> tuple[float, Float[np.ndarray, " way"], float]:
    """The difference of two encoders, that of each way to assign their scores, and the lowest p-value."""
    scores = _scores(results)
    for encoder in (first, second):
        if test not in scores.get(encoder, ()):
            raise ValueError(f"{encoder!r} has no scores of {test!r}; the encoders are {', '.join(scores)}")
    a, b = (np.array(scores[encoder][test]) for encoder in (first, second))
    pooled = np.concatenate([a, b])
    if len(pooled) > 20:
        raise ValueError(f"{first} and {second} have {len(pooled)} scores of {test!r}; the test takes at most 20")
    of_second = pooled[np.array(list(combinations(range(len(pooled)), len(b))))].sum(axis=1)
    differences = of_second / len(b) - (pooled.sum() - of_second) / len(a)
    return float(b.mean() - a.mean()), differences, (2 if len(a) == len(b) else 1) / len(differences)


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    transfer = read_json(folder / "transfer.json", dict, ("task", "metric", "encoder", "maps", "seeds"))
    return transfer, read_json(folder / "config.json", dict, ("files", "train", "dev", "max_length"))


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for encoders to be compared; files are compared by their contents."""
    files = {str(path): f"the file {digest}" for path, digest in config["files"].items()}
    texts = {name: files.get(str(config[name]), config[name]) for name in ("train", "dev")}
    tests = {f"test {path if is_dataset(path) else Path(path).name}": file for path, file in files.items()}
    return {name: config.get(name) for name in ("task", *_SAME)} | texts | tests


def _results(transfer: Mapping[str, Any], config: Mapping[str, Any]) -> list[Result]:
    spec, metric = EncoderSpec.from_dict(transfer["encoder"]), transfer["metric"]
    options = {name: config.get(name) for name in ("train", "dev", *_SAME)}
    scores = []
    for seed, end in transfer["seeds"].items():
        of_seed = [(int(seed), test, s[metric], (s["language"],), s["n"]) for test, s in end["scores"].items()]
        if others := [score for score in of_seed if score[3] != ("en",)]:
            _, _, values, languages, counts = zip(*others, strict=True)
            codes = tuple(dict.fromkeys(code for (code,) in languages))
            of_seed.append((int(seed), MEAN, float(np.mean(values)), codes, sum(counts)))
        scores += of_seed
    return [
        Result(
            task=f"transfer-{transfer['task']}", languages=codes, encoder=spec.id, revision=spec.revision,
            layer=spec.layer, pooling=spec.pooling, dtype=spec.dtype, max_length=config["max_length"],
            transform=transfer["maps"] or "original", parameters={}, fitted_on=str(config["train"]),
            metric=f"{metric} {test}", value=value, n=count, seed=seed, seconds=0.0, options={"test": test, **options},
        )
        for seed, test, value, codes, count in scores
    ]  # fmt: skip


def _names(results: Sequence[Result]) -> list[str]:
    """The name of each result's encoder, with the layer if it has several, and with the maps if any."""
    layers: dict[str, set[int]] = {}
    for result in results:
        layers.setdefault(result.encoder, set()).add(result.layer)
    names = []
    for result in results:
        layer = f", layer {result.layer}" if len(layers[result.encoder]) > 1 else ""
        maps = "" if result.transform == "original" else f" + {result.transform}"
        names.append(f"{result.encoder}{layer}{maps}")
    return names


def _key(result: Result) -> tuple[str, int, str]:
    """What identifies a result: the encoder with its maps, the seed and the test."""
    encoder = f"{result.encoder}, layer {result.layer}, {result.revision}, {result.transform}"
    return encoder, result.seed or 0, str(result.options["test"])
