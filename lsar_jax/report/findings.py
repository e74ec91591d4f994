"""The findings of a report in words, each fact once: the answer, and after it the details."""

from lsar_jax import corpora
from lsar_jax.report.method_comparison import Comparison
from lsar_jax.transforms.methods import METHODS

__all__ = ["answer", "caption", "details", "prefers_language"]

# Measured layers and methods that a line names.
_NAMED = 5

_MINING = (
    "Mining: not measured on this text. On other files a transform changed it less than the threshold does, by 1.1 "
    "points of F1 at most on three noisy pairs of files, and by 1.3 to 2.9 in BUCC's form, each with its best "
    "threshold: choose it by lsar-jax mine --known."
)


def caption(found: Comparison) -> str:
    """The size and form of the text."""
    return f"{found.text.count:,} sentences in {len(found.text.codes)} languages; {found.text.form}."


def prefers_language(found: Comparison) -> bool:
    """Whether search without a map prefers the query's language by more than a percent."""
    return found.before.own > found.before.expected + 1


def answer(found: Comparison) -> list[str]:
    """Returns what was found and what to do, for readers who know none of the measures."""
    return [_bias(found), *_recommended(found)]


def details(found: Comparison) -> list[str]:
    """Returns how sure that is, and what else was found."""
    lines = [f"A linear classifier identifies the language of {found.before.space.identified:.1f}% of the sentences."]
    if found.recommendation is None:
        return lines
    return [*lines, *_certainty(found), *_alternatives(found), *_reference(found), _MINING]


def _bias(found: Comparison) -> str:
    before = found.before
    where = f" at layer {before.layer}" if before.spec.pooling else ""  # vectors have none
    near = (
        f"{before.own:.1f}% of a sentence's {found.folds.neighbours} nearest neighbours are in its own language"
        f"{where} without a map, where {before.expected:.1f}% would be fair"
    )
    if found.text.aligned and not prefers_language(found):
        return (
            f"Over all languages, {near}. Translations take the places of others here, so that this does not show "
            "whether search prefers the query's language."
        )
    return f"Your search {'prefers' if prefers_language(found) else 'does not prefer'} the query's language: {near}."


def _recommended(found: Comparison) -> list[str]:
    best, choice = found.best, found.recommendation
    if best is None or choice is None:
        return [_no_recommendation(found)]
    if not best.moves:
        return [
            f"Recommended: {best.label}, as it is: no map makes search surely better. {found.metric} {choice.score}."
        ]
    gain, other = found.gain_over(found.before), max(found.originals, key=lambda entry: entry.score)
    chance = "" if gain.low > 0 else ", which may be chance"
    above = "" if other is found.before else f", and is {found.gain_over(other)} above {other.label}"
    kind = "one map for all languages, which does not need to know the language of a sentence"
    kind = "a map for each language, which needs the language of each sentence" if best.needs_language else kind
    summary = METHODS[best.method.name].summary if best.method.name in METHODS else ""
    summary = f" It {summary[0].lower()}{summary[1:]}" if summary else ""
    return [
        f"Recommended: {best.label}. It raises search ({found.metric}) from {found.before.score:.1f} to {choice.score} "
        f"of 100, by {gain}{chance}{above}.",
        f"It is {kind}.{summary}",
    ]


def _no_recommendation(found: Comparison) -> str:
    encoded = bool(found.shown.spec.pooling)
    why = "the declaration that comes with the library has fewer than two of its languages"
    why = why if encoded else "without an encoder there are no vectors of the declaration"
    advice = "Add pairs of translations, such as en-de.tsv," if encoded else "Give lines that are translations"
    return (
        f"No recommendation: the text is not aligned, and {why}. {advice} to have {'layers and ' * encoded}methods "
        f"compared. Shown is {found.shown.method.label}, with which the fewest neighbours"
        f"{' at the last layer' * encoded} are in the query's own language; search need not be better with it."
    )


def _certainty(found: Comparison) -> list[str]:
    choice = found.recommendation
    assert choice is not None
    units, left_out = ("text", "sentences") if found.text.aligned else ("declaration", "paragraphs")
    what = f"{'layer and ' * bool(found.shown.spec.pooling)}method"
    lines = [
        f"Certainty: the same {what} is chosen in {100 * choice.again:.0f}% of 1,000 resamples of the {units}; the "
        f"choice of each resample scores {choice.elsewhere:.1f} on the {left_out} that were not drawn."
    ]
    if near := [found.measured[index].label for index in choice.as_good()]:
        more = f" and {len(near) - _NAMED} more" if len(near) > _NAMED else ""
        lines.append(f"Not significantly worse: {'; '.join(near[:_NAMED])}{more}.")
    return lines


def _alternatives(found: Comparison) -> list[str]:
    """The highest score, if it needs the language; and the best that does not, if the recommended one does."""
    choice, lines = found.recommendation, []
    assert choice is not None
    if choice.top != choice.best:
        top = found.measured[choice.top]
        lines.append(
            f"The highest score is {top.score:.1f}, of {top.label}, which needs the language of each sentence; it is "
            "not significantly better."
        )
    if found.measured[choice.best].needs_language:
        other = max((entry for entry in found.measured if not entry.needs_language), key=lambda entry: entry.score)
        lines.append(f"The best that needs no language is {other.label}, {found.gain_over(other)} below.")
    return lines


def _reference(found: Comparison) -> list[str]:
    if found.text.aligned:
        return []
    line = (
        "The text is not aligned: the transforms were fitted on all of it, and the search was in the 50 paragraphs of "
        f"the Universal Declaration of Human Rights in {len(found.reference)} of its languages, which is text of "
        "another kind. With pairs of your own the choice is surer."
    )
    paragraphs = corpora.udhr("all", found.reference)
    if known := sum(len({*found.text.sentences[code]} & {*paragraphs[code]}) for code in paragraphs):
        line += f" Take care: {known} sentences of the text are paragraphs of the declaration."
    return [line]
