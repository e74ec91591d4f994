"""Tests whether one method is better than another on the same queries by more than chance.

    python -m eval compare results/tatoeba --first original --second lsar

Prints the difference in means, its 95% interval over resampled queries, and the p-value of a paired randomisation
test, for every metric with scores of individual queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import tyro

from lsar_jax.console.output import console, print_table
from lsar_jax.measures.compared_methods import label
from lsar_jax.measures.resampling import paired_interval, paired_test
from lsar_jax.measures.results import Result, read_results

__all__ = ["Compare", "Difference", "differences"]


class Difference(NamedTuple):
    """The difference of two results on the same queries, second minus first."""

    first: Result
    second: Result
    value: float  # of the means
    low: float  # ends of its 95% interval
    high: float
    p: float  # two-sided, of the paired test


@dataclass(frozen=True)
class Compare:
    """A paired test of two methods on saved results.

    Attributes:
      folder: folder with results.jsonl and queries.npz.
      first: name or label of a method, such as lsar or "lsar rank=10".
      second: name or label of the method to compare with the first.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    first: str = "original"
    second: str = "lsar"

    def run(self) -> None:
        """Prints one row per layer and metric."""
        rows: list[list[str | float]] = [
            [f"layer {d.first.layer}: {d.first.metric}", _label(d.second), d.first.value, d.second.value,
             f"{d.value:+.2f}", f"{d.low:+.2f} to {d.high:+.2f}", f"{d.p:.4f}"]
            for d in differences(read_results(self.folder / "results.jsonl"), self.first, self.second)
        ]  # fmt: skip
        title = f"{self.second} minus {self.first}"
        print_table(title, ["", "method", self.first, self.second, "difference", "95% of resamples", "p"], rows)
        console.print("p: two-sided paired randomisation test with 10,000 draws")


def differences(results: Sequence[Result], first: str, second: str) -> list[Difference]:
    """The difference of two methods for each layer and metric that they share.

    Results with the same seed are compared. If only one method has seeds, its result for each seed is compared with
    the other method. Results on different queries, as from runs on different data, are left out.
    """
    scored = [r for r in results if r.queries is not None]
    names = {name for r in scored for name in (r.transform, _label(r))}
    for name in (first, second):
        if name not in names:
            raise ValueError(f"{name!r} has no scores of queries; choose from {', '.join(sorted(names)) or 'none'}")
    found = []
    of_first, of_second = ([r for r in scored if name in (r.transform, _label(r))] for name in (first, second))
    for a, b in product(of_first, of_second):
        same_seed = a.seed == b.seed or None in (a.seed, b.seed)
        if same_seed and (a.layer, a.metric) == (b.layer, b.metric) and (queries := a.paired(b)):
            value, p = paired_test(*queries)
            found.append(Difference(a, b, value, *paired_interval(*queries), p))
    if not found:
        raise ValueError(f"{first!r} and {second!r} have no layer and metric in common")
    return found


def _label(result: Result) -> str:
    return label(result.transform, result.parameters)
