"""The page of all cards, ``docs/reference/papers.md``."""

import textwrap
from itertools import groupby

from eval.papers.card import PAPERS, Card, CardStep, Paper, command_line
from eval.papers.coverage import Item, coverage
from eval.papers.plan import CardOptions
from eval.papers.sources import SOURCES

__all__ = ["papers_page"]

_CHECKSUMS = """The checksum is that of the copy from which the numbers on this page are: what
`LC_ALL=C; cd data/tatoeba; sha256sum tatoeba.* | sha256sum` prints. `repro` prints those of the copies that it reads,
says whether they are the same, and writes them to `comparison.md`."""
_COVERAGE = """Of every table and figure: how many numbers `published.csv` has of it; what the nearest command gave
here, or why there is none; and which weights and data a run as in the paper needs that were not here. A user can get
these, as [encoders.md](encoders.md) and [Data](#data) say, but for mBERT En-En and X-X, which are modules of TensorFlow
Hub that this library does not read. The last column says why numbers stand beside none of ours, or beside ours without
a verdict. Numbers that only the text of a paper has are in `published.csv` alone."""


def papers_page(page: str) -> str:
    """Replaces the sections of the page: the papers, the coverage and the data; the text before the first stays."""
    return "\n".join([page.partition("\n## ")[0], *map(_section, PAPERS), _coverage(), _data()])


def _section(paper: Paper) -> str:
    about = textwrap.fill(paper.about, 120, break_long_words=False, break_on_hyphens=False)
    lines = [f"## {paper.name}", "", about, "", "| | What it shows | Command, and its data | Here |"]
    lines += ["| --- | --- | --- | --- |", *map(_row, paper.cards)]
    return "\n".join([*lines, *(["", paper.after] if paper.after else [])]) + "\n"


def _row(card: Card) -> str:
    commands = "; ".join(map(_command, card.steps))
    return f"| {card.items}, `{card.name}` | {card.shows} | {commands} | {card.here} |"


def _command(step: CardStep) -> str:
    """The command for the bundled encoder, without the options that ``repro`` adds, and its data and figures."""
    options = {name: CardOptions().filled(value, (step.layer,)) for name, value in step.options.items()}
    data = " and ".join(dict.fromkeys(SOURCES[key].name for key in step.data))
    figures = " and ".join(f"`{name}`" for name in step.figures)
    paper = f"(`{' '.join(command_line('', step.paper)[4:])}`)" if step.paper else ""
    command = f"`{' '.join(command_line(step.task, options))}`"
    return " ".join(filter(None, (command, paper, ", ".join(filter(None, (data, figures)))))) + step.note


def _coverage() -> str:
    lines = ["## Coverage", "", _COVERAGE, "", "| | Numbers | Here | Needs | Not compared, or not judged |"]
    lines.append("| --- | ---: | --- | --- | --- |")
    for cells, items in groupby(coverage(), _cells):
        first, *_, last = [item.name for item in items] * 2
        name = first if first == last else f"{first.replace(' ', 's ')} to {last.split()[1]}"
        lines.append(f"| {cells[0]}, {name} | {' | '.join(cells[1:])} |")
    return "\n".join(lines) + "\n"


def _cells(item: Item) -> tuple[str, ...]:
    lacking = dict.fromkeys(source.name for source in item.data if not source.checksum)
    needs = "; ".join(filter(None, (", ".join(item.weights), ", ".join(lacking))))
    why = "; ".join(f"{count}: {reason}" for reason, count in item.others.items())
    return item.paper, f"{len(item.numbers) or ''}", item.here, needs, why


def _data() -> str:
    lines = ["## Data", "", _CHECKSUMS, "", "| | where it lies | what it is | checksum |", "| --- | --- | --- | --- |"]
    for source in SOURCES.values():
        place = f"`{source.path}`" if source.path else ""
        at = f"; commit {source.revision}" if source.revision else ""
        checksum = f"`{source.checksum}`, of `{source.read}`" if source.checksum else ""
        lines.append(f"| {source.name} | {place} | {source.where}{at} | {checksum} |")
    return "\n".join(lines) + "\n"
