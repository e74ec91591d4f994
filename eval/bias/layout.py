"""The parts of the bias report's page as HTML; whatever the text or the options say is escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from unicodedata import bidirectional

import numpy as np

from eval.bias.queries import HITS, Change, Example, Hit
from eval.report.html_page import html_table
from lsar_jax.measures.resampling import Interval

__all__ = [
    "SCORES",
    "STYLE",
    "by_language",
    "by_layer",
    "code_block",
    "farthest",
    "figures",
    "first_results",
    "marked",
    "number",
    "queries",
    "rounded",
    "score_tile",
    "verdict",
]

# What the scores in search are; that on the UDHR is mAP too.
SCORES = {
    "mAP": "mean average precision, 100 if all translations of a sentence come before all others",
    "accuracy of pairs": "% of sentences whose nearest sentence in the other language is the translation",
}

# What the page needs besides the style of all pages: that of its own parts, names of languages, copying.
STYLE = """<style>
.answer p { font-size: 1.2em; margin: .4em 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 1em; margin: 1.2em 0; }
.tile { flex: 1 1 16em; background: var(--box); border-radius: .5em; padding: .8em 1em; }
.tile p { margin: 0; color: var(--soft); }
.tile .big { font-size: 3em; line-height: 1.2; color: var(--ink); font-weight: 600; }
.to { color: var(--soft); }
.query { border-top: 1px solid var(--line); padding: .6em 0; }
.query h3 { font-size: 1.05em; margin: .3em 0; }
.query h4 { font-size: .9em; margin: .3em 0; color: var(--soft); }
.outcome { margin: 0; font-size: .9em; }
.more, .good, .right { color: var(--good); }
.fewer, .bad { color: var(--bad); }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20em, 100%), 1fr)); gap: 0 2em; }
.columns ol { margin: 0; padding-left: 1.4em; }
.columns li { margin: .2em 0; }
.right { font-weight: 600; white-space: nowrap; }
.code, .own { font-size: .8em; font-weight: 400; border: 1px solid var(--line); border-radius: .3em; padding: 0 .3em; }
.answer .code { font-size: 1em; border: 0; padding: 0; }
.own { background: var(--mark); white-space: nowrap; }
td small { display: block; white-space: nowrap; }
th .code { font-size: 1em; border: 0; padding: 0; }
.marked { background: var(--mark); }
.figures { display: grid; gap: 1em; }
@media (prefers-color-scheme: dark) { figure svg { filter: brightness(1.4); } }
@media (max-width: 40em) { td small { white-space: normal; } .copied pre { white-space: pre-wrap; } }
figure { margin: 0; }
figure svg { width: 100%; height: auto; }
figure svg text { font-family: inherit !important; }
figcaption { color: var(--soft); }
.copied { position: relative; }
.copied button { position: absolute; right: .5em; top: .5em; font: inherit; font-size: .85em; padding: .2em .7em; }
.copied pre { padding-top: 2.6em; }
.hidden { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
</style>
<script>
addEventListener("DOMContentLoaded", () => {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  for (const code of document.querySelectorAll("[data-code]")) {
    try { code.textContent = names.of(code.dataset.code); } catch { /* a group that is not a language */ }
  }
  for (const button of document.querySelectorAll(".copied button")) {
    button.addEventListener("click", async () => {
      const block = button.nextElementSibling;
      getSelection().selectAllChildren(block);  // for those whose browser refuses the next line
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    });
  }
});
</script>"""

# Characters of a sentence that are shown.
_LONGEST = 200

# What is said of queries by outcome.
_OUTCOMES = {
    "more": "found more translations", "fewer": "found fewer translations", "same": "found as many translations",
}  # fmt: skip
_OUTCOMES_UNMARKED = {"differ": "find other sentences with the map", "same": "find the same"}


def number(value: Interval | float) -> str:
    """A number, with its interval in small type."""
    if not isinstance(value, Interval):
        return f"{value + 0.0:.1f}"
    shown, low, high = (round(part, 1) + 0.0 for part in value)
    return f"{shown:.1f} <small>{low:.1f} to&nbsp;{high:.1f}</small>"


def score_tile(name: str, values: Sequence[str], note: str) -> str:
    """A number, or a number before and one after, large."""
    shown = ' <span class="to" role="img" aria-label="before, after">→</span> '.join(values)
    return f'<div class="tile"><b>{escape(name)}</b><p class="big">{shown}</p><p>{escape(note)}</p></div>'


def queries(counts: Mapping[str, int], examples: Sequence[Example], after: str, searched: str, right: bool) -> str:
    """Some queries with what they found before and after the transform ``after``, and how they were chosen.

    ``right`` says whether it is known what they should find.
    """
    total = sum(counts.values())
    outcomes = _OUTCOMES if right else _OUTCOMES_UNMARKED
    found = ", ".join(f"{counts[name]:,} {what}" for name, what in outcomes.items())
    drawn = {name: sum(example.outcome == name for example in examples) for name in outcomes}
    rule = " and ".join(f"{count} of those that {outcomes[name]}" for name, count in drawn.items() if count)
    without = "" if right else " Whether these are better, the text does not say."
    parts = [
        f"<p>{escape(searched)} Of {total:,} queries, {found}, by their {HITS} nearest sentences.{without} Drawn at "
        f"random: {rule}.</p>"
    ]
    for example in examples:
        lists = [("before", example.before)] + [(f"after {after}", example.after)] * (example.before != example.after)
        columns = "".join(_hits(name, hits, example.language) for name, hits in lists)
        outcome = f'<p class="outcome {example.outcome}">{outcomes[example.outcome]}</p>' if right else ""
        asked = _sentence(example.text, example.language)
        parts.append(
            f'<article class="query"><h3 dir="{_direction(example.text)}">{asked}</h3>{outcome}'
            f'<div class="columns">{columns}</div></article>'
        )
    return "\n".join(parts)


def first_results(first: Mapping[str, Change], moved: bool) -> str:
    """How often the first result is a translation, and how often it is in the query's language instead."""

    def shown(change: Change) -> str:
        return f"{number(change.before)}{f' before and {number(change.after)} after' * moved}"

    return (
        f"<p>Of 100 queries that have a translation to find, the nearest sentence is one for {shown(first['right'])}, "
        f"and another sentence in the query's language for {shown(first['own'])}, with 95% intervals.</p>"
    )


def _hits(name: str, hits: Sequence[Hit], language: str) -> str:
    items = []
    for hit in hits:
        mark = '<span class="right">✓ translation</span> ' if hit.right else ""
        own = "" if hit.language != language else ' <span class="own">own language</span>'
        sentence = _sentence(hit.text, hit.language)
        items.append(f'<li><div dir="{_direction(hit.text)}">{sentence} {mark}{own}</div></li>')
    return f"<section><h4>{escape(name)}</h4><ol>{''.join(items)}</ol></section>"


def _sentence(text: str, language: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()}…"
    return f'<span lang="{escape(language)}">{escape(shown)}</span> {code(language)}'


def _direction(text: str) -> str:
    """That of most letters; dir=auto would be that of the first, which may be of a foreign name."""
    of = [bidirectional(letter) for letter in text]
    return "rtl" if of.count("R") + of.count("AL") > of.count("L") else "ltr"


def code(language: str) -> str:
    """A code of a language, which the page replaces by its name where it knows it."""
    return f'<span class="code" data-code="{escape(language)}">{escape(language)}</span>'


def by_language(counts: Mapping[str, int], search: Mapping[str, Change], own: Mapping[str, Change]) -> str:
    """The table of languages, that with the lowest score after first."""
    first = {name: found.after.value for name, found in search.items()}
    first = first or {name: -found.after.value for name, found in own.items()}
    order = sorted(counts, key=lambda name: first.get(name, np.inf))
    columns = ["language", *(["search before", "after", "gain"] if search else []), "own before", "after", "sentences"]
    rows = []
    for name in order:
        cells = [code(name)]
        if name in search:
            before, after, gain = search[name]
            verdict = "good" if gain.low > 0 else "bad" if gain.high < 0 else "unclear"
            cells += [number(before), number(after), f'<span class="{verdict}">{number(gain)}</span>']
        elif search:
            cells += ["-"] * 3
        before, after, _ = own[name]
        rows.append([*cells, number(before), number(after), f"{counts[name]:,}"])
    order_of = "the lowest search after" if search else "the highest share after"
    return html_table(f"With 95% intervals over resampled queries; {order_of} first", columns, rows)


def verdict(search: Mapping[str, Change]) -> str:
    """Which languages gained and lost, by intervals that hold for all of them at once, in a sentence or two."""
    gained = [name for name, found in search.items() if found.gain.low > 0]
    lost = [name for name, found in search.items() if found.gain.high < 0]
    last, first = (of(search, key=lambda name: search[name].after.value) for of in (min, max))
    some = f"{len(gained)} of {len(search)} languages gained" if len(gained) < len(search) else "Every language gained"
    losses = f"; lost: {', '.join(map(code, lost))}" if lost else ", none lost" if len(gained) < len(search) else ""
    return (
        f"{some}{losses}, by 95% intervals that hold for all of them at once. {code(last)} is the lowest after, with "
        f"{search[last].after.value:.1f}, and {code(first)} the highest, with {search[first].after.value:.1f}."
    )


def farthest(own: Mapping[str, Change], fair: float) -> list[str]:
    """A sentence about the language that has most of its neighbours in itself before, if that is twice what is fair."""
    name = max(own, key=lambda name: own[name].before.value)
    before, after, _ = own[name]
    if before.low <= 2 * fair:
        return []
    changed = f" before, and {after.value:.0f}% after" * (after.value != before.value)
    return [
        f"{code(name)} is the farthest from the others: {before.value:.0f}% of the neighbours of its sentences are in "
        f"it{changed}."
    ]


def figures(drawn: Mapping[str, str], least: int = 20) -> str:
    """Pictures ``least`` em wide or wider, as many side by side as the screen has room for, with their names."""
    shown = (f"<figure>{svg}<figcaption>{escape(name)}</figcaption></figure>" for name, svg in drawn.items())
    columns = f"grid-template-columns: repeat(auto-fit, minmax(min({least}em, 100%), 1fr))"
    return f'<div class="figures" style="{columns}">{"".join(shown)}</div>'


def by_layer(drawn: Mapping[str, str]) -> str:
    """The pictures of the measures by layer."""
    said = "Of a method with ranks, the best is drawn. All numbers are in the table of every layer and method, below."
    return f"<h2>By layer</h2>\n<p>{said}</p>\n{figures(drawn)}"


def code_block(text: str) -> str:
    """Code that can be copied."""
    block = f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
    return f'<div class="copied"><button type="button">Copy</button>{block}</div>'


def rounded(*values: float) -> list[str]:
    """Numbers without decimals, or with one where they are near each other."""
    digits = 0 if max(values) - min(values) >= 10 else 1
    return [f"{value:.{digits}f}" for value in values]


def marked(line: str) -> str:
    """A line whose first words, up to the colon, stand out."""
    first, colon, others = escape(line).partition(": ")
    return f"<b>{first}:</b> {others}" if colon and len(first) < 25 else escape(line)
