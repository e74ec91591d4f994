"""The geometry of embeddings after each method: anisotropy, isotropy, outliers, and remaining language information.

    python -m eval geometry                                   # the UDHR, which comes with the library
    python -m eval geometry --text tatoeba                    # fitted on the evaluated sentences
    python -m eval geometry --xquad data/xquad-r              # adds language preference, questions and answers

On the UDHR, methods are fitted on one half of the paragraphs and measured on the other. The measures are:

- the exact mean cosine of two sentences within a language, across languages and overall, and the mean cosine of 10,000
  random pairs within each language;
- IsoScore;
- NMI between k-means clusters and languages, and the accuracy of a linear language probe;
- the share of the ten nearest neighbours that are in the query's language, beside that language's share of the pool;
- the correlation between URIEL's syntactic similarity to English and the cosine with English's mean, for the part of
  the language means that LSAR removes and for the part that it leaves.

``dimensions.jsonl`` lists the outliers and the largest contributions for each language and layer.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from eval.data.tatoeba import XTREME_36, read_pairs
from eval.figures import geometry as draw
from eval.figures.plots import scatter
from eval.fitted_task import FitLanguages
from eval.methods import ALL_METHODS, Method, MethodName
from eval.metrics import language_nmi, language_probe
from eval.results import Result, write_results
from eval.score import Score
from eval.task import Embedded, Encoded, Task, Texts
from eval.tasks.answer_preference import AnswerPreference
from eval.tasks.typology import syntactic_distances, typology_correlation
from lsar_jax import EncoderSpec, SentenceEncoder, corpora
from lsar_jax.corpora.tables import Data
from lsar_jax.files import write_text
from lsar_jax.geometry import (
    anisotropy_by_language,
    expected_contributions,
    isoscore,
    mean_distance_by_rank,
    outlier_dimensions,
    pair_contributions,
    random_pairs,
)
from lsar_jax.retrieval import nearest
from lsar_jax.retrieval.preference import top_k_share
from lsar_jax.transforms import fit_identifier
from train.console import console, print_table
from train.embeddings import encode_all

__all__ = ["Geometry", "tsne"]

# The groups of the texts to fit on and to measure.
_FIT, _MEASURED = "fit", "measured"

# Language -> embeddings.
ByLanguage = Mapping[str, Float[np.ndarray, "_ dim"]]


@dataclass(frozen=True)
class Geometry(Task):
    """Measures and figures of the embedding space before and after each method.

    Attributes:
      layers: layers at which methods are compared; figures show the first.
      text: the text to measure, udhr or tatoeba.
      data: folder of tatoeba.xxx-eng.xxx files.
      languages: language codes; by default, all in the text.
      fit_languages: languages to fit on: tested, or all that the UDHR has; on Tatoeba, only those tested.
      xquad: folder of XQuAD-R, for language preference and the figure of questions and answers.
      uriel: path of lang2vec's distances2.zip; by default, cosine distances are computed from the features in
        lang2vec's wheel.
      seeds: seeds of k-means.
    """

    name = "geometry"

    transforms: tuple[MethodName, ...] = ALL_METHODS
    out: Path = Path("results/geometry")
    text: Literal["udhr", "tatoeba"] = "udhr"
    data: Data = Path("data/tatoeba")
    languages: tuple[str, ...] = ()
    fit_languages: FitLanguages = "tested"
    xquad: Path | None = None
    uriel: Path | None = None
    seeds: tuple[int, ...] = (0, 1, 2)

    _rows: list[list[str | float]] = field(default_factory=list, init=False, repr=False, compare=False)
    _encoded: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The title of tables."""
        return f"{len(self._texts)} languages; cosines, shares and scores from 0 to 1, the probe in percent"

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the text that transforms are fitted on."""
        return "udhr fit" if self.text == "udhr" else "the evaluated sentences"

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the half of the UDHR to fit on; empty if transforms are fitted on the measured sentences."""
        if self.text == "tatoeba":
            return {}
        return {code: text[corpora.UDHR_PARTS["fit"]] for code, text in (self._texts | self._further).items()}

    def fitted_languages(self, fit: Mapping[str, Sequence[str]]) -> int:
        """Returns the number of languages to fit on."""
        return len(self._texts) + len(self._further)

    def texts(self) -> Texts:
        """Returns the texts to measure."""
        if len(self._texts) < 3:
            raise ValueError(f"the languages are {', '.join(self._texts)}; geometry needs at least three")
        # Read the other files now, so that errors in them appear before encoding.
        _ = self._syntax, self._answers and self._answers.questions
        part = corpora.UDHR_PARTS["test" if self.text == "udhr" else "all"]
        return {(_MEASURED, code): text[part] for code, text in self._texts.items()}

    def encode(self, encoder: SentenceEncoder, texts: Texts) -> Encoded:
        """Returns the embeddings at the layers to compare; those at all layers are kept for the curves."""
        every = tuple(range(encoder.spec.layer + 1))
        whole, _ = encode_all(encoder, self._texts, every, self.max_length, {code: code for code in self._texts})
        names = {_MEASURED: "all"} if self.text == "tatoeba" else {_FIT: "fit", _MEASURED: "test"}
        groups = {group: corpora.UDHR_PARTS[part] for group, part in names.items()}
        self._encoded["encoder"] = encoder
        self._encoded["measured"] = {code: x[:, groups[_MEASURED]] for code, x in whole.items()}
        chosen = list(self.layers)
        parts = {(group, code): x[chosen][:, rows] for group, rows in groups.items() for code, x in whole.items()}
        if not self._further:
            return parts
        text = {(_FIT, code): text[corpora.UDHR_PARTS["fit"]] for code, text in self._further.items()}
        return parts | encode_all(encoder, text, self.layers, self.max_length, {key: key[1] for key in text})[0]

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the fitting half, or on the measured sentences."""
        group = _FIT if self.text == "udhr" else _MEASURED
        return self.fit(_of(x, group), spec)

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields all measures of transformed embeddings."""
        test = _of(x, _MEASURED)
        values = self._measures(test)
        self._rows.append([f"{spec.layer} {_short(method)}", *(f"{value:.3f}" for value in values.values())])
        self._encoded["names"] = list(values)
        for name, value in values.items():
            yield Score(name, value, list(test), sum(map(len, test.values())))

    def layer_scores(self, x: Embedded, methods: Sequence[Method], spec: EncoderSpec) -> Iterator[tuple[Method, Score]]:
        """Yields the accuracy of language identification and the correlations with syntax; draws the first layer."""
        test = _of(x, _MEASURED)
        if self.text == "udhr":
            yield from self._identified(_of(x, _FIT), test, spec)
        if self._syntax is not None:
            yield from self._typology(methods, test, spec, *self._syntax)
        if spec.layer == self.layers[0]:
            self._pictures(methods, test, spec.layer)

    def measure(self, encoder: SentenceEncoder | None = None) -> list[Result]:
        """Encodes, fits, transforms and measures; the language preference of answers comes last."""
        results = super().measure(encoder)
        if self._answers is not None:
            answers = self._answers.measure(self._encoded["encoder"])
            results += [replace(result, options=self.options) for result in answers]
        return results

    def report(self, results: Sequence[Result]) -> None:
        """Prints tables, draws all layers, and writes ``results.jsonl``."""
        self._all_layers()
        print_table(self.title, ["", *self._encoded["names"]], self._rows)
        if self._answers is not None:
            self._answers.report(results)
        write_results(results, self.out / "results.jsonl")
        console.print(f"wrote results and figures to {self.out}")

    @cached_property
    def _answers(self) -> AnswerPreference | None:
        if self.xquad is None:
            return None
        names = ("encoder", "revision", "pooling", "layers", "transforms", "components", "saved", "dtype", "max_length")
        shared = {name: getattr(self, name) for name in (*names, "out")}
        return AnswerPreference(**shared, data=self.xquad)

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        if self.text == "udhr":
            return corpora.udhr("all", self.languages or None)
        pairs = read_pairs(self.data, self.languages or XTREME_36)
        # The English sides overlap; each sentence is measured once.
        english = dict.fromkeys(text for side, _ in pairs.values() for text in side)
        return dict(sorted(({code: other for code, (_, other) in pairs.items()} | {"en": list(english)}).items()))

    @cached_property
    def _further(self) -> dict[str, list[str]]:
        """The text of the languages that are fitted on, but not measured."""
        if self.fit_languages == "tested":
            return {}
        if self.text == "tatoeba":
            raise ValueError(
                "--fit-languages all cannot be combined with --text tatoeba, which fits on what it measures; omit it"
            )
        return {code: text for code, text in corpora.udhr("all").items() if code not in self._texts}

    def _measures(self, x: ByLanguage) -> dict[str, float]:
        cosines = anisotropy_by_language(x)
        drawn = [pair_contributions(rows, rows, random_pairs(len(rows), len(rows))).sum() for rows in x.values()]
        codes = [code for code, rows in x.items() for _ in rows]
        pool = np.concatenate(list(x.values()))
        numbers = np.unique(codes, return_inverse=True)[1]
        # Eleven neighbours, because the query itself is one; it is dropped below.
        found = np.asarray(nearest(pool, pool, 11)[1])
        own = found == np.arange(len(pool))[:, None]
        own[~own.any(axis=1), -1] = True
        top = top_k_share(found[~own].reshape(len(pool), 10), numbers, numbers)
        return {
            "cosine within": cosines.within,
            "drawn": float(np.mean(drawn)),
            "cosine across": cosines.across,
            "cosine of all": cosines.overall,
            "IsoScore": isoscore(pool),
            "NMI": float(language_nmi(pool, codes, self.seeds).mean()),
            "probe": language_probe(pool, codes, [n for rows in x.values() for n in range(len(rows))]),
            "own in first 10": top.share,
            "own in pool": top.pool_share,
        }

    def _identified(self, fit: ByLanguage, test: ByLanguage, spec: EncoderSpec) -> Iterator[tuple[Method, Score]]:
        """Yields the accuracy of ``language="auto"`` for each language."""
        accuracy = fit_identifier(fit, source=spec).accuracy(test)
        least = sorted(accuracy, key=lambda code: accuracy[code])[:5]
        console.print(
            f"layer {spec.layer}: the language is identified in {np.mean(list(accuracy.values())):.1f}% of sentences, "
            f"mean over languages; lowest: {', '.join(f'{code} {accuracy[code]:.0f}%' for code in least)}"
        )
        method = Method("identifier", {}, None)
        for code, value in accuracy.items():
            yield method, Score("auto accuracy", value, [code], len(test[code]), fitted_on=self.fitted_on)

    @cached_property
    def _syntax(self) -> tuple[dict[str, float], str] | None:
        """The syntactic distances from English and the name of the measure; None if unavailable, and prints why."""
        languages = self._texts
        why = None
        if self.text == "tatoeba":
            why = "the language means would coincide, because LSAR is fitted on the measured sentences"
        elif "lsar" not in self.transforms:
            why = "it compares the parts that LSAR removes and leaves, but lsar is not among --transforms"
        elif "en" not in languages or len(languages) < 4:
            why = "it needs English and at least three other languages"
        else:
            try:
                return syntactic_distances(languages, precomputed=self.uriel)
            except ImportError as error:
                why = str(error)
        console.print(f"skipping the correlation with syntax: {why}")
        return None

    def _typology(
        self,
        methods: Sequence[Method],
        test: ByLanguage,
        spec: EncoderSpec,
        distances: Mapping[str, float],
        measure: str,
    ) -> Iterator[tuple[Method, Score]]:
        """Yields the correlation between syntactic similarity and the cosines of language means with English's."""
        for method in (method for method in methods if method.name == "lsar"):
            means = {code: x.mean(axis=0) for code, x in test.items()}
            left = {code: method(mean[None], code)[0] for code, mean in means.items()}
            gone = {code: means[code] - left[code] for code in means}
            for what, vectors in (("removed", gone), ("left", left)):
                english = vectors["en"]
                cosine = {
                    code: float(v @ english / np.linalg.norm(v) / np.linalg.norm(english))
                    for code, v in vectors.items()
                    if code != "en"
                }
                r, n = typology_correlation(cosine, distances)
                yield method, Score(f"syntax, {what} ({measure})", r, list(test), n)
                console.print(
                    f"layer {spec.layer}, {method.label}: cosine with English's mean in the part {what} by LSAR, and "
                    f"syntactic similarity to English: r = {r:.3f} over {n} languages ({measure})"
                )

    def _all_layers(self) -> None:
        """Draws how the original embeddings change from layer to layer."""
        measured: dict[str, np.ndarray] = self._encoded["measured"]
        layers = range(len(next(iter(measured.values()))))
        parts = [{code: value[layer] for code, value in measured.items()} for layer in layers]
        cosines = [anisotropy_by_language(x) for x in parts]
        scores = [isoscore(np.concatenate(list(x.values()))) for x in parts]
        curves = {
            "within a language": [c.within for c in cosines],
            "across languages": [c.across for c in cosines],
            "all sentences": [c.overall for c in cosines],
            "IsoScore": scores,
        }
        draw.layer_curves(curves, layers, f"Mean cosine of two sentences ({self.encoder})", self.out / "layers.png")
        of_language = np.array([[rows.mean(axis=0) for rows in x.values()] for x in parts])
        means = of_language.mean(axis=1)
        out = np.asarray(outlier_dimensions(means))
        draw.layer_means(means, out, layers, f"Mean embedding of each layer ({self.encoder})", self.out / "means.png")
        lines = []
        for layer, x, own in zip(layers, parts, of_language, strict=True):
            for code, mean, flags in zip(x, own, np.asarray(outlier_dimensions(own)), strict=True):
                shares = np.asarray(expected_contributions(x[code]))
                entry = {
                    "layer": layer,
                    "language": code,
                    "outliers": {int(d): round(float(mean[d]), 4) for d in np.flatnonzero(flags)},
                    "contributions": {int(d): round(float(shares[d]), 4) for d in np.argsort(-shares)[:10]},
                }
                lines.append(json.dumps(entry) + "\n")
        write_text(self.out / "dimensions.jsonl", "".join(lines))
        rows: list[list[str | float]] = [
            [f"{layer}", f"{c.within:.2f}", f"{c.across:.2f}", f"{c.overall:.2f}", f"{score:.3f}", _named(mean, flags)]
            for layer, c, score, mean, flags in zip(layers, cosines, scores, means, out, strict=True)
        ]
        print_table(
            "Original embeddings by layer",
            ["layer", "within", "across", "overall", "IsoScore", "outliers (mean)"],
            rows,
        )

    def _pictures(self, methods: Sequence[Method], test: ByLanguage, layer: int) -> None:
        codes = [code for code, x in test.items() for _ in x]
        pool = np.concatenate(list(test.values()))
        shares = np.stack([np.asarray(expected_contributions(x)) for x in test.values()])
        title = f"layer {layer} ({self.encoder})"
        draw.contributions(shares, list(test), f"Contribution of dimensions, {title}", self.out / "contributions.png")
        means = np.stack([x.mean(axis=0) for x in test.values()])
        flags = np.asarray(outlier_dimensions(means))
        draw.outliers(means, flags, list(test), f"Outlier dimensions, {title}", self.out / "outliers.png")
        worst = int(np.argmax(shares.mean(axis=0)))
        if "en" in test:
            others = {code: x for code, x in test.items() if code != "en"}
            k = min(250, *(len(x) for x in others.values()))
            curves = {
                name: np.mean([mean_distance_by_rank(test["en"], x, k, without) for x in others.values()], axis=0)
                for name, without in (("all dimensions", ()), (f"without dimension {worst}", (worst,)))
            }
            draw.distances(curves, f"English to the others, {title}", self.out / "distance_by_rank.png")
        after = {method.name: method for method in methods}
        chosen = [after[name] for name in ("original", "lsar", "cbie", "whitening") if name in after]
        moved = {
            method.label: np.concatenate([method(x, code) for code, x in test.items()])
            for method in chosen or methods[:1]
        }
        scatter({f"layer {layer}, {name}": x for name, x in moved.items()}, codes, self.out / "pca.png")
        flat = {name: tsne(x) for name, x in moved.items()}
        draw.planes(flat, codes, f"t-SNE of 50 principal components, {title}", self.out / "tsne.png")
        if "lsar" in after and after["lsar"].transform is not None:
            basis = np.asarray(after["lsar"].transform.steps[0].basis)[:, :2]
            if basis.shape[1] == 2:
                title = f"What LSAR removes, layer {layer}"
                draw.removed({title: pool @ basis}, codes, self.out / "removed.png")


def _of(x: Embedded, group: str) -> dict[str, Float[np.ndarray, "_ dim"]]:
    return {code: value for (own, code), value in x.items() if own == group}


def tsne(x: Float[np.ndarray, "vector dim"], seed: int = 0) -> Float[np.ndarray, "vector 2"]:
    """Returns a two-dimensional t-SNE of the first 50 principal components, as in Hämmerl et al. 2023."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    reduced = PCA(min(50, *x.shape), random_state=seed).fit_transform(np.asarray(x, np.float64))
    plane = TSNE(2, perplexity=min(30, (len(x) - 1) / 3), random_state=seed)
    # One thread: OpenMP's threads busy-wait for each other at every step while XLA's occupy the cores.
    with threadpool_limits(1, "openmp"):
        return plane.fit_transform(reduced.astype(np.float32))


def _short(method: Method) -> str:
    """Returns the name of a method, with the arguments that may vary within a run."""
    shown = [f"{value}" for key, value in method.parameters.items() if key == "rank" or method.name == "lir"]
    return " ".join([method.name, *shown])


def _named(mean: Float[np.ndarray, " dim"], out: np.ndarray) -> str:
    order = np.argsort(-np.abs(mean))
    return ", ".join(f"{d} ({mean[d]:.2f})" for d in order if out[d]) or "none"
