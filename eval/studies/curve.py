"""How many sentences per language does a transform need?

    python -m eval curve --data data/tatoeba --bitext data/bitext

Each method is fitted on the first 25, 100, 400 and all sentences per language of a shuffled bitext, English included,
and scored by its accuracy on Tatoeba, from English to each language that both datasets have. The fitting text therefore
differs in kind from the test text. Every sentence is encoded once. The last column of each table says how many
sentences are enough. More sentences are not always better: whitening gets worse when there are about as many sentences
as dimensions.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure

from eval.data.tatoeba import XTREME_36, read_pairs
from eval.fitted_task import FitLanguages
from eval.methods import ALL_METHODS, Method, MethodName
from eval.metrics import find_own
from eval.results import Result, write_results
from eval.score import Score
from eval.task import Embedded, Task, Texts
from lsar_jax import EncoderSpec
from lsar_jax.cli.console import console, print_table
from lsar_jax.corpora.parallel_text import read_bitext
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from train.curves import save_figure
from train.marks import line

__all__ = ["Curve", "curve_figure", "enough", "read_texts"]

# Method label -> sentences per language -> percentage.
Values = Mapping[str, Mapping[int, float]]

_NEAR = 0.5


@dataclass(frozen=True)
class _MethodOfCount(Method):
    """A method that was fitted on ``count`` sentences per language from one shuffle."""

    count: int = 0
    shuffle: int = 0


@dataclass(frozen=True)
class Curve(Task):
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

    name = "curve"

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

    # Layer -> method -> sentences per language -> one score per seed.
    _values: dict[int, dict[str, dict[int, list[float]]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def title(self) -> str:
        """The title of tables and the figure."""
        return f"Tatoeba, English to {len(self.pairs)} languages"

    @property
    def fitted_on(self) -> str:
        """The name, in results, of the fitting text; each result adds the number of sentences."""
        return "bitext"

    @cached_property
    def text(self) -> dict[str, list[str]]:
        """The sentences of each language to draw from."""
        if self.saved:
            raise ValueError(f"{self.name} fits its own transforms; omit --saved")
        for option in ("counts", "most", "queries", "seeds"):
            if np.min(getattr(self, option), initial=1) < 1:
                raise ValueError(f"--{option} is {getattr(self, option)}; it must be at least 1")
        text = read_texts(self.bitext, () if self.fit_languages == "all" else self.languages)
        if empty := [code for code, lines in text.items() if not lines]:
            raise ValueError(f"{self.bitext} has no sentences in {empty[0]}; choose other languages with --languages")
        return text

    @cached_property
    def pairs(self) -> dict[str, tuple[list[str], list[str]]]:
        """Tatoeba's pairs in the same languages."""
        tested = [language_code(code) for code in self.languages] or [code for code in self.text if code != "en"]
        if lacking := [code for code in tested if code not in self.text]:
            raise ValueError(f"{self.bitext} has no sentences in {', '.join(lacking)}; omit these languages")
        return read_pairs(self.data, tested)

    @property
    def all_counts(self) -> list[int]:
        """The numbers of sentences per language; the largest is what every language has, or ``most`` if less."""
        most = min(self.most, *map(len, self.text.values()))
        return sorted({count for count in self.counts if count < most} | {most})

    @cached_property
    def _drawn(self) -> dict[str, tuple[list[str], Int[np.ndarray, "seed count"]]]:
        """Language -> the distinct sentences of all shuffles, and the indices of each shuffle into them."""
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
            f"{len(self.pairs)} languages and English, at most {most} sentences each ({scarcest} has {fewest})"
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
                continue  # the original needs no fit: it is scored once
            fit = {code: x["fit", code][places[seed, :count]] for code, (_, places) in self._drawn.items()}
            try:
                fitted = self.fit(fit, spec, (name,))
            except ValueError as error:
                console.print(f"layer {spec.layer}: cannot fit {name} on {count} sentences per language: {error}")
                continue
            result += [_MethodOfCount(m.name, m.parameters, m.transform, count, seed) for m in fitted]
        return result

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields the accuracy from English, averaged over the languages."""
        assert isinstance(method, _MethodOfCount), "methods() returns only this type"
        found = [find_own(x["en", code], x["xx", code]) for code in self.pairs]
        value = 100 * float(np.mean([rows.mean() for rows in found]))
        score = Score(f"en-xx mean over {len(found)}", value, list(self.pairs), sum(map(len, found)))
        row = self._values.setdefault(spec.layer, {}).setdefault(method.label, {})
        row.setdefault(method.count, []).append(value)
        if method.transform is None:
            yield score
        else:
            yield replace(score, seed=method.shuffle, fitted_on=f"bitext {method.count}")

    def report(self, results: Sequence[Result]) -> None:
        """Prints a table per layer, draws the curves, and writes ``results.jsonl``."""
        panels: dict[str, dict[str, dict[int, float]]] = {}
        columns = ["sentences per language", *map(str, self.all_counts), "enough"]
        for layer, values in self._values.items():
            panel = {name: {count: float(np.mean(v)) for count, v in row.items()} for name, row in values.items()}
            panels[f"layer {layer}"] = panel
            rows = _table(panel, self.all_counts, self.transforms)
            print_table(f"{self.title}, layer {layer}, in percent", columns, rows)
        console.print(
            f"enough: smallest count with a score within {_NEAR} of the method's best and not below the original"
        )
        write_results(results, self.out / "results.jsonl")
        curve_figure(panels, f"{self.title} ({self.encoder})", self.out / "curve.png")
        console.print(f"wrote results and the figure to {self.out}")


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
