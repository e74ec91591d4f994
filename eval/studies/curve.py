"""How many sentences of each language does a transform need?

    python -m eval curve --data data/tatoeba --bitext data/bitext

Each method is fitted on 25, 100, 400 and all of each language's translations of program messages, the
first so many of one shuffle, and on as many English messages; it is scored by Tatoeba's accuracy, English
to each language that both data sets have. So the text fitted on is of another kind than the text
tested. Every sentence is encoded once. The last column of each table is the advice; a fit on
more may be worse, as a whitening is whose sentences are about as many as the dimensions.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure

from eval.data.tatoeba import XTREME_36, read_pairs
from eval.methods import Method, MethodName
from eval.metrics import accuracy
from eval.results import Result, write_results
from eval.task import Embedded, Score, Task, Texts
from lsar_jax import EncoderSpec
from lsar_jax.corpora.parallel_text import read_bitext
from lsar_jax.corpora.tables import Data
from lsar_jax.retrieval import nearest
from train.console import console, print_table
from train.curves import save_figure

__all__ = ["Curve", "curve_figure", "enough", "read_texts"]

# Method label -> sentences of each language -> percent.
Values = Mapping[str, Mapping[int, float]]

_NEAR = 0.5


@dataclass(frozen=True)
class _MethodOfCount(Method):
    """A method that was fitted on so many sentences of each language, of one shuffle."""

    count: int = 0
    shuffle: int = 0


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

    # Layer, method, sentences of each language: a score a seed.
    _values: dict[int, dict[str, dict[int, list[float]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def title(self) -> str:
        """What tables and the figure are called."""
        return f"Tatoeba, English to {len(self.pairs)} languages"

    @property
    def fitted_on(self) -> str:
        """The text that transforms are fitted on; a result says how many sentences, too."""
        return "bitext"

    @cached_property
    def text(self) -> dict[str, list[str]]:
        """The sentences of each language to draw from."""
        if self.saved:
            raise ValueError(f"--saved is not for {self.name}, which fits its own")
        for option in ("counts", "most", "queries", "seeds"):
            if np.min(getattr(self, option), initial=1) < 1:
                raise ValueError(f"--{option} {getattr(self, option)}: at least 1 is needed")
        text = read_texts(self.bitext, self.languages)
        if empty := [code for code, lines in text.items() if not lines]:
            raise ValueError(f"{self.bitext} has no sentence of {empty[0]}")
        return text

    @cached_property
    def pairs(self) -> dict[str, tuple[list[str], list[str]]]:
        """Tatoeba's pairs of the same languages."""
        return read_pairs(self.data, [code for code in self.text if code != "en"])

    @property
    def all_counts(self) -> list[int]:
        """The numbers of sentences of each language; the greatest is all that there are."""
        most = min(self.most, *map(len, self.text.values()))
        return sorted({count for count in self.counts if count < most} | {most})

    @cached_property
    def _drawn(self) -> dict[str, tuple[list[str], Int[np.ndarray, "seed count"]]]:
        """Of each language the sentences of all shuffles, and the place of each shuffle's among them."""
        result = {}
        for code, lines in self.text.items():
            shuffles = [np.random.default_rng([seed, zlib.crc32(code.encode())]) for seed in range(self.seeds)]
            orders = np.stack([shuffle.permutation(len(lines))[: self.all_counts[-1]] for shuffle in shuffles])
            rows, inverse = np.unique(orders, return_inverse=True)
            result[code] = [lines[row] for row in rows], inverse.reshape(orders.shape)
        return result

    def fit_texts(self) -> dict[str, list[str]]:
        """Returns the sentences of all shuffles."""
        fewest, scarcest = min((len(lines), code) for code, lines in self.text.items())
        most = self.all_counts[-1]
        console.print(
            f"{len(self.pairs)} languages and English, at most {most} sentences of each ({scarcest} has {fewest})"
        )
        return {code: sentences for code, (sentences, _) in self._drawn.items()}

    def texts(self) -> Texts:
        """Returns both sides of the first pairs of each language."""
        return {
            (side, code): lines[: self.queries]
            for code, sides in self.pairs.items()
            for side, lines in zip(("en", "xx"), sides, strict=True)
        }

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on every number of sentences of every shuffle."""
        result: list[Method] = []
        most = self.all_counts[-1]
        for name, count, seed in product(self.transforms, self.all_counts, range(self.seeds)):
            if name == "original" and (count, seed) != (most, 0):
                continue  # it is fitted on nothing
            fit = {code: x["fit", code][places[seed, :count]] for code, (_, places) in self._drawn.items()}
            try:
                fitted = self.fit(fit, spec, (name,))
            except ValueError as error:
                console.print(f"layer {spec.layer}, no fit of {name} on {count} sentences a language: {error}")
                continue
            result += [_MethodOfCount(m.name, m.parameters, m.transform, count, seed) for m in fitted]
        return result

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields the accuracy from English, mean over the languages."""
        assert isinstance(method, _MethodOfCount), "methods makes no other"
        found = [np.asarray(nearest(x["en", code], x["xx", code])[1])[:, 0] for code in self.pairs]
        value = float(np.mean([accuracy(rows, np.arange(len(rows))) for rows in found]))
        score = Score(f"en-xx mean over {len(found)}", value, list(self.pairs), sum(map(len, found)))
        row = self._values.setdefault(spec.layer, {}).setdefault(method.label, {})
        row.setdefault(method.count, []).append(value)
        if method.transform is None:
            yield score
        else:
            yield replace(score, seed=method.shuffle, fitted_on=f"bitext {method.count}")

    def report(self, results: Sequence[Result]) -> None:
        """Prints a table a layer, draws the curves, and writes ``results.jsonl``."""
        panels: dict[str, dict[str, dict[int, float]]] = {}
        columns = ["sentences a language", *map(str, self.all_counts), "enough"]
        for layer, values in self._values.items():
            panel = {name: {count: float(np.mean(v)) for count, v in row.items()} for name, row in values.items()}
            panels[f"layer {layer}"] = panel
            rows = _table(panel, self.all_counts, self.transforms)
            print_table(f"{self.title}, layer {layer}, percent", columns, rows)
        console.print(f"enough: the least count at most {_NEAR} below the method's best, and not below the original")
        write_results(results, self.out / "results.jsonl")
        curve_figure(panels, f"{self.title} ({self.encoder})", self.out / "curve.png")
        console.print(f"wrote results and the figure to {self.out}")


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
    save_figure(figure, path)


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
