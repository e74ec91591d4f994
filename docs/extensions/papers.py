"""Writes the tables of ``docs/reference/papers.md`` from the cards: ``python -m docs.extensions.papers``."""

import textwrap
from pathlib import Path

from eval.papers.card import PAPERS, Card, CardStep, Paper, command_line
from eval.papers.plan import CardOptions
from eval.papers.published import PUBLISHED, items_of
from eval.papers.sources import SOURCES

__all__ = ["papers_page"]

_ABOUT_DATA = """`repro` compares the copies that it reads with the checksums of those used here
(`eval/papers/sources.toml`), and writes both to `comparison.md`."""


def papers_page(page: str) -> str:
    """Replaces the sections of the page: the papers and the data; the text before the first stays."""
    return "\n".join([page.partition("\n## ")[0], *map(_section, PAPERS), _data()])


def _section(paper: Paper) -> str:
    about = textwrap.fill(paper.about, 120, break_long_words=False, break_on_hyphens=False)
    states = [card.state.partition(" because ")[0] for card in paper.cards]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("right", "by the code", "deviates", "missing"))
    lines = [f"## {paper.name}", "", about, "", f"| {counts} | Command | Published | Here | Verdict |\n|{' --- |' * 5}"]
    return "\n".join([*lines, *map(_row, paper.cards), *(["", paper.after] if paper.after else [])]) + "\n"


def _row(card: Card) -> str:
    shown = [step for step in card.steps if step.on_page and not step.makes and not step.task.startswith("train.")]
    commands = "; ".join(dict.fromkeys(map(_command, shown)))
    published = f"{card.shows}{_published(card)}"
    return f"| {card.items}, `{card.name}`: {card.state} | {commands} | {published} | {card.here} | {card.verdict} |"


def _command(step: CardStep) -> str:
    """The command for the bundled encoder, without what ``repro`` adds; RUNS and TEST stand for many files."""
    options = {name: CardOptions().filled(value, (step.layer,)) for name, value in step.options.items()}
    options |= {name: (name.upper(),) for name in ("runs", "test") if name in options}
    return f"`{' '.join(command_line(step.task, options))}`"


def _published(card: Card) -> str:
    """The numbers of ``card.published``, as the paper prints them."""
    if not card.published:
        return ""
    encoder, metric, *methods = card.published
    numbers = {
        number.method: f"{number.method.replace(' objective=', ': ')} {number.value:.{number.decimals}f}"
        for number in reversed(PUBLISHED)
        if (number.paper, number.encoder, number.metric) == (card.paper, encoder, metric)
        and {*items_of(card.items)} & {*items_of(number.table)}
    }
    return f"; {encoder}: {', '.join(numbers[method] for method in methods)}"


def _data() -> str:
    lines = ["## Data", "", _ABOUT_DATA, "", "| | where it lies | what it is |", "| --- | --- | --- |"]
    for source in SOURCES.values():
        at = f"; commit {source.revision}" if source.revision else ""
        lines.append(f"| {source.name} | {f'`{source.path}`' if source.path else ''} | {source.where}{at} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "reference" / "papers.md"
    path.write_text(papers_page(path.read_text("utf-8")), "utf-8")
