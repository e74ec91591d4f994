"""All layers and methods that were measured on a text, and which of them to use."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from lsar_jax.console.output import console
from lsar_jax.encoders.progress import Meter
from lsar_jax.measures.compared_methods import FITTED, Method, fit_methods
from lsar_jax.measures.resampling import Interval, interval
from lsar_jax.moments import Moments
from lsar_jax.options.user_text import UserText
from lsar_jax.report.embedded_text import Embedded
from lsar_jax.report.held_out import Folds, measure_layer
from lsar_jax.report.measured import FORMAT, ByLanguage, Measured
from lsar_jax.report.recommendation import Recommendation, recommend
from lsar_jax.spec import EncoderSpec

__all__ = ["Comparison", "compare", "difference", "most_neutral_or_best"]

# Parts for cross-validation, and sentences of a language in the smallest.
_FOLDS, _LEAST = 5, 5
# Points of search below the best: beyond a layer that is so far below, none is expected to be the best.
_FAR = 3.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that was measured on a text.

    Attributes:
      measured: every layer and method; the same methods at each layer, ``original`` among them.
      metric: name of the score in search; empty without search.
    """

    folds: Folds
    embedded: Embedded
    measured: Sequence[Measured]

    @property
    def text(self) -> UserText:
        """The text."""
        return self.embedded.text

    @property
    def metric(self) -> str:
        """The name of the score in search; empty without search."""
        return self.embedded.metric

    @property
    def reference(self) -> list[str]:
        """The languages of the reference text; empty if it was not searched."""
        return list(self.embedded.reference)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """The choice, in which methods that need no language are preferred; None without search."""
        searches = [entry.search for entry in self.measured if entry.search is not None]
        return recommend(searches, [not entry.needs_language for entry in self.measured]) if searches else None

    @property
    def best(self) -> Measured | None:
        """The recommended layer and method; None without search."""
        return None if self.recommendation is None else self.measured[self.recommendation.best]

    @property
    def unsettled(self) -> list[int]:
        """The other layers with methods that are not significantly worse than the recommended."""
        good = [] if self.recommendation is None else self.recommendation.as_good()
        return sorted({self.measured[index].layer for index in good} - {self.shown.layer})

    @property
    def stand_ins(self) -> list[Measured]:
        """The best by each of the texts that stand in for translations of this one."""
        scores = np.array([entry.stand_ins for entry in self.measured])
        return [self.measured[index] for index in scores.argmax(axis=0).tolist()]

    @property
    def shown(self) -> Measured:
        """The measured layer and method of the pictures: the recommended, or the most neutral at the last layer."""
        last = max(entry.layer for entry in self.measured)
        return self.best or most_neutral_or_best([entry for entry in self.measured if entry.layer == last])

    @property
    def originals(self) -> list[Measured]:
        """The original embeddings at every layer."""
        return [entry for entry in self.measured if not entry.moves]

    @property
    def before(self) -> Measured:
        """The original embeddings at the layer of the pictures."""
        return next(entry for entry in self.originals if entry.layer == self.shown.layer)

    @cached_property
    def best_of_each(self) -> list[Measured]:
        """Each method at its best layer, without search at the last; the recommended one at its own."""
        rows: dict[str, Measured] = {}
        for entry in self.measured:
            known = rows.setdefault(entry.method.label, entry)
            higher = entry.score > known.score if self.metric else entry.layer > known.layer
            if entry is self.best or (known is not self.best and higher):
                rows[entry.method.label] = entry
        return list(rows.values())

    def score(self, entry: Measured) -> Interval | None:
        """The score in search and its interval; None without search."""
        if entry is self.best and self.recommendation is not None:
            return self.recommendation.score
        return None if entry.search is None else Interval(entry.score, *interval(entry.search))

    def gain_over(self, entry: Measured) -> Interval:
        """By how much the recommended layer and method are above others."""
        assert self.recommendation is not None
        return self.recommendation.gains[self.measured.index(entry)]


def compare(
    embedded: Embedded,
    methods: Sequence[str],
    ranks: Sequence[int],
    order: Sequence[int],
    work: tuple[Path, str] | None = None,
    *,
    gaps: Mapping[int, float] | None = None,
    quick: bool = False,
) -> Comparison:
    """Measures all methods at the layers where the languages differ.

    Args:
      embedded: the text and its embeddings.
      methods: names of the methods.
      ranks: ranks of the methods that have one; if empty, half and all of the dimensions that the means span.
      order: layers to measure, in their order.
      work: a folder in which the measures of each layer are kept, and a digest of the options; then each layer's result
        is printed, too.
      gaps: by how much search is below the best at layers where it was estimated. If given, layers beyond those with
        search far below the best are left out.
      quick: whether to use two parts for cross-validation, and not to measure the space.
    """
    spans = embedded.spans
    most = min(spans.values())
    varied = {"rank": tuple(ranks) or tuple(dict.fromkeys((max(1, most // 2), most)))}
    text = embedded.text
    folds = Folds(text, min(2 if quick else _FOLDS, min(map(len, text.sentences.values())) // _LEAST), 0, not quick)
    found: dict[int, list[Measured]] = {}
    order = [layer for layer in order if layer in spans]
    measured = 0
    with Meter() as meter:
        for layer in order:
            if gaps is not None and _far_below(layer, order[0], found, gaps):
                continue
            [spec] = [spec for spec in embedded.specs if spec.layer == layer]
            x = embedded.at(layer)
            kept = (
                None if work is None else work[0] / f"layer-{layer}-{_digest(work[1], spec, embedded, x)}.safetensors"
            )
            what, layers = f"layer {layer}" if spec.pooling else "the vectors", len(order) - len(found)
            advance = partial(_advance, partial(meter, most=gaps is not None), f"measuring {what}", measured, layers)
            measured += kept is None or not kept.is_file()  # layers that an interrupted report measured take no time
            fit = partial(_fit, methods, varied, spec)
            found[layer] = measure_layer(folds, spec, fit, x, embedded.search_at(layer), kept, advance)
            if work is not None:
                where = f"{what}: " if spec.pooling else ""
                console.print(f"{where}{difference(found[layer], embedded.metric)}")
    if left_out := " ".join(map(str, sorted({*order} - {*found}))):
        console.print(f"left out layer {left_out}, beyond layers with worse search (--layers names those to measure)")
    return Comparison(folds, embedded, [entry for layer in spans for entry in found.get(layer, ())])


def _far_below(
    layer: int, first: int, found: Mapping[int, Sequence[Measured]], gaps: Mapping[int, float] | None = None
) -> bool:
    """Whether search is far below the best at the layer before this one, from the first on, and at one more of two.

    The second is the layer before that, or the nearest with an estimate, from this one on. Layers that were left out
    count as far below.
    """
    scores = {of: most_neutral_or_best(measured).score for of, measured in found.items() if measured[0].search}
    step = (layer < first) - (layer > first)
    before = [max(scores.values()) - scores[of] for of in (layer + step, layer + 2 * step) if of in scores]
    if not scores or layer + step not in scores:
        return bool(scores) and all(gap > _FAR for gap in before)
    beyond = {abs(of - layer): gap for of, gap in (gaps or {}).items() if (layer - of) * step >= 0}
    return before[0] > _FAR and max([*before[1:], *[gap for _, gap in sorted(beyond.items())][:1]], default=0) > _FAR


def most_neutral_or_best(measured: Sequence[Measured]) -> Measured:
    """The one with the highest score in search, or without search the most neutral one."""
    if measured[0].search is None:
        return min(measured, key=lambda entry: entry.own)
    return max(measured, key=lambda entry: entry.score)


def difference(measured: Sequence[Measured], metric: str) -> str:
    """The change by the best method of a layer, in words."""
    before, best = next(entry for entry in measured if not entry.moves), most_neutral_or_best(measured)
    if best is before:
        return (f"{metric} {best.score:.1f}, " if metric else "") + "no method is better than none"
    found = f"{metric} {before.score:.1f} before and {best.score:.1f} after, " if metric else ""
    return (
        f"{best.method.label}: {found}own language among neighbours {before.own:.1f}% before and {best.own:.1f}% after"
    )


def _advance(meter: Callable[..., object], text: str, measured: int, layers: int, share: float) -> None:
    """Says how far it is, when so many layers were measured, and a share of the next of those that are left."""
    meter(text, measured + share, measured + layers)


def _fit(
    methods: Sequence[str],
    varied: Mapping[str, Sequence[int]],
    spec: EncoderSpec,
    x: ByLanguage,
    moments: Mapping[str, Moments],
) -> list[Method]:
    """Fits every method; a variant of one with a rank only below full rank, where it differs from that one."""
    below = {"rank": tuple(rank for rank in varied["rank"] if rank < len(x) - 1)}
    fitted = []
    for name in methods:
        variant = name in FITTED and FITTED[name].varied == "rank" and bool(FITTED[name].fixed)
        if not variant or below["rank"]:
            source = spec if spec.pooling else None
            fitted += fit_methods(x, (name,), below if variant else varied, source=source, moments=moments)
    return fitted


def _digest(options: str, spec: EncoderSpec, embedded: Embedded, x: ByLanguage) -> str:
    """A digest of what is measured, for the name of a file."""
    text, units = embedded.text, {code: unit.tolist() for code, unit in embedded.text.units.items()}
    what = [FORMAT, options, spec.to_dict(), text.form, units, dict(embedded.reference)]
    digest = hashlib.sha256(json.dumps(what).encode())
    for rows in x.values():
        digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()[:16]
