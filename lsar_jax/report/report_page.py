"""The report's page: what its template shows of a comparison."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsar_jax.measures.hubs import HUBS, mean_hubs
from lsar_jax.measures.results import Result
from lsar_jax.report.example_queries import (
    HITS,
    BeforeAfter,
    draw_examples,
    first_results,
    own_by_language,
    search_by_language,
    search_held_out,
)
from lsar_jax.report.findings import answer, caption, details
from lsar_jax.report.measured import Measured
from lsar_jax.report.method_comparison import Comparison
from lsar_jax.report.one_threshold import COLUMNS as THRESHOLD_COLUMNS
from lsar_jax.report.one_threshold import TITLE as THRESHOLDS
from lsar_jax.report.page_kit import EXPLORER, Usage, render
from lsar_jax.report.sliders import Front
from lsar_jax.transforms.methods import METHODS, SUMMARIES

__all__ = ["columns_of", "report_html", "row_of", "title_of_table"]

_COLUMNS = ("own language", "identified", "IsoScore", "cosine")


def columns_of(found: Comparison) -> list[str]:
    """The columns of a table of methods; vectors have no layer."""
    return ["method", *["layer"] * bool(found.shown.spec.pooling), found.metric or "search", *_COLUMNS]


def row_of(found: Comparison, entry: Measured, score: Any) -> list[Any]:
    """A row of a table of methods: names, the score in search, and the measures of the space."""
    return [entry.method.label, *[f"{entry.layer}"] * bool(entry.spec.pooling), score, entry.own, *entry.space]


def _hubs(measured: Sequence[Measured]) -> list[list[str]]:
    """The columns and rows of the table of hubs: each measure by cosine, and by CSLS."""
    rows = [["method", *(metric.name for metric in HUBS)]]
    for entry in measured:
        by_score = zip(*(mean_hubs([of]).values() for of in entry.hubs), strict=True)
        rows.append([entry.label, *(f"{plain:.1f} / {scaled:.1f}" for plain, scaled in by_score)])
    return rows


def title_of_table(found: Comparison, title: str) -> str:
    """The title of the table of methods."""
    where = " at its best layer" if found.metric else " at the last layer"
    return f"{title}: each method{where * bool(found.shown.spec.pooling)}, in percent"


def report_html(
    found: Comparison,
    front: Front,
    thresholds: Sequence[Sequence[Any]],
    title: str,
    usage: Usage,
    saved: str,
    figures: tuple[Mapping[str, str], Mapping[str, str]],
    result: Result,
) -> str:
    """Returns the page.

    Args:
      found: the comparison.
      front: the shown transform at strengths.
      thresholds: rows of the table of one threshold; empty without it.
      title: title of the page.
      usage: how the vectors were made.
      saved: file of the recommended transform.
      figures: SVG by name: measures by layer, and the space.
      result: a result, for its provenance.
    """
    best, shown, text = found.best, found.shown, found.text
    held_out = search_held_out(found.folds, found.before, shown)
    search = search_by_language(found.folds, found.before, shown, found.reference)
    own = own_by_language(text, held_out)
    outcomes, examples = draw_examples(text, held_out, found.folds.seed)
    names = dict.fromkeys(entry.method.name for entry in found.measured)
    return render(
        "report.html",
        found=found, title=title, answer=answer(found), caption=caption(found), details=details(found),
        search=search, own=own, examples=examples, outcomes=outcomes, first=first_results(text, held_out),
        farthest=max(own, key=lambda name: own[name].before.value),
        lowest=min(search, key=lambda name: search[name].after.value, default=""),
        highest=max(search, key=lambda name: search[name].after.value, default=""),
        gained=[name for name, change in search.items() if change.gain.low > 0],
        lost=[name for name, change in search.items() if change.gain.high < 0],
        language_table=_by_language(found, search, own), hit_count=HITS,
        code=_loading(found, front, usage, saved), columns=columns_of(found),
        method=METHODS.get(best.method.name) if best else None,
        rows=[row_of(found, entry, found.score(entry)) for entry in found.best_of_each],
        marked=best.method.label if best else None, hubs=_hubs(found.best_of_each),
        every_row=[row_of(found, entry, entry.score if found.metric else None) for entry in found.measured]
        if len(found.originals) > 1 else [],
        by_chance=100 * max(map(len, text.sentences.values())) / text.count,
        summaries={name: SUMMARIES.get(name, "") for name in names},
        layer_figures=figures[0], space_figures=figures[1], provenance=result.made, front=front,
        thresholds=thresholds, threshold_title=THRESHOLDS, threshold_columns=THRESHOLD_COLUMNS,
        explorer=Path(saved).with_name(EXPLORER),
    )  # fmt: skip


def _loading(found: Comparison, front: Front, usage: Usage, saved: str) -> dict[str, str]:
    """The code that uses the saved transform, by library; empty if there is none."""
    best = found.best
    if best is None or not front.chosen.moves:
        return {}
    return usage.loading(saved, best.needs_language, front.chosen.method.one_map, found.text.codes)


def _by_language(
    found: Comparison, search: Mapping[str, BeforeAfter], own: Mapping[str, BeforeAfter]
) -> tuple[list[str], list[list[Any]]]:
    """The columns and rows of the table of languages; the language with the lowest score after is the first."""
    last = {name: change.after.value for name, change in search.items()}
    last = last or {name: -change.after.value for name, change in own.items()}
    columns = ["language", *(["search before", "after", "gain"] if search else []), "own before", "after", "sentences"]
    rows = []
    for name in sorted(found.text.codes, key=lambda name: last.get(name, float("inf"))):
        scores: Sequence[Any] = search.get(name, [None] * 3) if search else ()
        rows.append([name, *scores, *own[name][:2], f"{len(found.text.sentences[name]):,}"])
    return columns, rows
