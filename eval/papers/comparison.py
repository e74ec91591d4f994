"""Published values beside ours: the difference, the tolerance, and whether it is within.

A value stands beside ours only if ``eval/papers/published.py`` lets it: the same task, metric, languages, queries,
options and fitting text; and, here, the same encoder and layer. Everything else is listed, but not compared.

A difference of at most half a unit of the last printed digit is *equal*: the same encoder on the same queries, with
the same fit, gives the same number. Any other difference is *within* or *outside* of a tolerance, the sum of

- that half unit;
- the longer arm of our 95% interval over resampled queries, which stands for another draw of the fitting text and for
  rounding in the encoder. The paper has the same queries, so this is generous: with few queries, as in STS17, a
  difference of several points is within, and says little. What is outside is explained by neither;
- if a method or measure has seeds, the half-width of the 95% prediction interval of one more seed,
  t(0.975, k - 1) s sqrt(1 + 1/k), as the published number is one more draw.

Where our value has neither an interval nor several seeds, only rounding is known, so that a larger difference is not
judged. Nor is it where the paper measured another thing, as on LAReQA.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from eval.papers.card import PaperSetting
from eval.papers.published import Published
from lsar_jax.corpora.by_language import group_by
from lsar_jax.files import write_text
from lsar_jax.measures.compared_methods import label
from lsar_jax.measures.results import Result

__all__ = ["COLUMNS", "VERDICTS", "ComparedValue", "OurValue", "cells", "compare", "grouped", "write_rows"]

VERDICTS = ("equal", "within", "outside", "not judged", "not compared")
COLUMNS = ("", "layer", "published", "ours", "difference", "tolerance", "verdict")


class OurValue(NamedTuple):
    """Our value: the mean over seeds."""

    first: Result  # of the first seed
    method: str
    value: float
    margin: float | None  # half-widths of the interval over queries and of the prediction interval of a further seed
    setting: PaperSetting  # how the paper used the encoder in this command
    metrics: tuple[str, ...]  # patterns of the metrics to show even if no published value is known

    @property
    def quantity(self) -> tuple[str, str, str, int]:
        """Task, metric, method and layer."""
        return self.first.task, self.first.metric, self.method, self.first.layer


class ComparedValue(NamedTuple):
    """A published value, ours, or both."""

    task: str
    metric: str  # of our result; the paper's words if none is the same quantity
    method: str
    layer: int | None = None
    published: float | None = None
    source: str = ""  # paper and table
    ours: float | None = None
    difference: float | None = None  # ours minus the published value
    tolerance: float | None = None
    verdict: str = ""  # of VERDICTS; empty if there is no published value
    why: str = ""  # it is not judged or not compared; what is unclear about the number in the paper
    decimals: int = 1  # printed decimals of the published value


def grouped(results: Sequence[Result], setting: PaperSetting, metrics: tuple[str, ...]) -> list[OurValue]:
    """Our values, each the mean over its seeds, in the order of the results."""
    groups = group_by(
        results, lambda r: (r.task, r.encoder, r.layer, r.metric, r.fitted_on, label(r.transform, r.parameters))
    )
    ours = []
    for (*_, method), seeds in groups.items():
        first, values, margins = seeds[0], [r.value for r in seeds], []
        if first.low is not None and first.high is not None:
            margins.append(max(first.high - first.value, first.value - first.low))
        if (count := len(seeds)) > 1:
            spread = float(np.std(values, ddof=1))
            margins.append(float(student.ppf(0.975, count - 1)) * spread * float(np.sqrt(1 + 1 / count)))
        margin = sum(margins) if margins else None
        ours.append(OurValue(first, method, float(np.mean(values)), margin, setting, metrics))
    return ours


def compare(ours: Sequence[OurValue], expected: Iterable[Published]) -> list[ComparedValue]:
    """Puts the published values of an encoder beside ours, and our other values after them."""
    rows: list[ComparedValue] = []
    used: set[int] = set()
    for value in expected:
        same = [n for n, measured in enumerate(ours) if _comparable(measured, value)]
        used |= {*same}
        rows += [_judged(ours[n], value) for n in same] or [_not_compared(value)]
    for n, measured in enumerate(ours):
        name = f"{measured.first.task} {measured.first.metric}"
        if n not in used and any(re.fullmatch(pattern, name) for pattern in measured.metrics):
            rows.append(ComparedValue(*measured.quantity, ours=measured.value, tolerance=measured.margin))
    return rows


def write_rows(rows: Sequence[ComparedValue], folder: Path, about: Mapping[str, str]) -> None:
    """Writes ``comparison.jsonl``, a line for each row, with ``about`` in each; and ``comparison.md``, a table."""
    write_text(folder / "comparison.jsonl", "".join(json.dumps({**about, **row._asdict()}) + "\n" for row in rows))
    lines = [*(f"- {name}: {value}" for name, value in about.items() if value), ""]
    lines += [f"| {' | '.join(COLUMNS)} |", "| --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells(row))} |" for row in rows]
    write_text(folder / "comparison.md", "\n".join(lines) + "\n")


def cells(row: ComparedValue) -> list[str]:
    """The cells of a row: what, layer, published, ours, difference, tolerance, verdict."""
    digits = row.decimals + 1 if row.published is not None else 1 if abs(row.ours or 0) > 1 else 3
    bound = "" if row.tolerance is None else f"{row.tolerance:.{digits}f}"
    return [
        f"{row.task}, {row.metric}: {row.method}",
        "" if row.layer is None else f"{row.layer}",
        "" if row.published is None else f"{row.published:.{row.decimals}f}",
        "" if row.ours is None else f"{row.ours:.{digits}f}",
        "" if row.difference is None else f"{row.difference:+.{digits}f}",
        bound if row.published is not None or not bound else f"(± {bound})",
        f"{row.verdict}{f': {row.why}' if row.why else ''}",
    ]


def _comparable(measured: OurValue, value: Published) -> bool:
    """Whether a result has the quantity, encoder, layer and method of a published value."""
    same = (value.task, value.metric) == (measured.first.task, measured.first.metric) and value.measured(measured.first)
    layers = (value.layer,) if value.layer else measured.setting.layers
    at = value.encoder in ("", measured.setting.name) and (not layers or measured.first.layer in layers)
    return same and at and value.is_of(measured.method)


def _judged(measured: OurValue, value: Published) -> ComparedValue:
    difference, rounding = measured.value - value.value, 0.5 * 10**-value.decimals
    tolerance = rounding + (measured.margin or 0.0)
    # Decimal fractions are not exact.
    equal, within = (abs(difference) <= limit + 1e-9 for limit in (rounding, tolerance))
    verdict, why = ("equal" if equal else "within" if within else "outside"), [value.note]
    if value.quantity.unlike:
        verdict, why = "not judged", [value.quantity.unlike, value.note]
    elif not within and measured.margin is None:
        verdict, why = "not judged", ["our value has no interval, so that only rounding is known", value.note]
    return ComparedValue(
        *measured.quantity, value.value, value.source, measured.value, difference, tolerance, verdict,
        "; ".join(filter(None, why)), value.decimals,
    )  # fmt: skip


def _not_compared(value: Published) -> ComparedValue:
    why = value.other or "no result has its data, languages, fitting text, training and layer"
    return ComparedValue(
        value.task, value.metric, value.method, value.layer, value.value, value.source, verdict="not compared", why=why,
        decimals=value.decimals,
    )  # fmt: skip
