"""The bias report as lines and as one HTML page, with its figures inside."""

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Template

from eval.bias.candidate import Candidate
from eval.bias.choice import Choice
from eval.bias.measures import MEASURED, neighbours
from eval.bias.own_text import OwnText
from eval.report.page import provenance
from eval.results import Result

__all__ = ["MARK", "Page"]

# Tells a page of this program from others.
MARK = "<h1>Language in "
# Candidates that a line names.
_NAMED = 5

_COLUMNS = ("method", "layer", "{metric}", "own language", "identified", "IsoScore", "cosine")
_MEANING = (
    "{metric}: the score in search. Own language: the share of a sentence's {neighbours} nearest neighbours that are "
    "in its language ({expected:.1f} without preference). Identified: sentences of which a linear classifier "
    "identifies the language ({chance:.1f} by chance). IsoScore: 100 if all directions vary alike. Cosine: the "
    "mean cosine of two sentences, times 100. A sentence is measured among {pool:,} others."
)


@dataclass(frozen=True)
class Page:
    """What the report says.

    Attributes:
      folder: folder of the text.
      text: the text.
      metric: name of the score in search; empty if nothing aligned could be searched.
      candidates: every layer and method; the same methods at each layer, ``original`` among them.
      choice: the choice among them; None without search.
      folds: number of folds.
      yardstick: languages of the UDHR that were searched in place of text that is not aligned.
      known: number of sentences of the text that are paragraphs of the UDHR.
      opening: arguments of ``load_encoder`` that open the encoder, but for the layer.
    """

    folder: Path
    text: OwnText
    metric: str
    candidates: Sequence[Candidate]
    choice: Choice | None
    folds: int
    yardstick: Sequence[str]
    known: int
    opening: str

    @property
    def _pool(self) -> int:
        """The number of held-out sentences that are measured together in a fold, nearly."""
        counts = [
            min(len(text) // self.folds, max(MEASURED // len(self.text.codes), 10))
            for text in self.text.sentences.values()
        ]
        return sum(counts)

    @property
    def best(self) -> Candidate | None:
        """The recommended layer and method; None without search."""
        return None if self.choice is None else self.candidates[self.choice.best]

    @property
    def shown(self) -> Candidate:
        """The candidate of the pictures: the recommended one, else the most neutral one at the last layer."""
        highest = max(one.spec.layer for one in self.candidates)
        last = [one for one in self.candidates if one.spec.layer == highest]
        return self.best or min(last, key=lambda one: one.neutrality.own)

    @cached_property
    def shared(self) -> Candidate | None:
        """The best candidate whose transform does not need the language, if the recommended one does."""
        if self.best is None or not self.best.needs_language:
            return None
        return max((one for one in self.candidates if not one.needs_language), key=lambda one: one.score)

    def table(self) -> tuple[str, list[str], list[list[str | float]]]:
        """Returns the title, the columns and the rows: each method at its best layer, else at the last."""
        columns = [column.format(metric=self.metric or "search") for column in _COLUMNS]
        rows: list[list[str | float]] = []
        for label in dict.fromkeys(one.method.label for one in self.candidates):
            several = [one for one in self.candidates if one.method.label == label]
            best = max(several, key=lambda one: one.score if self.metric else one.spec.layer)
            measured = best.neutrality
            score = f"{best.score:.1f}" if self.metric else ""
            values = [measured.own, measured.identified, measured.isoscore, measured.cosine]
            rows.append([label, f"{best.spec.layer}", score, *values])
        where = "at its best layer" if self.metric else "at the last layer"
        return f"Language in {self.folder}: each method {where}, in percent", columns, rows

    def summary(self) -> list[str]:
        """Returns what was found, a sentence or two a line."""
        count = sum(map(len, self.text.sentences.values()))
        plain = [one for one in self.candidates if one.method.name == "original"]
        before = next(one for one in plain if one.spec.layer == self.shown.spec.layer)
        own = before.neutrality
        lines = [
            f"The text: {count:,} sentences in {len(self.text.codes)} languages; {self.text.form}.",
            f"Bias: at layer {before.spec.layer} without a transform, {own.own:.1f}% of a sentence's "
            f"{neighbours(self._pool)} nearest neighbours are in its own language, where {own.expected:.1f}% would be "
            f"without preference; a linear classifier identifies the language of {own.identified:.1f}% of "
            "the sentences.",
        ]
        if self.choice is None or self.best is None:
            return [
                *lines,
                "No recommendation: the text is not aligned, and the declaration that comes with the library has fewer "
                "than two of its languages. Add pairs of translations, such as en-de.tsv, to have layers and methods "
                "compared.",
            ]
        choice, best = self.choice, self.best
        top = max(plain, key=lambda one: one.score)
        gains = {one.label: choice.gains[self.candidates.index(one)] for one in (before, top)}
        told = " and ".join(f"{gain} above {label}" for label, gain in gains.items() if label != best.label)
        lines.append(
            f"Recommended: {best.label}. {self.metric} {choice.score}"
            + (f", which is {told}." if told else "; no transform is better than none.")
        )
        units, rest = ("text", "sentences") if self.text.aligned else ("declaration", "paragraphs")
        lines.append(
            f"Certainty: the same layer and method is chosen in {100 * choice.again:.0f}% of 1,000 resamples of the "
            f"{units}; the choice of each resample scores {choice.elsewhere:.1f} on the {rest} that were not drawn."
        )
        if near := [self.candidates[index].label for index in choice.as_good()]:
            rest = f" and {len(near) - _NAMED} more" if len(near) > _NAMED else ""
            lines.append(f"Not significantly worse: {'; '.join(near[:_NAMED])}{rest}.")
        if self.shared is not None:
            gain = choice.gains[self.candidates.index(self.shared)]
            lines.append(
                f"{best.method.label} needs the language of each sentence. The best that does not is "
                f"{self.shared.label}, which is {gain} below it."
            )
        if not self.text.aligned:
            lines.append(
                f"The text is not aligned: the transforms were fitted on all of it, and the search was in the 50 "
                f"paragraphs of the Universal Declaration of Human Rights in {len(self.yardstick)} of its languages, "
                "which is text of another kind. With pairs of your own the choice is surer."
                + (
                    f" Take care: {self.known} sentences of the text are paragraphs of the declaration."
                    if self.known
                    else ""
                )
            )
        return lines

    def html(self, layers: Path, space: Path, saved: Path, results: Sequence[Result]) -> str:
        """Returns the page, with the figures inside.

        Args:
          layers: the figure of measures by layer.
          space: the figure of the space before and after.
          saved: where the recommended transform is, if there is one.
          results: the results, for the versions and devices.
        """
        title, columns, rows = self.table()
        counts = [len(text) for text in self.text.sentences.values()]
        meaning = _MEANING.format(
            metric=self.metric or "Search",
            expected=self.shown.neutrality.expected,
            chance=100 * max(counts) / sum(counts),
            neighbours=neighbours(self._pool),
            pool=self._pool - 1,
        )
        parts = [f"<p>{_led(line)}</p>" for line in self.summary()]
        parts += [
            f"<h2>{html.escape(title.partition(': ')[2].capitalize())}</h2>",
            _table(columns, rows),
            f"<p><small>{html.escape(meaning)}</small></p>",
        ]
        parts += [
            "<h2>By layer</h2>",
            _image(layers, f"Each measure against the layer, with a line for each method. {self._led}"),
        ]
        told = f"before and after {self.shown.label}"
        parts += [
            f"<h2>The space {html.escape(told)}</h2>",
            _image(space, f"t-SNE of sentences {told}, coloured by language. {self._led}"),
        ]
        if self.best is not None and self.best.method.transform is not None:
            parts += ["<h2>Use it</h2>", f"<pre>{html.escape(self._example(saved))}</pre>"]
        by_layer: list[list[str | float]] = [
            [one.label, f"{one.score:.1f}" if self.metric else "", *one.neutrality[:1], *one.neutrality[2:]]
            for one in self.candidates
        ]
        parts += [
            "<details><summary>Every layer and method</summary>",
            _table(["layer and method", *columns[2:]], by_layer),
            "</details>",
        ]
        languages: list[list[str | float]] = [[code, f"{len(text):,}"] for code, text in self.text.sentences.items()]
        parts += ["<details><summary>Languages</summary>", _table(["language", "sentences"], languages), "</details>"]
        search = "" if self.text.aligned else " But the score in search is that of transforms fitted on all of it."
        how = [
            f"Each method was fitted on {self.folds - 1} of {self.folds} parts of the text and measured on the other; "
            f"the saved transform was fitted on all of it.{search}",
            *provenance(results[:1]),
        ]
        parts.append(f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in how)}</ul>")
        return _PAGE.substitute(title=html.escape(str(self.folder)), mark=MARK, body="\n".join(parts))

    @property
    def _led(self) -> str:
        """What the pictures show, in a sentence."""
        shown = self.shown
        before = next(
            one for one in self.candidates if one.method.name == "original" and one.spec.layer == shown.spec.layer
        )
        return (
            f"Neighbours in the own language at layer {shown.spec.layer}: {before.neutrality.own:.1f}% before and "
            f"{shown.neutrality.own:.1f}% after {shown.method.label}."
        )

    def _example(self, saved: Path) -> str:
        assert self.best is not None, "there is a recommended candidate"
        argument = f", language={self.text.codes[0]!r}" if self.best.needs_language else ""
        return (
            "import lsar_jax as lj\n\n"
            f"encoder = lj.load_encoder({self.opening}, layer={self.best.spec.layer})\n"
            f"encoder = encoder.with_transform(lj.Transform.load({str(saved)!r}))\n"
            f'sentences = ["..."]  # yours\n'
            f"vectors = encoder.encode(sentences, normalize=True{argument})  # ready for an index of inner products"
        )


def _led(line: str) -> str:
    """Returns a line whose first words, up to the colon, stand out."""
    first, colon, rest = html.escape(line).partition(": ")
    return f"<b>{first}:</b> {rest}" if colon and len(first) < 25 else first + colon + rest


def _table(columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    heads = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    cells = [[html.escape(cell) if isinstance(cell, str) else f"{cell:.1f}" for cell in row] for row in rows]
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    return f'<div class="wide"><table><tr>{heads}</tr>{body}</table></div>'


def _image(path: Path, alt: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img src="data:image/png;base64,{data}" alt="{html.escape(alt, quote=True)}"></p>'


_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Language in $title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; }
body { color: #1a1a1a; background: #fff; overflow-wrap: anywhere; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; background: #fff; } small { color: #555; }
pre { background: #f3f3f3; padding: 1em; overflow-x: auto; }
</style></head><body>
<main>
$mark$title</h1>
$body
</main></body></html>
""")
