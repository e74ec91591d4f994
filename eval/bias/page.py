"""What the bias report says, as lines and as one HTML page with its figures inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import NamedTuple

from eval.bias import layout
from eval.bias.choice import Choice
from eval.bias.measures import Candidate, measured_count, neighbours
from eval.bias.queries import Change, Example
from eval.report.html_page import document, html_table
from eval.report.page import provenance
from lsar_jax import corpora
from lsar_jax.measures.resampling import Interval, interval
from lsar_jax.measures.results import Result
from lsar_jax.options.user_text import UserText
from lsar_jax.transforms.methods import METHODS

__all__ = ["Page", "Parts"]

# Candidates that a line names.
_NAMED = 5

_IN_SAMPLE = " Here the map is the saved one, fitted on these sentences too; the scores are held out."

_COLUMNS = ("own language", "identified", "IsoScore", "cosine")


class Parts(NamedTuple):
    """What the page shows of the layer of the pictures besides measures.

    Attributes:
      layers, space: figures as SVG by name.
      search, own: language -> the score in search, and the share of neighbours in the language, before and after.
      outcomes, examples: the number of queries by outcome, and some of them.
      first: queries whose first result is a translation, or another sentence in their language; empty if not aligned.
    """

    layers: Mapping[str, str]
    space: Mapping[str, str]
    search: Mapping[str, Change]
    own: Mapping[str, Change]
    outcomes: Mapping[str, int]
    examples: Sequence[Example]
    first: Mapping[str, Change]


@dataclass(frozen=True)
class Page:
    """What the report says.

    Attributes:
      metric: name of the score in search; empty if nothing aligned could be searched.
      candidates: every layer and method; the same methods at each layer, ``original`` among them.
      choice: the choice among them; None without search.
      yardstick: languages of the UDHR that were searched in place of text that is not aligned.
      opening: arguments of ``load_encoder`` that open the encoder, but for the layer; empty for vectors.
      max_length: the tokens of a sentence that were encoded.
    """

    folder: Path
    text: UserText
    metric: str
    candidates: Sequence[Candidate]
    choice: Choice | None
    folds: int
    yardstick: Sequence[str]
    opening: str
    max_length: int

    @property
    def _title(self) -> str:
        return f"Language in {self.folder.resolve().name}"

    @property
    def best(self) -> Candidate | None:
        """The recommended layer and method; None without search."""
        return None if self.choice is None else self.candidates[self.choice.best]

    @property
    def _moves(self) -> bool:
        """Whether a map is recommended."""
        return self.best is not None and self.best.method.transform is not None

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
    def _at(self) -> str:
        """Where the pictures are from; vectors have no layer."""
        return f" at layer {self.shown.layer}" if self.opening else ""

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

    @cached_property
    def _best_of_each(self) -> list[Candidate]:
        """Each method at its best layer, without search at the last; the recommended one at its own."""
        by_label: dict[str, Candidate] = {}
        for candidate in self.candidates:
            known = by_label.setdefault(candidate.method.label, candidate)
            if candidate is self.best or (known is not self.best and self._rank(candidate) > self._rank(known)):
                by_label[candidate.method.label] = candidate
        return list(by_label.values())

    def _score(self, candidate: Candidate) -> Interval | None:
        """The score in search and its interval; None without search."""
        if candidate is self.best and self.choice is not None:
            return self.choice.score
        return None if candidate.search is None else Interval(candidate.score, *interval(candidate.search))

    def _rank(self, candidate: Candidate) -> float:
        return candidate.score if self.metric else candidate.layer

    @property
    def _each(self) -> str:
        """What the rows of the table are."""
        where = " at its best layer" if self.metric else " at the last layer"
        return f"each method{where * bool(self.opening)}"

    @property
    def _columns(self) -> list[str]:
        return ["method", *["layer"] * bool(self.opening), self.metric or "search", *_COLUMNS]

    def table(self) -> tuple[str, list[str], list[list[str]]]:
        """The title, the columns and the rows: each method at its best layer, else at the last."""
        rows = []
        for candidate in self._best_of_each:
            own, _, *others = candidate.neutrality
            values = [f"{value:.1f}" for value in (own, *others)]
            rows.append([*self._first_cells(candidate), str(self._score(candidate) or ""), *values])
        return f"{self._title}: {self._each}, in percent", self._columns, rows

    def _first_cells(self, candidate: Candidate) -> list[str]:
        """The method and the layer; vectors have no layer."""
        return [candidate.method.label, *[f"{candidate.layer}"] * bool(self.opening)]

    def answer(self) -> list[str]:
        """What was found and what to do, for readers who know none of the measures."""
        measured, nearest = self.before.neutrality, neighbours(measured_count(self.text, self.folds))
        prefers = measured.own > measured.expected + 1
        found = (
            f"{measured.own:.0f}% of a sentence's {nearest} nearest neighbours are in its own language, where "
            f"{measured.expected:.0f}% would be fair"
        )
        lines = [f"Your search {'prefers' if prefers else 'does not prefer'} the query's language: {found}."]
        hidden = self.text.aligned and not prefers
        if hidden:
            lines = [
                f"Over all languages, {found}. Translations take the places of others here, so that this does not show "
                "whether search prefers the query's language."
            ]
        best, before = self.best, self.before
        if best is None or self.choice is None:
            last = " at the last layer" * bool(self.opening)
            return [
                *lines,
                "What makes search better cannot be said, as nothing shows which sentences mean the same. Shown below "
                f"is {self.shown.method.label}, with which the fewest neighbours{last} are in the query's own "
                "language; search need not be better with it.",
            ]
        if best.method.transform is None:
            return [
                *lines,
                f"No map makes search surely better{self._at}: use it as it is ({best.score:.1f} of 100).",
            ]
        removes = best.neutrality.own < measured.own - 1
        what = "Removing the language from the vectors" if removes else f"The map {best.method.label}"
        first, second = layout.rounded(before.score, best.score)
        sure = "" if self.choice.gains[self.candidates.index(before)].low > 0 else ", which may be chance"
        lines.append(f"{what}{self._at} raises search from {first} to {second} of 100{sure}.")
        if not self.text.aligned:
            lines[-1] += (
                " This search is in the Universal Declaration of Human Rights, as your text does not say which "
                "sentences mean the same."
            )
        if (top := max(self._original, key=lambda candidate: candidate.score)) is not before:
            lines[-1] += (
                f" Without a map, layer {top.layer} is best, with {top.score:.{len(second.partition('.')[2])}f}."
            )
        kind = "A map for each language, which needs the language of each sentence,"
        kind = (
            kind
            if best.needs_language
            else "One map for all languages, which does not need to know the language of a sentence,"
        )
        lines.append(f"{kind} is saved beside this page: {best.method.label}.")
        if best.method.name in METHODS:
            summary = METHODS[best.method.name].summary
            lines[-1] += f" It {summary[0].lower()}{summary[1:]}"
        if near := len(self.choice.as_good()):
            others = "another choice is" if near == 1 else f"{near} other choices are"
            lines[-1] += f" The same is chosen in {100 * self.choice.again:.0f}% of resamples"
            lines[-1] += f"; {others} not significantly worse."
        return [*lines[1:], lines[0]] if hidden else lines  # what was found first

    def summary(self) -> list[str]:
        """What was found, a sentence or two a line."""
        before, nearest = self.before, neighbours(measured_count(self.text, self.folds))
        measured = before.neutrality
        lines = [
            f"The text: {self.text.count:,} sentences in {len(self.text.codes)} languages; {self.text.form}.",
            f"Bias:{self._at} without a transform, {measured.own:.1f}% of a sentence's "
            f"{nearest} nearest neighbours are in its own language, where {measured.expected:.1f}% would be "
            f"without preference; a linear classifier identifies the language of {measured.identified:.1f}% of "
            "the sentences.",
        ]
        if self.choice is None or self.best is None:
            why = "the declaration that comes with the library has fewer than two of its languages"
            why = why if self.opening else "without an encoder there are no vectors of the declaration"
            advice = (
                "Add pairs of translations, such as en-de.tsv," if self.opening else "Give lines that are translations"
            )
            return [
                *lines,
                f"No recommendation: the text is not aligned, and {why}. {advice} to have "
                f"{'layers and ' * bool(self.opening)}methods compared.",
            ]
        choice, best = self.choice, self.best
        top = max(self._original, key=lambda candidate: candidate.score)
        gains = {other.label: self._gain(choice, other) for other in (before, top) if other.label != best.label}
        above = " and ".join(f"{gain} above {label}" for label, gain in gains.items())
        lines.append(
            f"Recommended: {best.label}. {self.metric} {choice.score}"
            + (f", which is {above}." if above else "; no transform is surely better than none.")
        )
        units, left_out = ("text", "sentences") if self.text.aligned else ("declaration", "paragraphs")
        lines.append(
            f"Certainty: the same {'layer and ' * bool(self.opening)}method is chosen in {100 * choice.again:.0f}% of "
            f"1,000 resamples of the {units}; the one that each resample chooses scores {choice.elsewhere:.1f} "
            f"on the {left_out} that were not drawn."
        )
        if near := [self.candidates[index].label for index in choice.as_good()]:
            more = f" and {len(near) - _NAMED} more" if len(near) > _NAMED else ""
            lines.append(
                f"Not significantly worse, by differences on the same queries: {'; '.join(near[:_NAMED])}{more}."
            )
        if choice.top != choice.best:
            top = self.candidates[choice.top]
            lines.append(
                f"The highest score is {top.score:.1f}, of {top.label}, which needs the language of each sentence; "
                "it is not significantly better."
            )
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
        lines.append(
            "Mining: not measured on this text. On other files a transform changed it less than the threshold does, by "
            "1.1 points of F1 at most on three noisy pairs of files, and by 1.3 to 2.9 in BUCC's form, each with its "
            "best threshold: choose it by lsar-jax mine --known, or --threshold estimate."
        )
        return lines

    def _gain(self, choice: Choice, candidate: Candidate) -> str:
        return str(choice.gains[self.candidates.index(candidate)])

    def html(self, parts: Parts, saved: Path, results: Sequence[Result]) -> str:
        """The page; ``saved`` is the recommended transform."""
        best, shown, counts = self.best, self.shown, {code: len(of) for code, of in self.text.sentences.items()}
        form = self.text.form if self.text.aligned else "which of them mean the same is not known"
        answer = list(map(escape, self.answer()))
        if parts.search and self._moves:
            answer.append(layout.verdict(parts.search))
        answer += layout.farthest(parts.own, self.before.neutrality.expected)
        sections = [
            layout.STYLE,
            f"<h1>{escape(self._title)}</h1>",
            f"<p>{self.text.count:,} sentences in {len(counts)} languages; {escape(form)}. {escape(self._made_by)}</p>",
            f'<div class="answer">{"".join(f"<p>{line}</p>" for line in answer)}</div>',
            self._tiles(parts.search),
            '<p><a href="#use">How to use it</a></p>' if self._moves else "",
            f"<h2>{len(parts.examples)} queries, before and after</h2>",
            layout.queries(parts.outcomes, parts.examples, shown.method.label, self._searched, self.text.aligned),
            layout.first_results(parts.first, self._moves) if parts.first else "",
            "<h2>Results by language</h2>",
            layout.by_language(counts, parts.search, parts.own),
            f"<p><small>{escape(self._of_languages)}</small></p>",
        ]
        if best is not None and best.method.transform is not None:
            sections += ['<h2 id="use">Use it</h2>', layout.code_block(self._example(best, saved)), self._next(best)]
        marked, columns = f"{best.method.label} (recommended)" if best else "", [*map(escape, self._columns)]
        rows = [self._row(one, self._score(one), " (recommended)" * (one is best)) for one in self._best_of_each]
        sections += [
            f"<h2>{self._each.capitalize()}</h2>",
            html_table("Search with 95% intervals" if self.metric else "Without search", columns, rows, escape(marked)),
            f"<p><small>{escape(self._definitions())}</small></p>",
            *(f"<p>{layout.marked(line)}</p>" for line in self.summary()[1:]),
            layout.by_layer(parts.layers) if parts.layers else "",
            f"<h2>The space{escape(self._at)} before and after {escape(shown.method.label)}</h2>",
            "<p>Each point is a sentence of the text; near each other are those with similar vectors (t-SNE)."
            f"{' By meaning, up to ten sentences and their translations are coloured.' * self.text.aligned}"
            f"{_IN_SAMPLE * (shown.method.transform is not None)}</p>",
            layout.figures(parts.space, least=24),
            "<h2>Fine print</h2>",
            f"<ul>{''.join(f'<li><small>{escape(line)}</small></li>' for line in self._methods())}</ul>",
            *(self._every(columns) if len(self._original) > 1 else ()),
        ]
        how = (
            f"Each method was fitted on {self.folds - 1} of {self.folds} parts of the text and measured on the other; "
            "the saved transform was fitted on all of it."
        )
        if self.metric and not self.text.aligned:
            how += " The search in the declaration is with transforms that were fitted on all of the text."
        lines = "".join(f"<li>{escape(line)}</li>" for line in (how, *provenance(results[:1])))
        return document(self._title, "\n".join([*sections, f"<ul>{lines}</ul>"]))

    def _every(self, columns: Sequence[str]) -> list[str]:
        """The table of every layer and method, to be unfolded."""
        rows = [self._row(one, one.score if self.metric else None) for one in self.candidates]
        return [
            "<details><summary>Every layer and method</summary>",
            html_table("Columns as above", columns, rows),
            "</details>",
        ]

    def _row(self, candidate: Candidate, score: Interval | float | None, mark: str = "") -> list[str]:
        own, _, *others = candidate.neutrality
        name, *layer = map(escape, self._first_cells(candidate))
        cells = ["-" if score is None else layout.number(score), *map(layout.number, (own, *others))]
        return [name + mark, *layer, *cells]

    @property
    def _made_by(self) -> str:
        """What made the vectors, whose maps fit no others."""
        spec = self.shown.spec
        if not self.opening:
            return f"Vectors: {spec.id}; a map fits only the model that made them."
        name = "multilingual-e5-small with 4-bit weights" if spec.id == "bundled" else spec.id
        return f"Encoder: {name}, {spec.pooling} pooling, {spec.dtype}; a map fits only this encoder and layer."

    def _tiles(self, search: Mapping[str, Change]) -> str:
        """The numbers before and after, large."""
        pair = (self.before, self.shown) if self.shown.method.transform is not None else (self.before,)
        own = layout.rounded(*(candidate.neutrality.own for candidate in pair))
        fair = f"{self.before.neutrality.expected:.1f} would be fair"
        fair += "; translations that are found take the places of others" * self.text.aligned
        tiles = [layout.score_tile("% of neighbours in the query's own language", own, fair)]
        if search and self.text.aligned:
            # Where translations take the places of neighbours, their language says little.
            low = [min(search, key=lambda code: getattr(search[code], when).value) for when in ("before", "after")]
            low = low if len(pair) > 1 else low[:1]
            values = (getattr(search[code], when).value for code, when in zip(low, ("before", "after"), strict=False))
            tiles = [layout.score_tile("Search in the lowest language", layout.rounded(*values), ", then ".join(low))]
        spans = [span for span in map(self._score, pair) if span is not None]
        if spans:
            intervals = " and ".join(f"{span.low:.1f} to {span.high:.1f}" for span in spans)
            where = "" if self.text.aligned else "in the Universal Declaration of Human Rights (UDHR); "
            note = f"{where}{self._of_score}; 95% intervals {intervals}"
            if self.text.aligned:
                note += (
                    f"; among {measured_count(self.text, self.folds) - 1:,} others, so expect less in a larger index"
                )
            top = max(self._original, key=lambda candidate: candidate.score)
            if self._moves and self.choice is not None and top is not self.before:
                note += f"; {self._gain(self.choice, top)} above layer {top.layer}, the best without a map"
            tiles.insert(
                0,
                layout.score_tile(f"Search{self._at}", layout.rounded(*(span.value for span in spans)), note),
            )
        return f'<div class="tiles">{"".join(tiles)}</div>'

    @property
    def _searched(self) -> str:
        pool = measured_count(self.text, self.folds)
        return (
            f"Each sentence is a query in turn, and searches about {pool - 1:,} others, of all languages. The map was "
            "fitted on the rest of the text."
        )

    @property
    def _of_languages(self) -> str:
        which = self.metric if self.text.aligned else "mAP of the declaration's paragraphs in the language"
        search = f"Search: {which}{' with English, both ways' if self.text.pairs else ''}. " if self.metric else ""
        own = "Own: % of the neighbours of its sentences that are in the same language. "
        gains = "The intervals of gains hold for all languages at once: where one contains 0, the gain may be chance."
        return f"{search}{own}{gains if self.metric else ''}"

    @property
    def _of_score(self) -> str:
        return layout.SCORES[self.metric.removesuffix(" on the UDHR")]

    def _methods(self) -> list[str]:
        names = dict.fromkeys(candidate.method.name for candidate in self.candidates)
        summaries = {"original": "The vectors as they are."} | {name: of.summary for name, of in METHODS.items()}
        return [f"{name}: {summaries[name]}" for name in names if name in summaries]

    def _definitions(self) -> str:
        counts = list(map(len, self.text.sentences.values()))
        pool = measured_count(self.text, self.folds)
        lines = [
            f"{self.metric}: {self._of_score}." if self.metric else "",
            f"Own language: the share of a sentence's {neighbours(pool)} nearest neighbours that are in its language "
            f"({self.shown.neutrality.expected:.1f} without preference).",
            "Identified: sentences of which a linear classifier identifies the language "
            f"({100 * max(counts) / self.text.count:.1f} by chance).",
            "IsoScore: 100 if all directions vary alike. Cosine: the mean cosine of two sentences, times 100. All "
            "others are percentages.",
            f"A sentence is measured among {pool - 1:,} others.",
        ]
        if self.text.aligned:
            lines.insert(
                2,
                "The translations of a sentence are among the others and, where search is good, take places among its "
                "neighbours, so this share is lower than in text without translations, and can be below that without "
                "preference.",
            )
        return " ".join(lines)

    def _next(self, best: Candidate) -> str:
        """What else is to be done, as HTML."""
        what = "all documents and all queries"
        what = f"Encode {what} again" if self.opening else f"Map the vectors of {what}"
        cosines = " to ".join(f"{round(one.neutrality.cosine / 100, 2) + 0.0:.2f}" for one in (self.before, best))
        lines = [
            f"{what}: vectors with and without the map do not go together. Choose thresholds of cosines again: the "
            f"mean cosine of two sentences goes from {cosines}."
        ]
        if not self.text.aligned:
            code = escape(next((code for code in self.text.codes if code != "en"), "de"))
            lines.append(
                "Pairs of your own make the choice surer: <code>python -m eval bias --texts pairs/</code>, where "
                f"<code>pairs/en-{code}.tsv</code> has lines of English, a tab and a translation."
            )
        if best.method.name in METHODS:
            lines.append(_of_moments(best))
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"

    def _example(self, best: Candidate, saved: Path) -> str:
        if not self.opening:  # vectors of a model that is not known
            argument = f", {self.text.codes[0]!r}" if best.needs_language else ""
            return (
                "import numpy as np\n\nimport lsar_jax as lj\n\n"
                f"transform = lj.Transform.load({str(saved)!r})\n"
                f'vectors = transform(np.load("vectors.npy"){argument})  # yours, a row for each sentence'
            )
        prompt = f".with_prompt({best.spec.prompt!r})" if best.spec.prompt else ""
        argument = f", language={self.text.codes[0]!r}" if best.needs_language else ""
        model = "  # multilingual-e5-small with 4-bit weights" * self.opening.startswith("'bundled'")
        return (
            "import lsar_jax as lj\n\n"
            f"encoder = lj.load_encoder({self.opening}, layer={best.layer}){prompt}{model}\n"
            f"encoder = encoder.with_transform(lj.Transform.load({str(saved)!r}))\n"
            f'sentences = ["..."]  # yours\n'
            f"# Cut at {self.max_length} tokens, as measured, and ready for an index of inner products.\n"
            f"vectors = encoder.encode(sentences, max_length={self.max_length}, normalize=True{argument})"
        )


def _of_moments(best: Candidate) -> str:
    """What the saved moments are good for with the recommended method, as HTML."""
    name, method = best.method.name, METHODS[best.method.name]
    if method.needs == "embeddings":
        return f"{name} cannot be fitted again from <code>moments.safetensors</code>: it needs the embeddings."
    ways = ["with more languages (<code>--data</code>)"]
    if method.varied:
        ways.append(f"with other <code>--{method.varied}</code>")
    if best.needs_language:
        ways.append("with an identifier of the language (<code>--identifier</code>)")
    command = f"lsar-jax fit {name} NEW.safetensors --moments moments.safetensors"
    return (
        f"<code>{command}</code> fits it again from the file beside this page, {' or '.join(ways)}; this text is not "
        "encoded again."
    )
