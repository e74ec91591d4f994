"""``lsar-jax report``: how text is placed by language, and which layer, method and rank to use on it.

    lsar-jax report mycorpus/ --encoder bundled

In cross-validation, each method is fitted on all folds of the text but one, and measured on the fold that is left out
(``lsar_jax.report.held_out``). The recommended layer and method are those with the highest score in search: if line i
has the same content in all files, each sentence searches the sentences of all languages for its translations (mAP);
with pairs, the other side of its language's pairs (accuracy, from and into English). In text that is not aligned, there
is nothing to search for: the transforms are then fitted on all of it and scored on translations that are given, or on
the Universal Declaration of Human Rights (UDHR) in the same languages, which is aligned, but is text of another kind.

Written to ``--out``: ``report.html``, one page with figures that needs no other file; ``transform.safetensors``, the
recommended transform, fitted on all of the text; ``calibration.safetensors``, thresholds of its scores, if lines are
aligned in all languages and enough (they are chosen on scores of fits on other folds, so their guarantee is
approximate); ``moments.safetensors``, from which it can be fitted again with more languages, of another rank or with an
identifier; ``results.jsonl``. A report that was interrupted goes on when the command is repeated: embeddings and the
measures of each layer are kept in ``--out`` until it is finished.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from lsar_jax.checks import check_option
from lsar_jax.console.output import console, print_table
from lsar_jax.embeddings.job import remove_partial_files, work_folder
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.files import check_outputs, write_text
from lsar_jax.measures.compared_methods import FITTED, REPORT_METHODS, MethodName, check_methods
from lsar_jax.measures.hubs import HUBS, mean_hubs
from lsar_jax.measures.metric import Metric
from lsar_jax.measures.own_methods import add_methods
from lsar_jax.measures.results import Result, read_results, result_of, write_results
from lsar_jax.measures.run_record import digest_of, record, recorded
from lsar_jax.moments import Moments, pool_moments, save_moments
from lsar_jax.options.text_folder import TextFolderOptions
from lsar_jax.options.user_text import UserText
from lsar_jax.report.drawings import draw_layers, draw_space
from lsar_jax.report.embedded_text import Embedded, embed, embed_reference
from lsar_jax.report.findings import answer, caption, details
from lsar_jax.report.method_comparison import Comparison, compare, difference, most_neutral_or_best
from lsar_jax.report.one_threshold import COLUMNS, TITLE, calibrations_of, rows_of
from lsar_jax.report.page_kit import REPORT, RESULTS, TRANSFORM, usage_of
from lsar_jax.report.report_page import columns_of, report_html, row_of, title_of_table
from lsar_jax.report.sliders import Front, front_of
from lsar_jax.retrieval.calibration import Calibration

__all__ = ["Report"]

_MOMENTS, _CALIBRATION, _FIGURES = "moments.safetensors", "calibration.safetensors", "figures"
# Folder of what is kept of a report that was interrupted, and the names in it.
_WORK = ".job"
_WORK_FILES = r"lock|layer-\d+-[0-9a-f]{16}\.safetensors|embeddings/([0-9a-f]{32}-[0-9a-f]{16}\.safetensors)?"
_FIGURE = (
    r"(mAP(-on-the-(UDHR|translations))?|accuracy-of-pairs|neighbours-in-the-own-language|language-identified-by-a-linear-classifier|"
    r"IsoScore|the-methods|by-(language|meaning)-(before|after))\.svg"
)
# Sentences of a language, and lines of translations, that the first answer is from.
_FIRST = 30
# The measures of the space in results.
_MEASURES = (
    Metric("own language among neighbours", "lower"), Metric("own language without preference", "neither"),
    Metric("language identified", "lower"), Metric("IsoScore"), Metric("mean cosine", "neither"),
    *(replace(metric, name=f"{metric.name}{end}") for end in ("", ", CSLS") for metric in HUBS),
)  # fmt: skip


@dataclass(frozen=True)
class Report(TextFolderOptions):
    """How your text is placed by language, and which layer, method and rank to use on it.

    Attributes:
      layers: hidden-state layers to compare, 0 for the embedding output; by default, those around the best.
      transforms: methods to compare.
      method: functions that fit others, FILE.py:FUNCTION, to compare too.
      ranks: ranks of LSAR, each in a row of its own; by default, half and all of the dimensions that the means of the
        languages span.
      prefer: own and a percentage, such as own 20, to save the recommended transform at the strength with the best
        search of those that keep this share of a sentence's neighbours in its own language; by default, all of it.
      translations: of text that is not aligned, a folder with lines of the same content in a file per language, to
        choose by in place of the declaration; 20 lines are enough to begin with.
      out: folder for the report.
    """

    transforms: tuple[MethodName, ...] = REPORT_METHODS
    method: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    prefer: tuple[Literal["own"], float] | None = None
    translations: Path | None = None
    out: Path = Path("report")

    name = "report"
    # What --help shows.
    essential = (
        "texts", "vectors", "languages", "encoder", "layers", "transforms", "method", "ranks", "translations", "count",
        "out",
    )  # fmt: skip

    def run(self) -> None:
        """Encodes, measures the layers and methods, chooses one of each, and writes the report and the transform."""
        self.check_vectors()
        # One thread: those of BLAS wait without sleeping and take the cores from XLA's.
        with recorded(self._pinned), threadpool_limits(1, "blas"):
            self._check()
            self._run()

    @cached_property
    def _own(self) -> dict[str, str]:
        """The functions of the user's, by their names, with digests of their files."""
        return add_methods(self.method)

    @property
    def _pinned(self) -> "Report":
        """The options, with these digests."""
        return replace(self, method=(*self._own.values(),))

    @property
    def _compared(self) -> tuple[str, ...]:
        return (*self.transforms, *self._own)

    def _run(self) -> None:
        text = self.read_text()
        encoder = None if self.vectors else self.open(max(self.layers or (), default=None))
        layers = self.layers or _comparable_layers(encoder)
        if encoder is not None:
            # The default ranks depend on the embeddings.
            check_methods(self._compared, {"rank": self.ranks}, text.codes, max(map(encoder.dim_of, layers)))
        work = self.out / _WORK
        with work_folder(work, self.out, _WORK_FILES):
            remove_partial_files(work, _WORK_FILES)
            around, gaps = layers[-1], dict[str, Any]()
            if len(layers) > 3 and max(map(len, text.sentences.values())) > 2 * _FIRST:
                around, gaps = self._first_answer(encoder, layers)
            order = sorted(layers, key=lambda layer: abs(layer - around))
            embedded = self._embed(text, encoder, layers)
            if same := [f"{layer}" for layer in layers if layer not in embedded.spans]:
                console.print(f"left out layer {' '.join(same)}, where all languages have the same mean")
            known = None if self.layers else gaps.get(embedded.metric, {})
            found = compare(embedded, self._compared, self.ranks, order, (work, digest_of(self._pinned)), gaps=known)
            front = front_of(found, self.prefer[1] if self.prefer else None)
            write_results(self._results(found, front), self.out / RESULTS)
            record(self._pinned)  # so that the same command goes on if this one is killed while it draws
            calibrations = calibrations_of(found, front.chosen)
            self._print(found, front)
            if thresholds := rows_of(calibrations):
                print_table(TITLE, COLUMNS, thresholds)
            self._save(found, front, [*calibrations.values()])
            self._write_page(found, encoder, front, thresholds)
        console.print(f"wrote the report, results and figures to {self.out}")

    def _check(self) -> None:
        if "original" not in self.transforms:
            raise ValueError("--transforms lacks original, which all others are compared with; add it")
        if self.prefer is not None:
            check_option(self.prefer[1] >= 0, "own and a percentage", prefer=f"own {self.prefer[1]:g}")
        # Beside results, which were checked, they are those of an earlier report.
        overwrite = self.overwrite or (self.out / RESULTS).is_file()
        check_outputs([self.out / name for name in (REPORT, TRANSFORM, _CALIBRATION, _MOMENTS)], overwrite=overwrite)

    def _embed(
        self, text: UserText, encoder: SentenceEncoder | None, layers: Sequence[int], most: int | None = None
    ) -> Embedded:
        """Embeds the text, and the reference text if it is not aligned; a model of vectors could not encode that."""
        cache = self.cache or self.out / _WORK / "embeddings"
        embedded = embed(self, text, encoder, layers, cache=cache, quiet=most is not None)
        if encoder is None or embedded.text.aligned:
            why = "left out: only with an encoder, text that is not aligned is searched elsewhere (--aligned no)"
            check_option(self.translations is None, why, translations=self.translations)
            return embedded
        return embed_reference(embedded, encoder, self.max_length, cache, self.translations, most)

    def _first_answer(self, encoder: SentenceEncoder | None, layers: Sequence[int]) -> tuple[int, dict[str, Any]]:
        """Measures a third of the way, two thirds and the last layer on a part of the text.

        Returns the best layer, and metric -> layer -> by how much search is below it.
        """
        with console.capture():  # what is left out is said of the whole text
            text = self.read_text(_FIRST)
        thirds = [layers[round(share * (len(layers) - 1))] for share in (1 / 3, 2 / 3, 1)]
        embedded = self._embed(text, encoder, layers, _FIRST)
        quick = [name for name in self._compared if name == "original" or FITTED[name].needs == "means"]
        found = compare(embedded, quick if len(quick) > 1 else self._compared, self.ranks, thirds, quick=True)
        best = most_neutral_or_best(found.measured)
        [original] = [entry for entry in found.originals if entry.layer == best.layer]
        console.print(
            f"first answer, from {_FIRST} sentences a language at layers {' '.join(map(str, thirds))}: "
            f"layer {best.layer}, {difference([original, best], found.metric)}"
        )
        layers_of = groupby(found.measured, key=lambda entry: entry.layer)
        gaps = {layer: best.score - max(entry.score for entry in entries) for layer, entries in layers_of}
        return best.layer, {found.metric: gaps}

    def _results(self, found: Comparison, front: Front) -> list[Result]:
        text, items, results = found.text, " ".join(self.items), []
        options = {"texts": items, "aligned": self.aligned, "count": self.count, "folds": found.folds.count}
        given: dict[str, Any] = {"task": self.name, "max_length": self.max_length, "seconds": 0.0, "options": options}
        for entry in (*found.measured, *front.entries[1:-1]):
            given["fitted_on"] = items * entry.moves
            if entry.search is not None:
                languages, count = tuple(found.reference or text.codes), int(np.isfinite(entry.search.values).sum())
                given |= {"languages": languages, "value": entry.score, "n": count}
                metric = Metric(found.metric, shown=True)
                results.append(result_of(entry.spec, entry.method, metric, **given).resampled(entry.search))
            hubs = [value for of in entry.hubs for value in mean_hubs([of]).values()]
            for metric, value in zip(_MEASURES, (entry.own, entry.expected, *entry.space, *hubs), strict=True):
                given |= {"languages": tuple(text.codes), "value": value, "n": len(entry.parts[0].rows)}
                results.append(result_of(entry.spec, entry.method, metric, **given))
        return results

    def _print(self, found: Comparison, front: Front) -> None:
        rows = [row_of(found, entry, str(found.score(entry) or "")) for entry in found.best_of_each]
        print_table(title_of_table(found, self.title), columns_of(found), rows)
        for line in (f"The text: {caption(found)}", *answer(found), *details(found)):
            console.print(line)
        print_table(
            f"{found.shown.label} at strengths", ["strength", found.metric or "search", "own language"], front.rows
        )

    def _save(self, found: Comparison, front: Front, calibrations: Sequence[Calibration]) -> None:
        """Writes the recommended transform at the chosen strength, its calibration, and the moments of the shown layer.

        There is a second moment of each language only if the shown method needs that, because these are large.
        """
        if found.best is not None and front.chosen.method.transform is not None:
            front.chosen.method.transform.save(self.out / TRANSFORM)
        else:
            (self.out / TRANSFORM).unlink(missing_ok=True)  # of an earlier report
        (self.out / _CALIBRATION).unlink(missing_ok=True)
        if found.best is not None and calibrations:
            calibrations[-1].save(self.out / _CALIBRATION)
        shown = found.shown
        moments: Mapping[str, Moments] = {
            code: Moments.from_embeddings(rows, second_moment=True, precise=True)
            for code, rows in found.embedded.at(shown.layer).items()
        }
        if shown.method.name not in FITTED or FITTED[shown.method.name].needs != "languages":
            moments = pool_moments(moments)
        save_moments(self.out / _MOMENTS, moments, source=None if self.vectors else shown.spec)

    def _write_page(
        self, found: Comparison, encoder: SentenceEncoder | None, front: Front, thresholds: list[list[Any]]
    ) -> None:
        """Writes the figures and the page."""
        layers = draw_layers(found.measured, found.metric) if len(found.originals) > 2 else {}
        space = draw_space(found.shown.method, found.text, found.embedded.at(found.shown.layer))
        (self.out / _FIGURES).mkdir(exist_ok=True)
        for path in (self.out / _FIGURES).iterdir():
            if re.fullmatch(_FIGURE, path.name):
                path.unlink()  # of an earlier report
        for name, svg in (layers | space).items():
            write_text(self.out / _FIGURES / f"{re.sub(r'[^a-zA-Z]+', '-', name)}.svg", svg)
        # The results are read again for the day that they were written on.
        result = read_results(self.out / RESULTS)[0]
        usage, saved = usage_of(self, encoder, found.shown.layer), str(self.out / TRANSFORM)
        page = report_html(found, front, thresholds, self.title, usage, saved, (layers, space), result)
        write_text(self.out / REPORT, page)


def _comparable_layers(encoder: SentenceEncoder | None) -> tuple[int, ...]:
    """All layers; only the last if the checkpoint's own steps, such as LaBSE's, follow the pooling there."""
    if encoder is None:
        return (0,)
    if encoder.projection is not None:
        console.print(
            f"{encoder.spec.pooling} pooling belongs to layer {encoder.spec.layer}; other layers need --pooling"
        )
        return (encoder.spec.layer,)
    return tuple(range(encoder.spec.layer + 1))
