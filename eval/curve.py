"""How many sentences of each language does a transform need?

    python -m eval curve --data data/tatoeba --bitext data/bitext

Each method is fitted on 25, 100, 400 and all of each language's translations of program messages, the
first so many of one shuffle, and on as many English messages; it is scored by Tatoeba's accuracy, English
to each language that both data sets have. So the text fitted on is of another kind than the text
tested. Every sentence is encoded once. The last column of each table is the advice; a fit on
more may be worse, as a whitening is whose sentences are about as many as the dimensions.
"""

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from eval.figures import save
from eval.methods import Method, MethodName
from eval.metrics import accuracy
from eval.named import Data
from eval.parallel_text import read_bitext
from eval.results import Result, console, print_table, write_results
from eval.task import Task
from eval.tatoeba import XTREME_36, read_pairs
from lsar_jax import EncoderSpec
from lsar_jax.retrieval import nearest

__all__ = ["Curve", "curve_figure", "enough", "read_texts"]

Embedded = Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]]
# Method label -> sentences of each language -> percent.
Values = Mapping[str, Mapping[int, float]]

_NEAR = 0.5


@dataclass(frozen=True)
class Curve(Task):
    """Tatoeba's accuracy against the number of sentences that transforms are fitted on.

    Attributes:
      data: the folder of tatoeba.xxx-eng.xxx files.
      bitext: the folder of en-xx.tsv files.
      languages: codes; by default all that both have.
      counts: sentences of each language to fit on; all that the smallest language has come on top.
      most: sentences of each language at most.
      queries: pairs of each language at most, of Tatoeba's first.
      seeds: shuffles; the tables have their mean.
    """

    name = "curve"

    transforms: tuple[MethodName, ...] = (
        "original", "center", "lir", "lsar", "mean+lsar", "whitening", "language-whitening", "cbie", "leace",
        "outliers",
    )  # fmt: skip
    max_length: int = 64
    out: Path = Path("results/curve")
    data: Data = Path("data/tatoeba")
    bitext: Path = Path("data/bitext")
    languages: tuple[str, ...] = ()
    counts: tuple[int, ...] = (25, 100, 400)
    most: int = 1000
    queries: int = 500
    seeds: int = 1

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on; a result says how many sentences, too."""
        return "bitext"

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints tables, writes ``results.jsonl`` and a figure."""
        if self.saved:
            raise ValueError(f"--saved is not for {self.name}, which fits its own")
        for option in ("counts", "most", "queries", "seeds"):
            if np.min(getattr(self, option), initial=1) < 1:
                raise ValueError(f"--{option} {getattr(self, option)}: at least 1 is needed")
        text = read_texts(self.bitext, self.languages)
        pairs = read_pairs(self.data, [code for code in text if code != "en"])
        fewest, scarcest = min((len(lines), code) for code, lines in text.items())
        most = min(self.most, fewest)
        if not most:
            raise ValueError(f"{self.bitext} has no sentence of {scarcest}")
        counts = sorted({count for count in self.counts if count < most} | {most})
        console.print(f"{len(pairs)} languages and English, at most {most} sentences of each ({scarcest} has {fewest})")
        drawn: dict[tuple[str, str], Sequence[str]] = {}
        places = {}
        for code, lines in text.items():
            shuffles = [np.random.default_rng([seed, zlib.crc32(code.encode())]) for seed in range(self.seeds)]
            orders = np.stack([shuffle.permutation(len(lines))[:most] for shuffle in shuffles])
            rows, inverse = np.unique(orders, return_inverse=True)
            drawn["fit", code] = [lines[row] for row in rows]
            places[code] = inverse.reshape(orders.shape)
        for code, sides in pairs.items():
            drawn |= {(side, code): lines[: self.queries] for side, lines in zip(("en", "xx"), sides, strict=True)}
        encoder = self.prepare(len(text))
        embeddings = self.encode(encoder, drawn)

        results: list[Result] = []
        title = f"Tatoeba, English to {len(pairs)} languages"
        panels: dict[str, dict[str, dict[int, float]]] = {}
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            x = {key: value[index] for key, value in embeddings.items()}
            values: dict[str, dict[int, list[float]]] = {}  # a score a seed
            for name, count, seed in product(self.transforms, counts, range(self.seeds)):
                if name == "original" and (count, seed) != (most, 0):
                    continue  # it is fitted on nothing
                fit = {code: x["fit", code][rows[seed, :count]] for code, rows in places.items()}
                try:
                    methods = self.fit(fit, spec, (name,))
                except ValueError as error:
                    console.print(f"layer {layer}, no fit of {name} on {count} sentences a language: {error}")
                    continue
                for method in methods:
                    results.append(self._scored(method, x, list(pairs), spec, count, seed))
                    values.setdefault(method.label, {}).setdefault(count, []).append(results[-1].value)
            panel = {label: {count: float(np.mean(v)) for count, v in row.items()} for label, row in values.items()}
            panels[f"layer {layer}"] = panel
            columns = ["sentences a language", *map(str, counts), "enough"]
            print_table(f"{title}, layer {layer}, percent", columns, _table(panel, counts, self.transforms))
        console.print(f"enough: the least count at most {_NEAR} below the method's best, and not below the original")
        write_results(results, self.out / "results.jsonl")
        curve_figure(panels, f"{title} ({self.encoder})", self.out / "curve.png")
        console.print(f"wrote results and the figure to {self.out}")
        return results

    def _scored(
        self, method: Method, x: Embedded, codes: list[str], spec: EncoderSpec, count: int, seed: int
    ) -> Result:
        """Returns the accuracy from English, mean over the languages."""
        started = time.perf_counter()
        found = [nearest(method(x["en", code], "en"), method(x["xx", code], code))[1] for code in codes]
        value = float(np.mean([accuracy(np.asarray(rows)[:, 0], np.arange(len(rows))) for rows in found]))
        queries, seconds = sum(map(len, found)), time.perf_counter() - started
        result = self.result(spec, method, codes, f"en-xx mean over {len(codes)}", value, queries, seconds)
        return replace(result, fitted_on=f"bitext {count}", seed=seed) if method.transform else result


def enough(scores: Mapping[int, float], original: float) -> int | None:
    """Returns the least count whose score is at most 0.5 below the method's best, and above the original's.

    None if no count is.
    """
    least = max(max(scores.values()) - _NEAR, original)
    return min((count for count, score in scores.items() if score >= least), default=None)


def read_texts(folder: Path, languages: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Reads the sentences of each language and, last, all different English ones.

    The files are ``en-xx.tsv``: domain, English, xx with tabs between; by default of Tatoeba's languages.

    Raises:
      FileNotFoundError: no file of a language.
      ValueError: a line that has not three fields.
    """
    pairs = read_bitext(folder, languages, "--bitext", XTREME_36)
    text = {code: [other for _, other in several] for code, several in pairs.items()}
    english = dict.fromkeys(source for several in pairs.values() for source, _ in several)
    return text | {"en": list(english)}


def curve_figure(panels: Mapping[str, Values], title: str, path: Path) -> None:
    """Draws a line a method over the sentences of each language, the original dashed; a panel a layer."""
    figure = Figure(figsize=(4.6 * len(panels) + 1.8, 4.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for panel in panels.values() for label in panel))
    counts = sorted({count for panel in panels.values() for row in panel.values() for count in row})
    for axis, (name, panel) in zip(axes, panels.items(), strict=True):
        for label, row in panel.items():
            colour = matplotlib.color_sequences["tab10"][labels.index(label) % 10]
            if label == "original":
                axis.axhline(*row.values(), color="k", ls="--", label=label)
            else:
                axis.plot(sorted(row), [row[count] for count in sorted(row)], "o-", ms=4, color=colour, label=label)
        axis.set(xscale="log", xlabel="sentences of each language", title=name)
        axis.set_xticks(counts, counts)
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy, %")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False, fontsize=8)
    figure.suptitle(title)
    save(figure, path)


def _table(panel: Values, counts: Sequence[int], names: Sequence[str]) -> list[list[str | float]]:
    """Returns a row a method, also for those that were never fitted."""
    original = next(iter(panel.get("original", {0: 0.0}).values()))
    rows: list[list[str | float]] = []
    for label, row in panel.items():
        if label == "original":
            rows.append([label, *[*row.values()] * len(counts), ""])
        else:
            rows.append([label, *(row.get(count, "no fit") for count in counts), f"{enough(row, original) or 'never'}"])
    fitted = {label.split()[0] for label in panel}
    return rows + [[name, *["no fit"] * len(counts), ""] for name in names if name not in fitted]
