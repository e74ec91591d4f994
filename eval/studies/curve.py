"""How many sentences per language does a transform need?

    python -m eval curve --data data/tatoeba --bitext data/bitext

Each method is fitted on the first 25, 100, 400 and all sentences per language of a shuffled bitext, English included,
and scored by its accuracy on Tatoeba, from English to each language that both datasets have. The fitting text therefore
differs in kind from the test text. Every sentence is encoded once. The last column of each table says how many
sentences are enough. More sentences are not always better: whitening gets worse when there are about as many sentences
as dimensions.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure

from eval.command import RunOptions
from eval.data.tatoeba import XTREME_36, read_pairs
from eval.evaluate import Evaluation, encode_texts, result_of
from eval.fitting import FitLanguages, Fitting, MethodOptions
from eval.methods import ALL_METHODS, MethodName, fit_methods
from eval.metrics import find_own
from eval.results import Result, write_results
from eval.run_record import recorded
from eval.task import Score, Task
from lsar_jax.checks import whole_number
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import open_encoder
from lsar_jax.corpora.parallel_text import read_bitext
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from train.curves import save_figure
from train.marks import line

__all__ = ["Curve", "curve_figure", "enough", "read_texts"]

# Method label -> sentences per language -> percentage.
Values = Mapping[str, Mapping[int, float]]
# Language -> the distinct sentences of all shuffles, and the indices of each shuffle into them.
Drawn = dict[str, tuple[list[str], Int[np.ndarray, "seed count"]]]

_NEAR = 0.5


@dataclass(frozen=True)
class Curve(MethodOptions, RunOptions):
    """Accuracy on Tatoeba against the number of sentences that transforms are fitted on.

    Attributes:
      data: folder of tatoeba.xxx-eng.xxx files.
      bitext: folder of en-xx.tsv files.
      languages: language codes; by default, all in both folders.
      fit_languages: languages to fit on: tested, or all of the bitext.
      counts: numbers of sentences per language to fit on; the number of sentences of the smallest language is added.
      most: maximum number of sentences per language to fit on.
      queries: maximum number of Tatoeba pairs per language; the first ones are used.
      seeds: number of shuffles; tables show the mean over them.
    """

    transforms: tuple[MethodName, ...] = ALL_METHODS
    max_length: int = 64
    out: Path = Path("results/curve")
    data: Data = Path("data/tatoeba")
    bitext: Path = Path("data/bitext")
    languages: tuple[str, ...] = ()
    fit_languages: FitLanguages = "tested"
    counts: tuple[int, ...] = (25, 100, 400)
    most: int = 1000
    queries: int = 500
    seeds: int = 1

    name = "curve"

    def run(self) -> Evaluation:
        """Prints a table per layer, draws the curves, and writes ``results.jsonl``."""
        with recorded(self):
            return self._evaluate()

    def _evaluate(self) -> Evaluation:
        for option in ("most", "queries", "seeds"):
            whole_number(f"--{option}", getattr(self, option), 1, 10**9, "there must be some")
        for count in self.counts:
            whole_number("--counts", count, 1, 10**9, "there must be some")
        text = read_texts(self.bitext, () if self.fit_languages == "all" else self.languages)
        if empty := [code for code, lines in text.items() if not lines]:
            raise ValueError(f"{self.bitext} has no sentences in {empty[0]}; choose other languages with --languages")
        tested = [language_code(code) for code in self.languages] or [code for code in text if code != "en"]
        if lacking := [code for code in tested if code not in text]:
            raise ValueError(f"{self.bitext} has no sentences in {', '.join(lacking)}; omit these languages")
        pairs = read_pairs(self.data, tested)
        fewest, scarcest = min((len(lines), code) for code, lines in text.items())
        most = min(self.most, fewest)
        counts = sorted({count for count in self.counts if count < most} | {most})
        console.print(f"{len(pairs)} languages and English, at most {most} sentences each ({scarcest} has {fewest})")
        drawn = _drawn(text, self.seeds, most)
        test = {
            (side, code): lines[: self.queries]
            for code, sides in pairs.items()
            for side, lines in zip(("en", "xx"), sides, strict=True)
        }
        encoder = open_encoder(self.encoder, self.layers, self.revision, self.pooling, self.dtype)
        layers = self.layers or tuple(range(encoder.spec.layer + 1))
        texts = {("fit", code): sentences for code, (sentences, _) in drawn.items()} | test
        x = encode_texts(encoder, texts, layers, self.max_length, self.cache)
        title = f"Tatoeba, English to {len(pairs)} languages"
        options = {name: str(getattr(self, name)) for name in ("data", "bitext", "most", "queries")}
        task = Task("curve", title, list(pairs), [test], lambda *_: (), options=options)
        fitting = Fitting(self, {}, list(drawn), (), "bitext")
        results: list[Result] = []
        panels: dict[str, dict[str, dict[int, float]]] = {}
        for index, layer in enumerate(layers):
            spec = replace(encoder.spec, layer=layer)
            values: dict[str, dict[int, list[float]]] = {}
            for name, count, seed in product(self.transforms, counts, range(self.seeds)):
                if name == "original" and (count, seed) != (most, 0):
                    continue  # the original needs no fit: it is scored once
                fit = {code: x["fit", code][index][places[seed, :count]] for code, (_, places) in drawn.items()}
                try:
                    methods = fit_methods(fit, (name,), self.varied, source=spec)
                except ValueError as error:
                    console.print(f"layer {layer}: cannot fit {name} on {count} sentences per language: {error}")
                    continue
                for method in methods:
                    hits = [
                        find_own(method(x["en", code][index], "en"), method(x["xx", code][index], code))
                        for code in pairs
                    ]
                    value = 100 * float(np.mean([rows.mean() for rows in hits]))
                    values.setdefault(method.label, {}).setdefault(count, []).append(value)
                    score = Score(f"en-xx mean over {len(hits)}", value, list(pairs), sum(map(len, hits)))
                    if method.transform is not None:
                        score = score._replace(seed=seed, fitted_on=f"bitext {count}")
                    results.append(result_of(task, fitting, spec, method, score, self.max_length))
            panel = {label: {count: float(np.mean(v)) for count, v in row.items()} for label, row in values.items()}
            panels[f"layer {layer}"] = panel
            columns = ["sentences per language", *map(str, counts), "enough"]
            print_table(f"{title}, layer {layer}, in percent", columns, _table(panel, counts, self.transforms))
        console.print(
            f"enough: smallest count with a score within {_NEAR} of the method's best and not below the original"
        )
        write_results(results, self.out / "results.jsonl")
        curve_figure(panels, f"{title} ({self.encoder})", self.out / "curve.png")
        console.print(f"wrote results and the figure to {self.out}")
        return Evaluation(results, {})


def _drawn(text: Mapping[str, Sequence[str]], seeds: int, most: int) -> Drawn:
    """Shuffles the sentences of each language, by a seed of the language's own."""
    result = {}
    for code, lines in text.items():
        shuffles = [np.random.default_rng([seed, zlib.crc32(code.encode())]) for seed in range(seeds)]
        orders = np.stack([shuffle.permutation(len(lines))[:most] for shuffle in shuffles])
        rows, inverse = np.unique(orders, return_inverse=True)
        result[code] = [lines[row] for row in rows], inverse.reshape(orders.shape)
    return result


def enough(scores: Mapping[int, float], original: float) -> int | None:
    """Returns the smallest count that scores within 0.5 of the method's best and not below the original.

    Returns None if there is no such count.
    """
    least = max(max(scores.values()) - _NEAR, original)
    return min((count for count, score in scores.items() if score >= least), default=None)


def read_texts(folder: Path, languages: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Reads the sentences of each language, followed by all distinct English sentences.

    The files are named ``en-xx.tsv`` and have the tab-separated fields domain, English, xx. By default, those of
    XTREME's 36 Tatoeba languages are read.

    Raises:
      FileNotFoundError: the file of a language does not exist.
      ValueError: a line has too few or too many fields.
    """
    pairs = read_bitext(folder, languages, "--bitext", XTREME_36)
    text = {code: [other for _, other in several] for code, several in pairs.items()}
    english = dict.fromkeys(source for several in pairs.values() for source, _ in several)
    return text | {"en": list(english)}


def curve_figure(panels: Mapping[str, Values], title: str, path: Path) -> None:
    """Draws accuracy against sentences per language, with a panel per layer and a line per method (original dashed)."""
    figure = Figure(figsize=(4.6 * len(panels) + 1.8, 4.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for panel in panels.values() for label in panel))
    counts = sorted({count for panel in panels.values() for row in panel.values() for count in row})
    for axis, (name, panel) in zip(axes, panels.items(), strict=True):
        for label, row in panel.items():
            if label == "original":
                axis.axhline(*row.values(), color="k", ls="--", label=label)
            else:
                axis.plot(
                    sorted(row), [row[count] for count in sorted(row)], ms=4, label=label, **line(labels.index(label))
                )
        axis.set(xscale="log", xlabel="sentences per language", title=name)
        axis.set_xticks(counts, counts)
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy, %")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False, fontsize=8)
    figure.suptitle(title)
    save_figure(figure, path)


def _table(panel: Values, counts: Sequence[int], names: Sequence[str]) -> list[list[str | float]]:
    """Returns one row per method, including methods that could not be fitted."""
    original = next(iter(panel.get("original", {0: 0.0}).values()))
    rows: list[list[str | float]] = []
    for label, row in panel.items():
        if label == "original":
            rows.append([label, *[*row.values()] * len(counts), ""])
        else:
            rows.append([label, *(row.get(count, "no fit") for count in counts), f"{enough(row, original) or 'never'}"])
    fitted = {label.split()[0] for label in panel}
    return rows + [[name, *["no fit"] * len(counts), ""] for name in names if name not in fitted]
