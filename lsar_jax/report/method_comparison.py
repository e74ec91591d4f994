"""All layers and methods that were measured on a text, and which of them to use."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lsar_jax import corpora
from lsar_jax.console.output import console
from lsar_jax.encoders.progress import Meter, in_words
from lsar_jax.measures.methods import FITTED, Method, fit_methods
from lsar_jax.measures.resampling import Interval, interval
from lsar_jax.moments import Moments
from lsar_jax.options.user_text import Aligned, UserText, finds_lines
from lsar_jax.report.held_out import Folds, Measured, measure_layer
from lsar_jax.report.neighbours import ByLanguage, spanned_rank
from lsar_jax.report.recommendation import Recommendation, recommend
from lsar_jax.spec import EncoderSpec

__all__ = ["Comparison", "Embedded", "compare", "difference", "embed", "judged", "most_neutral_or_best"]

# Parts for cross-validation, and sentences of a language in the smallest.
_FOLDS, _LEAST = 5, 5

# Language -> embeddings at each layer.
Layers = Mapping[str, Float[np.ndarray, "layer _ dim"]]
Encode = Callable[[Mapping[str, Sequence[str]]], Layers]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text with its embeddings, and the reference text that is searched in its place if it is not aligned.

    Attributes:
      specs: the encoder at each layer; of vectors, only a name is known.
      x: language -> embeddings of the sentences at each layer.
      reference: language -> paragraphs of the Universal Declaration of Human Rights; empty for aligned text, vectors
        and languages that it does not have.
      reference_x: their embeddings.
    """

    text: UserText
    specs: Sequence[EncoderSpec]
    x: Layers
    reference: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference_x: Layers = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The name of the score in search; empty without search."""
        if self.text.aligned:
            return "accuracy of pairs" if self.text.pairs else "mAP"
        return "mAP on the UDHR" if self.reference else ""

    @cached_property
    def spans(self) -> dict[int, int]:
        """Layer -> the number of dimensions that the means of the languages span, where they differ.

        At the embedding output the vector of the first token may be the same for all sentences.
        """
        means = np.stack([rows.mean(axis=1) for rows in self.x.values()], axis=1)
        spans = {spec.layer: spanned_rank(of) for spec, of in zip(self.specs, means, strict=True)}
        if not any(spans.values()):
            raise ValueError("the languages have the same mean at every layer; give different texts")
        return {layer: span for layer, span in spans.items() if span}

    def at(self, layer: int) -> dict[str, Float[np.ndarray, "_ dim"]]:
        """Language -> embeddings at a layer."""
        [number] = [number for number, spec in enumerate(self.specs) if spec.layer == layer]
        return {code: rows[number] for code, rows in self.x.items()}


def embed(text: UserText, aligned: Aligned, specs: Sequence[EncoderSpec], encode: Encode, *, quiet: bool) -> Embedded:
    """Embeds a text, and the reference text if it is not aligned.

    Args:
      text: the text.
      aligned: whether it is aligned; ``auto`` tells from the embeddings.
      specs: the encoder at each layer, or the name of the vectors.
      encode: returns the embeddings of texts by language at these layers.
      quiet: do not print what is left out.
    """
    embedded = Embedded(text, specs, encode(text.sentences))
    if not quiet and (same := [f"{spec.layer}" for spec in specs if spec.layer not in embedded.spans]):
        console.print(f"left out layer {' '.join(same)}, where all languages have the same mean")
    text = judged(text, embedded.at([*embedded.spans][-1]), aligned, quiet=quiet)
    # Vectors of another model have no pooling, and that model cannot encode the reference text.
    known = corpora.udhr("all") if specs[0].pooling and not text.aligned else {}
    if len(shared := [code for code in text.codes if code in known]) < 2:
        return replace(embedded, text=text)
    reference = corpora.udhr("all", shared)
    return replace(embedded, text=text, reference=reference, reference_x=encode(reference))


def judged(text: UserText, x: ByLanguage, aligned: Aligned, *, quiet: bool = False) -> UserText:
    """Returns a text, as not aligned if its embeddings say so and the user does not."""
    if text.pairs or not text.aligned or aligned != "auto":
        return text
    text = text if finds_lines(x) else text.not_aligned()
    if not quiet:
        console.print(f"the text is read as {text.form} (--aligned reads it otherwise)")
    return text


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
        searches = [of.search for of in self.measured if of.search is not None]
        return recommend(searches, [not of.needs_language for of in self.measured]) if searches else None

    @property
    def best(self) -> Measured | None:
        """The recommended layer and method; None without search."""
        return None if self.recommendation is None else self.measured[self.recommendation.best]

    @property
    def shown(self) -> Measured:
        """The measured layer and method of the pictures: the recommended, or the most neutral at the last layer."""
        last = max(of.layer for of in self.measured)
        return self.best or most_neutral_or_best([of for of in self.measured if of.layer == last])

    @property
    def originals(self) -> list[Measured]:
        """The original embeddings at every layer."""
        return [of for of in self.measured if not of.moves]

    @property
    def before(self) -> Measured:
        """The original embeddings at the layer of the pictures."""
        return next(of for of in self.originals if of.layer == self.shown.layer)

    @property
    def best_original(self) -> Measured:
        """The layer that is best without a transform."""
        return max(self.originals, key=lambda of: of.score)

    @property
    def best_without_language(self) -> Measured | None:
        """The best transform that does not need the language, if the recommended one does."""
        if self.best is None or not self.best.needs_language:
            return None
        return max((of for of in self.measured if not of.needs_language), key=lambda of: of.score)

    @cached_property
    def best_of_each(self) -> list[Measured]:
        """Each method at its best layer, without search at the last; the recommended one at its own."""
        rows: dict[str, Measured] = {}
        for of in self.measured:
            known = rows.setdefault(of.method.label, of)
            higher = of.score > known.score if self.metric else of.layer > known.layer
            if of is self.best or (known is not self.best and higher):
                rows[of.method.label] = of
        return list(rows.values())

    def score(self, of: Measured) -> Interval | None:
        """The score in search and its interval; None without search."""
        if of is self.best and self.recommendation is not None:
            return self.recommendation.score
        return None if of.search is None else Interval(of.score, *interval(of.search))

    def gain_over(self, of: Measured) -> Interval:
        """By how much the recommended layer and method are above others."""
        assert self.recommendation is not None
        return self.recommendation.gains[self.measured.index(of)]


def compare(
    embedded: Embedded,
    methods: Sequence[str],
    ranks: Sequence[int] = (),
    *,
    seed: int = 0,
    order: Sequence[int] = (),
    work: tuple[Path, str] | None = None,
) -> Comparison:
    """Measures all methods at the layers where the languages differ.

    Args:
      embedded: the text and its embeddings.
      methods: names of the methods.
      ranks: ranks of the methods that have one; by default, half and all of the dimensions that the means span.
      seed: seed of the parts of the text.
      order: layers to measure, in their order; by default all.
      work: a folder in which the measures of each layer are kept, and a digest of the options; then each layer's result
        is printed, too.
    """
    spans = embedded.spans
    most = min(spans.values())
    varied = {"rank": tuple(ranks) or tuple(dict.fromkeys((max(1, most // 2), most)))}
    text = embedded.text
    folds = Folds(text, min(_FOLDS, min(map(len, text.sentences.values())) // _LEAST), seed)
    found: dict[int, list[Measured]] = {}
    order = [layer for layer in order or spans if layer in spans]
    meter, new = Meter(show=False), 0
    for layer in order:
        [(number, spec)] = [(n, spec) for n, spec in enumerate(embedded.specs) if spec.layer == layer]
        x, reference_x = embedded.at(layer), {code: rows[number] for code, rows in embedded.reference_x.items()}
        kept = None if work is None else work[0] / f"layer-{layer}-{_digest(work[1], spec, text, x)}.safetensors"
        # Layers that an interrupted report measured come first, and take no time.
        measures = kept is None or not kept.is_file()
        if measures:
            meter("", new, new + len(order) - len(found))
        found[layer] = measure_layer(folds, spec, partial(_fit, methods, varied, spec), x, reference_x, kept)
        new += measures
        left = meter("", new, new + len(order) - len(found)) if measures else None
        if work is not None:
            time_left = f", {in_words(left)} left" if left else ""
            where = f"layer {layer} ({len(found)} of {len(order)}{time_left}): " if spec.pooling else ""
            console.print(f"{where}{difference(found[layer], embedded.metric)}")
    return Comparison(folds, embedded, [of for layer in spans for of in found.get(layer, ())])


def most_neutral_or_best(measured: Sequence[Measured]) -> Measured:
    """The one with the highest score in search, or without search the most neutral one."""
    if measured[0].search is None:
        return min(measured, key=lambda of: of.neutrality.own)
    return max(measured, key=lambda of: of.score)


def difference(measured: Sequence[Measured], metric: str) -> str:
    """The change by the best method of a layer, in words."""
    before, best = next(of for of in measured if not of.moves), most_neutral_or_best(measured)
    if best is before:
        return (f"{metric} {best.score:.1f}, " if metric else "") + "no method is better than none"
    found = f"{metric} {before.score:.1f} before and {best.score:.1f} after, " if metric else ""
    return (
        f"{best.method.label}: {found}own language among neighbours {before.neutrality.own:.1f}% before and "
        f"{best.neutrality.own:.1f}% after"
    )


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


def _digest(options: str, spec: EncoderSpec, text: UserText, x: ByLanguage) -> str:
    """A digest of what is measured, for the name of a file."""
    units = {code: unit.tolist() for code, unit in text.units.items()}
    digest = hashlib.sha256(json.dumps([options, spec.to_dict(), text.form, units]).encode())
    for rows in x.values():
        digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()[:16]
