"""The bias report as lines and as one HTML page, with its figures inside."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eval.bias.choice import Choice
from eval.bias.measures import Candidate, measured_count, neighbours
from eval.bias.user_text import UserText
from eval.report.html_page import as_html, plain, table
from eval.report.page import provenance
from eval.results import Result
from lsar_jax import corpora

__all__ = ["Page"]

# Candidates that a line names.
_NAMED = 5

_COLUMNS = ("own language", "identified", "IsoScore", "cosine")


@dataclass(frozen=True)
class Page:
    """What the report says.

    Attributes:
      metric: name of the score in search; empty if nothing aligned could be searched.
      candidates: every layer and method; the same methods at each layer, ``original`` among them.
      choice: the choice among them; None without search.
      yardstick: languages of the UDHR that were searched in place of text that is not aligned.
      opening: arguments of ``load_encoder`` that open the encoder, but for the layer.
    """

    folder: Path
    text: UserText
    metric: str
    candidates: Sequence[Candidate]
    choice: Choice | None
    folds: int
    yardstick: Sequence[str]
    opening: str

    @property
    def best(self) -> Candidate | None:
        """The recommended layer and method; None without search."""
        return None if self.choice is None else self.candidates[self.choice.best]

    @property
    def shown(self) -> Candidate:
        """The candidate of the pictures: the recommended one, else the most neutral one at the last layer."""
        last = max(candidate.layer for candidate in self.candidates)
        at_last = [candidate for candidate in self.candidates if candidate.layer == last]
        return self.best or min(at_last, key=lambda candidate: candidate.neutrality.own)

    @cached_property
    def before(self) -> Candidate:
        """The original embeddings at the layer of the pictures."""
        return next(candidate for candidate in self._original if candidate.layer == self.shown.layer)

    @property
    def _original(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.method.name == "original"]

    @cached_property
    def shared(self) -> Candidate | None:
        """The best candidate whose transform does not need the language, if the recommended one does."""
        if self.best is None or not self.best.needs_language:
            return None
        without = [candidate for candidate in self.candidates if not candidate.needs_language]
        return max(without, key=lambda candidate: candidate.score)

    def table(self) -> tuple[str, list[str], list[list[str]]]:
        """The title, the columns and the rows: each method at its best layer, else at the last."""
        by_label: dict[str, list[Candidate]] = {}
        for candidate in self.candidates:
            by_label.setdefault(candidate.method.label, []).append(candidate)
        rows = []
        for label, layers in by_label.items():
            best = max(layers, key=lambda candidate: candidate.score if self.metric else candidate.layer)
            rows.append([label, f"{best.layer}", *self._values(best)])
        where = "at its best layer" if self.metric else "at the last layer"
        title = f"Language in {self.folder}: each method {where}, in percent"
        return title, ["method", "layer", self.metric or "search", *_COLUMNS], rows

    def _values(self, candidate: Candidate) -> list[str]:
        own, _, *others = candidate.neutrality
        return [f"{candidate.score:.1f}" if self.metric else "", *(f"{value:.1f}" for value in (own, *others))]

    def summary(self) -> list[str]:
        """What was found, a sentence or two a line."""
        before, nearest = self.before, neighbours(measured_count(self.text, self.folds))
        measured = before.neutrality
        lines = [
            f"The text: {self.text.count:,} sentences in {len(self.text.codes)} languages; {self.text.form}.",
            f"Bias: at layer {before.layer} without a transform, {measured.own:.1f}% of a sentence's "
            f"{nearest} nearest neighbours are in its own language, where {measured.expected:.1f}% would be "
            f"without preference; a linear classifier identifies the language of {measured.identified:.1f}% of "
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
        top = max(self._original, key=lambda candidate: candidate.score)
        gains = {other.label: self._gain(choice, other) for other in (before, top) if other.label != best.label}
        above = " and ".join(f"{gain} above {label}" for label, gain in gains.items())
        lines.append(
            f"Recommended: {best.label}. {self.metric} {choice.score}"
            + (f", which is {above}." if above else "; no transform is better than none.")
        )
        units, left_out = ("text", "sentences") if self.text.aligned else ("declaration", "paragraphs")
        lines.append(
            f"Certainty: the same layer and method is chosen in {100 * choice.again:.0f}% of 1,000 resamples of the "
            f"{units}; the choice of each resample scores {choice.elsewhere:.1f} on the {left_out} that were not drawn."
        )
        if near := [self.candidates[index].label for index in choice.as_good()]:
            more = f" and {len(near) - _NAMED} more" if len(near) > _NAMED else ""
            lines.append(f"Not significantly worse: {'; '.join(near[:_NAMED])}{more}.")
        if self.shared is not None:
            lines.append(
                f"{best.method.label} needs the language of each sentence. The best that does not is "
                f"{self.shared.label}, which is {self._gain(choice, self.shared)} below it."
            )
        if not self.text.aligned:
            lines.append(
                f"The text is not aligned: the transforms were fitted on all of it, and the search was in the 50 "
                f"paragraphs of the Universal Declaration of Human Rights in {len(self.yardstick)} of its languages, "
                "which is text of another kind. With pairs of your own the choice is surer."
            )
            paragraphs = corpora.udhr("all", self.yardstick)
            if known := sum(len({*self.text.sentences[code]} & {*paragraphs[code]}) for code in paragraphs):
                lines[-1] += f" Take care: {known} sentences of the text are paragraphs of the declaration."
        return lines

    def _gain(self, choice: Choice, candidate: Candidate) -> str:
        return str(choice.gains[self.candidates.index(candidate)])

    def html(self, layers: Path, space: Path, saved: Path, results: Sequence[Result]) -> str:
        """The page, with the figures of layers and of the space inside; ``saved`` is the recommended transform."""
        title, columns, rows = self.table()
        shown, counts = self.shown, {code: len(text) for code, text in self.text.sentences.items()}
        pool = measured_count(self.text, self.folds)
        data = (
            f"Neighbours in the own language at layer {shown.layer}: {self.before.neutrality.own:.1f}% before and "
            f"{shown.neutrality.own:.1f}% after {shown.method.label}."
        )
        parts = [
            f"# Language in {plain(str(self.folder))}",
            *map(_marked, self.summary()),
            f"## {plain(title.partition(': ')[2].capitalize())}",
            table(list(map(plain, columns)), [list(map(plain, row)) for row in rows]),
            f"<small>{plain(self.metric or 'Search')}: the score in search. Own language: the share of a sentence's "
            f"{neighbours(pool)} nearest neighbours that are in its language ({shown.neutrality.expected:.1f} without "
            "preference). Identified: sentences of which a linear classifier identifies the language "
            f"({100 * max(counts.values()) / self.text.count:.1f} by chance). IsoScore: 100 if all directions vary "
            "alike. Cosine: the mean cosine of two sentences, times 100. A sentence is measured among "
            f"{pool - 1:,} others.</small>",
            "## By layer",
            _picture(layers, f"Each measure against the layer, with a line for each method. {data}"),
            f"## The space before and after {plain(shown.label)}",
            _picture(space, f"t-SNE of sentences before and after {shown.label}, coloured by language. {data}"),
        ]
        if self.best is not None and self.best.method.transform is not None:
            parts += ["## Use it", f"```py\n{self._example(self.best, saved)}\n```"]
        parts += [
            "<details><summary>Every layer and method</summary>",
            table(
                ["layer and method", *map(plain, columns[2:])],
                [[plain(candidate.label), *self._values(candidate)] for candidate in self.candidates],
            ),
            "</details>",
            "<details><summary>Languages</summary>",
            table(["language", "sentences"], [[code, f"{count:,}"] for code, count in counts.items()]),
            "</details>",
        ]
        search = "" if self.text.aligned else " But the score in search is that of transforms fitted on all of it."
        how = (
            f"Each method was fitted on {self.folds - 1} of {self.folds} parts of the text and measured on the other; "
            f"the saved transform was fitted on all of it.{search}"
        )
        parts.append("\n".join(f"- {plain(line)}" for line in (how, *provenance(results[:1]))))
        return as_html(f"Language in {self.folder}", "\n\n".join(parts))

    def _example(self, best: Candidate, saved: Path) -> str:
        prompt = f".with_prompt({best.spec.prompt!r})" if best.spec.prompt else ""
        argument = f", language={self.text.codes[0]!r}" if best.needs_language else ""
        return (
            "import lsar_jax as lj\n\n"
            f"encoder = lj.load_encoder({self.opening}, layer={best.layer}){prompt}\n"
            f"encoder = encoder.with_transform(lj.Transform.load({str(saved)!r}))\n"
            f'sentences = ["..."]  # yours\n'
            f"vectors = encoder.encode(sentences, normalize=True{argument})  # ready for an index of inner products"
        )


def _marked(line: str) -> str:
    """A line whose first words, up to the colon, stand out."""
    first, colon, others = plain(line).partition(": ")
    return f"**{first}:** {others}" if colon and len(first) < 25 else plain(line)


def _picture(path: Path, text: str) -> str:
    return f"![{plain(text)}](data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()})"
