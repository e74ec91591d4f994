"""The page of all cards, ``docs/reference/papers.md``."""

import textwrap
from collections.abc import Iterator

from eval.papers.card import PAPERS, Card, Paper, Step, command_line
from eval.papers.plan import filled
from eval.papers.sources import SOURCES

__all__ = ["papers_page"]

_TOP = """# Every table and figure of the papers

For each table and figure with results, this page names the command that runs its protocol, the data that it needs, and
what it gave here. What was run was run with the bundled encoder, `multilingual-e5-small` with 4-bit weights; add
`--encoder` and `--layers` for an encoder of the papers ([encoders.md](encoders.md) lists their layers). The papers' own
encoders and OSCAR were not available here, so no published number was reproduced. `eval report` shows the published
numbers beside ours where the quantity is the same, and `eval/papers/published.csv` holds them.

Each row is a card, whose name is in its first column:

```sh
python -m eval repro                                        # every card, and what it lacks here
python -m eval repro xie-table-1 --encoder mbert --dry-run  # the commands, and everything that is missing
python -m eval repro xie-table-1 --encoder mbert            # run them, and compare with the paper
python -m eval repro xie-table-1 --fit-on udhr              # the bundled encoder, fitted on the UDHR
```

`repro` adds the encoder, its layers in the paper, and the options in brackets, which the paper has and the numbers of
the last column do not. If anything is missing, it says what, where to get it and where to put it, and runs nothing.
Results go to `results/repro/NAME/ENCODER`, with `comparison.md`: each published value for this encoder, ours, the
difference, and whether it is *equal* as printed, *within* a tolerance or *outside* of it. The tolerance adds half of
the last printed digit, our 95% interval over queries and, if there are several, the spread over seeds;
`eval/papers/comparison.py` gives the reasons. A local copy of an encoder of the paper is named with `--as`, as in
`--encoder models/mbert --as mbert`. `--steps 1` runs the first command alone.

The texts of the tables were not available while this page was written. What a table shows is known from its paper's
text and released code; *probably* marks a number that is inferred from the order of the tables. Of these, Xie et al.'s
Tables 4 to 7 and Ki et al.'s Table 10 are uncertain even so.

Data: *Tatoeba*, *XQuAD-R*, *MLQA-R*, *STS17*, *BUCC* and *Amazon* are described in [evaluation.md](evaluation.md),
*pairs* is parallel text such as `data/bitext`, and *text* is a folder with one text file for each language. *UDHR*
comes with the library. [Where the data is](#data) lists the folders. Values are in percent unless noted otherwise; two
values are for layers 8 and 12.

`python -m eval repro --page docs/reference/papers.md` writes this page from the cards in `eval/papers/cards`.
"""

_CHECKSUMS = """The checksum is that of the copy from which the numbers on this page are: what
`LC_ALL=C; cd data/tatoeba; sha256sum tatoeba.* | sha256sum` prints. `repro` prints those of the copies that it reads,
says whether they are the same, and writes them to `comparison.md`."""


def papers_page() -> str:
    """Returns the page as Markdown."""
    parts = [_TOP, *(_section(paper) for paper in PAPERS), _data()]
    return "\n".join(parts)


def _section(paper: Paper) -> str:
    about = textwrap.fill(paper.about, 120, break_long_words=False, break_on_hyphens=False)
    lines = [f"## {paper.name}", "", about, "", "| | What it shows | Command, and its data | Here |"]
    lines += ["| --- | --- | --- | --- |", *map(_row, paper.cards)]
    return "\n".join([*lines, *(["", paper.after] if paper.after else [])]) + "\n"


def _row(card: Card) -> str:
    sure = "" if card.certainty == "certain" else f" ({card.certainty})"
    commands = "; ".join(map(_command, card.steps))
    return f"| {card.items}{sure}, `{card.name}` | {card.shows} | {commands} | {card.here} |"


def _command(step: Step) -> str:
    names = " and ".join(dict.fromkeys(SOURCES[key].name for key in step.data))
    figures = " and ".join(f"`{name}`" for name in step.figures)
    paper = f"(`{' '.join(command_line('', step.paper)[4:])}`)" if step.paper else ""
    told = ", ".join(part for part in (names, figures) if part)
    return " ".join(part for part in (f"`{_shown(step)}`", paper, told) if part) + step.note


def _shown(step: Step) -> str:
    """Returns the command for the bundled encoder, without what ``repro`` adds."""
    options = {name: filled(value, "results", "bundled", (step.layer,)) for name, value in step.options.items()}
    return " ".join(command_line(step.task, options))


def _data() -> str:
    lines = ["## Data", "", _CHECKSUMS, "", "| | where it lies | what it is | checksum |"]
    lines += ["| --- | --- | --- | --- |", *_places()]
    return "\n".join(lines) + "\n"


def _places() -> Iterator[str]:
    for source in SOURCES.values():
        place = f"`{source.path}`" if source.path else ""
        at = f"; commit {source.revision}" if source.revision else ""
        checksum = f"`{source.checksum}`, of `{source.read}`" if source.checksum else ""
        yield f"| {source.name} | {place} | {source.where}{at} | {checksum} |"
