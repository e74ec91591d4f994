"""The bias report: how one's own text is placed by language, and which layer, method and rank to use on it.

    python -m eval bias --texts mycorpus/ --encoder bundled

In cross-validation, each method is fitted on all folds of the text but one, and measured on the fold that is left out
(``eval.bias.measures``). The recommended layer and method are those with the highest score in search: if line i has the
same content in all files, each sentence searches the sentences of all languages for its translations (mAP); with pairs,
the other side of its language's pairs (accuracy, from and into English). In text that is not aligned, there is nothing
to search for: the transforms are then fitted on all of it and scored on the Universal Declaration of Human Rights
(UDHR) in the same languages, which is aligned, but is text of another kind.

Written to ``--out``: ``report.html``, one page with figures that needs no other file; ``transform.safetensors``, the
recommended transform, fitted on all of the text; ``moments.safetensors``, from which it can be fitted again with more
languages, of another rank or with an identifier; ``results.jsonl``. A report that was interrupted goes on when the
command is repeated: embeddings and the measures of each layer are kept in ``--out`` until it is finished.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from eval.anisotropy import ByLanguage
from eval.bias.figures import draw_layers, draw_space
from eval.bias.layers import Measured, best_candidate, difference, metric_of
from eval.bias.measures import Candidate, measure_layer
from eval.bias.page import Page, Parts
from eval.bias.queries import examples, find, first_results, own_by_language, search_by_language
from eval.command import RunOptions
from eval.evaluate import encode_texts, result_of
from eval.fitting import Fitting, MethodOptions
from eval.task import Score, Task
from lsar_jax import EncoderSpec, Moments, SentenceEncoder, corpora, pool_moments, save_moments
from lsar_jax.checks import whole_number
from lsar_jax.console.output import console, print_table
from lsar_jax.corpora.records import is_parquet
from lsar_jax.embeddings.job import remove_partial_files, work_folder
from lsar_jax.encoders.progress import Meter, in_words
from lsar_jax.files import check_outputs, text_sha256, write_text
from lsar_jax.measures.methods import FITTED, REPORT_METHODS, Method, MethodName, check_methods, fit_methods
from lsar_jax.measures.metric import Metric
from lsar_jax.measures.results import Result, read_results, write_results
from lsar_jax.measures.run_record import digest_of, record, recorded
from lsar_jax.options.user_text import Aligned, UserText, finds_lines, read_user_text, read_user_vectors
from lsar_jax.shapes import AnyArray

__all__ = ["Bias"]

_REPORT, _TRANSFORM, _RESULTS = "report.html", "transform.safetensors", "results.jsonl"
_MOMENTS, _FIGURES = "moments.safetensors", "figures"
# Folder of what is kept of a report that was interrupted, and the names in it.
_WORK = ".job"
_WORK_FILES = r"lock|layer-\d+-[0-9a-f]{16}\.safetensors|embeddings/([0-9a-f]{32}-[0-9a-f]{16}\.safetensors)?"
_FIGURE = (
    r"(mAP(-on-the-UDHR)?|accuracy-of-pairs|neighbours-in-the-own-language|language-identified-by-a-linear-classifier|"
    r"IsoScore|the-methods|by-(language|meaning)-(before|after))\.svg"
)
# Sentences of a language that the first answer is from.
_FIRST = 100

# Names of the measures of the space in results, in the order of ``Neutrality``.
_MEASURES = (
    "own language among neighbours", "own language without preference", "language identified", "IsoScore", "mean cosine"
)  # fmt: skip


@dataclass(frozen=True)
class Bias(MethodOptions, RunOptions):
    """How one's own text is placed by language, and which layer, method and rank to use on it.

    Attributes:
      folder: folder with a text file per language, or with parallel text of English and other languages.
      vectors: vectors of these lines, of any model, in place of an encoder: for de.txt a file de.npy with a vector for
        each line, or a folder de that lsar-jax encode wrote, in a folder; or a parquet file with the columns language,
        text and vector, which then stands for --texts too.
      languages: language codes; by default, all that the folder has.
      aligned: whether line i has the same content in all files; by default found out from the text.
      count: maximum number of sentences of each language, drawn at random.
      folds: number of parts for cross-validation.
      seed: seed of the draw, of the parts and of resampling.
      layers: hidden-state layers to compare; by default, all.
      ranks: ranks of LSAR, each in a row of its own; by default, half and all of the dimensions that the means of the
        languages span.
    """

    folder: Annotated[Path, tyro.conf.arg(name="texts")] = Path("texts")
    vectors: Path | None = None
    languages: tuple[str, ...] = ()
    aligned: Aligned = "auto"
    count: int = 1000
    folds: int = 5
    seed: int = 0
    layers: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    transforms: tuple[MethodName, ...] = REPORT_METHODS
    out: Path = Path("results/bias")

    name = "bias"
    # What --help shows.
    essential = (
        "folder", "vectors", "languages", "encoder", "layers", "transforms", "ranks", "count", "cache", "out"
    )  # fmt: skip

    def run(self) -> list[Result]:
        """Encodes, measures every layer and method, chooses one, and writes the report and the transform."""
        if self.vectors:
            self._check_vectors(self.vectors)
            if is_parquet(self.vectors) and self.folder == Path("texts"):
                return replace(self, folder=self.vectors).run()
        # One thread: those of BLAS wait without sleeping and take the cores from XLA's.
        with recorded(self), threadpool_limits(1, "blas"):
            return self._evaluate()

    def _check_vectors(self, vectors: Path) -> None:
        if not vectors.exists():
            raise FileNotFoundError(f"there is no {vectors}, which --vectors names")
        for option in fields(RunOptions):
            if option.name not in ("out", "overwrite", "layers") and getattr(self, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise ValueError(f"--{name} is given, but with --vectors nothing is encoded; omit it")
        if self.layers:
            raise ValueError("--layers is given, but with --vectors nothing is encoded; omit it")

    def _evaluate(self) -> list[Result]:
        text = read_user_text(self.folder, self.languages, self.count, self.aligned, self.seed)
        self._check(text)
        encoder = None if self.vectors else self.open_encoder()
        layers = self.layers or _comparable_layers(encoder)
        # The options are checked with the ranks that are given; the default ones depend on the embeddings.
        fitting = Fitting(self, {}, text.codes, (), f"{self.folder}, up to {self.count} a language")
        if encoder is not None:
            fitting.check(encoder, layers)
        work = self.out / _WORK
        with work_folder(work, self.out, _WORK_FILES):
            remove_partial_files(work, _WORK_FILES)
            around = self._first_answer(encoder, layers) if self._is_long(text, layers) else layers[-1]
            order = sorted(layers, key=lambda layer: abs(layer - around))
            measured = self._measured(text, encoder, layers, order, digest_of(self))
            candidates, choice = measured.candidates, measured.choice()
            page = Page(
                self.folder, measured.text, measured.metric, candidates, choice, self.folds,
                list(measured.yardstick), self._opening, self.max_length,
            )  # fmt: skip
            results = self._results(page, fitting, list(measured.yardstick) or text.codes)
            write_results(results, self.out / _RESULTS)
            record(self)  # so that the same command goes on if this one is killed while it draws
            x = {code: rows[layers.index(page.shown.layer)] for code, rows in measured.x.items()}
            self._save_moments(page.shown, x)
            self._write(page, x)
        return results

    def _is_long(self, text: UserText, layers: Sequence[int]) -> bool:
        """Whether a part of the text and of the layers is worth an answer of its own."""
        return len(layers) > 3 and max(map(len, text.sentences.values())) > 2 * _FIRST

    def _first_answer(self, encoder: SentenceEncoder | None, layers: Sequence[int]) -> int:
        """Measures a third of the way, two thirds and the last layer on a part of the text; returns the best layer."""
        with console.capture():  # what is left out is said of the whole text
            text = read_user_text(self.folder, self.languages, _FIRST, self.aligned, self.seed)
        thirds = [layers[round(share * (len(layers) - 1))] for share in (1 / 3, 2 / 3, 1)]
        measured = self._measured(text, encoder, layers, thirds)
        best = best_candidate(measured.candidates)
        original = next(c for c in measured.candidates if c.layer == best.layer and c.method.name == "original")
        console.print(
            f"first answer, from {_FIRST} sentences a language at layers {' '.join(map(str, thirds))}: "
            f"layer {best.layer}, {difference([original, best], measured.metric)}"
        )
        return best.layer

    def _measured(
        self,
        text: UserText,
        encoder: SentenceEncoder | None,
        layers: Sequence[int],
        order: Sequence[int],
        digest: str = "",
    ) -> Measured:
        """Encodes a text, and measures all methods at some layers in an order; with a digest, what is found is kept."""
        cache = self.cache or self.out / _WORK / "embeddings"
        if encoder is None:
            assert self.vectors is not None
            x = {code: rows[None] for code, rows in read_user_vectors(self.vectors, self.folder, text).items()}
            check_methods(self.transforms, self.varied, text.codes, next(iter(x.values())).shape[-1])
        else:
            given = {("text", code): sentences for code, sentences in text.sentences.items()}
            encoded = encode_texts(encoder, given, layers, self.max_length, cache)
            x = {code: encoded["text", code] for code in text.codes}
        different, ranks = self._different(layers, x, bool(digest))
        text = self._judged(text, {code: rows[layers.index(different[-1])] for code, rows in x.items()}, bool(digest))
        # The UDHR is searched in place of text that is not aligned.
        shared = [] if text.aligned or encoder is None else [code for code in text.codes if code in corpora.udhr("all")]
        yardstick = corpora.udhr("all", shared) if len(shared) > 1 else {}
        given = {("udhr", code): paragraphs for code, paragraphs in yardstick.items()}
        searched = encode_texts(encoder, given, layers, self.max_length, cache) if encoder and given else {}
        options, folds = replace(self, ranks=self.ranks or ranks), self.folds if digest else min(self.folds, 5)
        found: dict[int, list[Candidate]] = {}
        metric = metric_of(text, yardstick)
        order = [layer for layer in order if layer in different]
        meter, new = Meter(show=False), 0
        for layer in order:
            place, spec = layers.index(layer), self._spec(encoder, layer)
            paragraphs = {code: searched["udhr", code][place] for code in yardstick}
            rows, fit = {code: value[place] for code, value in x.items()}, partial(options._fit, spec=spec)
            pairs = {code: np.stack(sides) for code, sides in text.pairs.items()}
            measured = [rows, paragraphs, text.units if text.aligned else {}, pairs]
            name = text_sha256(json.dumps([digest, spec.to_dict(), *map(_digest, measured)]))[:16]
            kept = self.out / _WORK / f"layer-{layer}-{name}.safetensors" if digest else None
            # Those that an interrupted report measured, which come first, take no time.
            if measures := kept is None or not kept.is_file():
                meter("", new, new + len(order) - len(found))
            found[layer] = measure_layer(text, rows, paragraphs, spec, fit, folds, self.seed, kept)
            new += measures
            left = meter("", new, new + len(order) - len(found)) if measures else None
            if digest:
                time_left = f", {in_words(left)} left" if left else ""
                where = f"layer {layer} ({len(found)} of {len(order)}{time_left}): " if encoder else ""
                console.print(f"{where}{difference(found[layer], metric)}")
        return Measured(
            text, [c for layer in sorted(found, key=layers.index) for c in found[layer]], x, metric, yardstick
        )

    def _spec(self, encoder: SentenceEncoder | None, layer: int) -> EncoderSpec:
        """The spec at a layer; of vectors, only their name is known."""
        return replace(encoder.spec, layer=layer) if encoder else EncoderSpec(f"{self.vectors}", "", layer, "", "")

    def _save_moments(self, shown: Candidate, x: ByLanguage) -> None:
        """Writes the moments of the shown layer.

        There is a second moment of each language only if the shown method needs that, because these are large.
        """
        moments: Mapping[str, Moments] = {
            code: Moments.from_embeddings(rows, second_moment=True, precise=True) for code, rows in x.items()
        }
        if shown.method.name not in FITTED or FITTED[shown.method.name].needs != "languages":
            moments = pool_moments(moments)
        save_moments(self.out / _MOMENTS, moments, source=None if self.vectors else shown.spec)

    def _check(self, text: UserText) -> None:
        if "original" not in self.transforms:
            raise ValueError("--transforms lacks original, which all others are compared with; add it")
        whole_number("--count", self.count, 20, 10**9, "sentences of a language")
        fewest = min(map(len, text.sentences.values()))
        whole_number("--folds", self.folds, 2, fewest // 5, "a fifth of the sentences of the smallest language")
        # Beside results, which were checked, they are those of an earlier report.
        overwrite = self.overwrite or (self.out / _RESULTS).is_file()
        check_outputs([self.out / name for name in (_REPORT, _TRANSFORM, _MOMENTS)], overwrite=overwrite)

    def _different(
        self, layers: Sequence[int], x: Mapping[str, Float[np.ndarray, "layer _ dim"]], say: bool
    ) -> tuple[list[int], tuple[int, ...]]:
        """The layers at which the means of the languages differ, and the default ranks.

        At the embedding output the vector of the first token is the same for all sentences.
        """
        means = np.stack([rows.mean(axis=1) for rows in x.values()], axis=1).astype(np.float64)
        spans = {
            layer: int(np.linalg.matrix_rank(of - of.mean(axis=0), tol=1e-4 * np.abs(of).max()))
            for layer, of in zip(layers, means, strict=True)
        }
        different = [layer for layer, span in spans.items() if span]
        if not different:
            where = "" if self.vectors else " at every layer"
            raise ValueError(f"the languages of {self.folder} have the same mean{where}; give different texts")
        if say and (same := [str(layer) for layer, span in spans.items() if not span]):
            console.print(f"left out layer {' '.join(same)}, where all languages have the same mean")
        most = min(spans[layer] for layer in different)
        return different, tuple(dict.fromkeys((max(1, most // 2), most)))

    def _judged(self, text: UserText, x: ByLanguage, say: bool) -> UserText:
        """The text, as not aligned if its embeddings say so."""
        if text.pairs or not text.aligned or self.aligned != "auto":
            return text
        aligned = finds_lines(x)
        if say:
            console.print(
                f"The files of {self.folder} have as many lines each, and their lines {'' if aligned else 'do not '}"
                f"find those of the same number in other languages: the text is read as {'' if aligned else 'not '}"
                f"aligned (--aligned {'no' if aligned else 'yes'} reads it otherwise)."
            )
        return text if aligned else text.not_aligned()

    def _fit(self, x: ByLanguage, moments: Mapping[str, Moments], spec: EncoderSpec) -> list[Method]:
        """Fits every method; the published form of LSAR only below full rank, where it differs from LSAR."""
        names, source = [name for name in self.transforms if name != "lsar-published"], None if self.vectors else spec
        methods = fit_methods(x, names, self.varied, source=source, moments=moments)
        below = tuple(rank for rank in self.ranks if rank < len(x) - 1)
        if below and "lsar-published" in self.transforms:
            methods += fit_methods(x, ("lsar-published",), {"rank": below}, source=source, moments=moments)
        return sorted(methods, key=lambda method: self.transforms.index(method.name))

    def _results(self, page: Page, fitting: Fitting, searched: Sequence[str]) -> list[Result]:
        options = {"folder": str(self.folder), "aligned": self.aligned, "count": self.count, "folds": self.folds}
        codes = page.text.codes
        task = Task("bias", f"Language in {self.folder}", codes, [], lambda *_: (), options=options)
        results = []
        for candidate in page.candidates:
            measured = zip(_MEASURES, candidate.neutrality, strict=True)
            scores = [Score(Metric(name), value, codes, page.text.count) for name, value in measured]
            if candidate.search is not None:
                scores.insert(0, Score.of(Metric(page.metric), searched, candidate.search))
            for score in scores:
                results.append(result_of(task, fitting, candidate.spec, candidate.method, score, self.max_length))
        return results

    def _write(self, page: Page, x: ByLanguage) -> None:
        """Prints the table and the recommendation, and writes the transform, the figures and the page."""
        print_table(*page.table())
        for line in page.summary():
            console.print(line)
        saved, text, shown = self.out / _TRANSFORM, page.text, page.shown
        if page.best and page.best.method.transform is not None:
            page.best.method.transform.save(saved)
        else:
            saved.unlink(missing_ok=True)  # that of an earlier report
        found = find(text, x, shown.method, shown.spec, self.folds, self.seed)
        search = search_by_language(text, page.before, shown, page.yardstick, self.folds, self.seed)
        several = len({candidate.layer for candidate in page.candidates}) > 2
        layers = draw_layers(page.candidates, page.metric) if several else {}
        space = draw_space(shown.method, text, x)
        parts = Parts(
            layers,
            space,
            search,
            own_by_language(text, found),
            *examples(text, found, self.seed),
            first_results(text, found),
        )
        (self.out / _FIGURES).mkdir(exist_ok=True)
        for path in (self.out / _FIGURES).iterdir():
            if re.fullmatch(_FIGURE, path.name):
                path.unlink()  # that of an earlier report
        for name, svg in (layers | space).items():
            write_text(self.out / _FIGURES / f"{re.sub(r'[^a-zA-Z]+', '-', name)}.svg", svg)
        # The results are read again for the day that they were written on.
        write_text(self.out / _REPORT, page.html(parts, saved, read_results(self.out / _RESULTS)))
        console.print(f"wrote the report, results and figures to {self.out}")

    @property
    def _opening(self) -> str:
        """The arguments of ``load_encoder`` that open this encoder, but for the layer; empty for vectors."""
        if self.vectors:
            return ""
        given = {name: getattr(self, name) for name in ("revision", "pooling", "dim", "final_norm", "dtype")}
        named = [f"{name}={value!r}" for name, value in given.items() if value not in (None, False, "float32")]
        return ", ".join([repr(self.encoder), *named])


def _digest(arrays: Mapping[str, AnyArray]) -> str:
    """A digest of what is measured, by language."""
    digest = hashlib.sha256()
    for code, array in arrays.items():
        digest.update(f"{code} {array.shape} {array.dtype};".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _comparable_layers(encoder: SentenceEncoder | None) -> tuple[int, ...]:
    """All layers; only the last if the checkpoint's own steps, such as LaBSE's, follow the pooling there."""
    if encoder is None:
        return (0,)
    if encoder.projection is not None:
        what, other = ("--dim", "no --dim") if encoder.spec.dim else (encoder.spec.pooling, "--pooling")
        console.print(f"{what} belongs to layer {encoder.spec.layer}; other layers need {other}")
        return (encoder.spec.layer,)
    return tuple(range(encoder.spec.layer + 1))
