"""Is one method better than another on the same queries, or is it chance?

    python -m eval compare results/tatoeba --first original --second lsar

The difference of the means, its 95% interval over resampled queries, and the p-value of the paired
randomisation test, for every metric whose queries have scores of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eval.methods import label
from eval.resampling import paired_interval, paired_test
from eval.results import Result, read_results
from train.console import console, print_table

__all__ = ["Compare", "Difference", "differences"]


@dataclass(frozen=True)
class Difference:
    """Second minus first, on the same queries.

    Attributes:
      first: a result.
      second: another of the same queries.
      value: difference of the means.
      low: of its 95% interval.
      high: of the same.
      p: two-sided p-value of no difference.
    """

    first: Result
    second: Result
    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Compare:
    """A paired test of two methods on results that were written before.

    Attributes:
      folder: of results.jsonl and queries.npz.
      first: a method, by its name or its label, as lsar or lsar rank=10.
      second: the method that is compared with it.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    first: str = "original"
    second: str = "lsar"

    def run(self) -> list[Difference]:
        """Prints a row a layer and metric."""
        found = differences(read_results(self.folder / "results.jsonl"), self.first, self.second)
        rows: list[list[str | float]] = [
            [f"layer {d.first.layer}: {d.first.metric}", f"{label(d.second.transform, d.second.parameters)}",
             d.first.value, d.second.value, f"{d.value:+.2f}", f"{d.low:+.2f} to {d.high:+.2f}", f"{d.p:.4f}"]
            for d in found
        ]  # fmt: skip
        title = f"{self.second} less {self.first}"
        print_table(title, ["", "method", self.first, self.second, "difference", "95% of resamples", "p"], rows)
        console.print("p: two-sided, paired randomisation test of 10,000 draws")
        return found


def differences(results: Sequence[Result], first: str, second: str) -> list[Difference]:
    """Returns the difference of two methods for each layer and metric with scores of the same queries.

    Raises:
      ValueError: there is no such method, or none of its metrics has such scores in common.
    """
    scored = [r for r in results if r.queries is not None]
    names = {name for r in scored for name in (r.transform, label(r.transform, r.parameters))}
    for name in (first, second):
        if name not in names:
            raise ValueError(f"no results of queries of {name!r}; there are {', '.join(sorted(names)) or 'none'}")
    found = []
    for a in scored:
        for b in scored:
            # A seed of one against all of another's, where only one has any.
            if not (_is(a, first) and _is(b, second)) or (None not in (a.seed, b.seed) and a.seed != b.seed):
                continue
            if (a.layer, a.metric) != (b.layer, b.metric):
                continue
            assert a.queries is not None, "of those with queries"
            assert b.queries is not None, "of those with queries"
            if not a.queries.same(b.queries):
                continue  # a run on other data, say
            value, p = paired_test(a.queries, b.queries)
            low, high = paired_interval(a.queries, b.queries)
            found.append(Difference(a, b, value, low, high, p))
    if not found:
        raise ValueError(f"{first!r} and {second!r} have no layer and metric in common")
    return found


def _is(result: Result, name: str) -> bool:
    return name in (result.transform, label(result.transform, result.parameters))
