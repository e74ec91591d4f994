"""Reproduces a table or figure of a paper: checks that everything is here, runs its commands, compares the results.

    python -m eval repro                                        # every card, and what it lacks here
    python -m eval repro xie-table-1 --encoder mbert --dry-run  # the commands, and everything that is missing
    python -m eval repro xie-table-1 --encoder mbert            # run them, and compare with the paper

``cards/xie.toml`` and its neighbours hold the cards; ``comparison.py`` says what is compared and how far a value may be
off. Commands of ``train`` resume where they stopped; commands of ``eval`` whose results are there, from the same
options, are not run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from eval.papers.card import CARDS, Card, find, paper_of
from eval.papers.comparison import Measured, Row, cells, compare, decimals_of, grouped, write_rows
from eval.papers.missing import Missing, missing
from eval.papers.page import papers_page
from eval.papers.plan import Choice, Planned, plan
from eval.papers.published import PUBLISHED, Published
from eval.papers.sources import SOURCES, checksum_of
from eval.results import read_results
from lsar_jax.cli.console import console, print_table
from lsar_jax.files import write_text

__all__ = ["Repro"]


@dataclass(frozen=True)
class Repro:
    """Reproduces a table or figure of a paper.

    Attributes:
      name: the card, such as xie-table-1; without a name, all are listed.
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: commit, tag or branch of a Hub id.
      named: the paper's encoder that a folder is a copy of, such as mbert.
      layers: layers to measure; by default, those of the paper for this encoder.
      fit_on: text to fit transforms on; by default, that of the paper.
      max_length: maximum number of tokens per sentence; by default, that of the paper.
      steps: numbers of the commands to run, from 1; by default, all.
      data: folder that contains tatoeba, xquad-r and so on.
      out: folder for the results, with a subfolder for each card and encoder.
      overwrite: replace results that are from other options.
      dry_run: print the commands and what is missing, and run nothing.
      list: list the cards.
      page: write the page of all cards to this file.
    """

    name: Annotated[str, tyro.conf.Positional] = ""
    encoder: str = "bundled"
    revision: str | None = None
    named: Annotated[str, tyro.conf.arg(name="as")] = ""
    layers: tuple[int, ...] = ()
    fit_on: str = ""
    max_length: int | None = None
    steps: tuple[int, ...] = ()
    data: Path = Path("data")
    out: Path = Path("results/repro")
    overwrite: bool = False
    dry_run: bool = False
    list: bool = False
    page: Path | None = None

    def run(self) -> None:
        """Lists the cards, writes their page, or runs the commands of one.

        Raises:
          FileNotFoundError: something that the commands need is missing; the error lists everything.
          ValueError: there is no such card, or a command failed.
        """
        choice = Choice(**{one.name: getattr(self, one.name) for one in fields(Choice)})
        if self.page is not None:
            write_text(self.page, papers_page())
            console.print(f"wrote {self.page}")
        elif self.list or not self.name:
            _print_cards(choice)
        else:
            self._reproduce(find(self.name), choice)

    def _reproduce(self, card: Card, choice: Choice) -> None:
        planned = plan(card, choice)
        lacking = missing(card, planned, choice, download=not self.dry_run)
        if lacking and not self.dry_run:
            raise FileNotFoundError(_told(card, choice, lacking))
        _print_plan(card, planned, choice)
        copies = _copies(planned, choice)
        for name, told in copies.items():
            console.print(f"{name}: {told}", markup=False, soft_wrap=True)
        if self.dry_run:
            told = _told(card, choice, lacking) if lacking else "Everything that it needs is here."
            console.print(told, markup=False)
            _print_expected(card, planned)
            return
        for one in planned:
            _run(card, one)
        _report(card, planned, choice, copies)


def _print_cards(choice: Choice) -> None:
    table = Table("name", "shows", "lacks", title=f"Cards, and what they lack here with the encoder {choice.name}")
    table.title_justify = "left"
    for card in CARDS.values():
        lacking = dict.fromkeys(one.what for one in missing(card, plan(card, _of_all(choice)), choice))
        shows = f"{card.items}{_sure(card)}: {card.shows}"
        table.add_row(card.name, shows, "\n".join(lacking) or "nothing", end_section=True)
    console.print(table)
    console.print("python -m eval repro NAME --encoder ENCODER --dry-run says where to get what is lacking.")


def _sure(card: Card) -> str:
    return "" if card.certainty == "certain" else f" ({card.certainty})"


def _of_all(choice: Choice) -> Choice:
    """Returns the choice without what belongs to one card."""
    return Choice(encoder=choice.encoder, revision=choice.revision, data=choice.data, out=choice.out)


def _print_plan(card: Card, planned: Sequence[Planned], choice: Choice) -> None:
    console.print(f"{card.name}: {paper_of(card).name}, {card.items}. {card.shows}.")
    for one in planned:
        done = f"  (not run again: {one.done})" if one.done else ""
        console.print(f"{one.number}. {one.line}{done}", markup=False)
    console.print(f"Results go to {choice.folder(card)}.")


def _copies(planned: Sequence[Planned], choice: Choice) -> dict[str, str]:
    """Returns folder -> the checksum of the data in it, and whether it is the copy of the page's numbers."""
    found = {}
    for source in dict.fromkeys(SOURCES[key] for one in planned for key in one.step.data):
        folder = source.folder(choice.data)
        if source.path and (checksum := checksum_of(folder, source.read)):
            known = ", the copy that the page's numbers are from" if checksum == source.checksum else ""
            other = f", not the copy that the page's numbers are from ({source.checksum})" if source.checksum else ""
            found[str(folder)] = f"sha256 {checksum}{known or other}"
    for text in dict.fromkeys(one.options["fit_on"] for one in planned if "fit_on" in one.options):
        if checksum := checksum_of(Path(text), "*.txt"):
            found[text] = f"sha256 {checksum}"
    return found


def _told(card: Card, choice: Choice, lacking: Sequence[Missing]) -> str:
    several = len(card.steps) > 1
    lines = [
        f"- {one.told}" + (f" (command {' and '.join(map(str, one.steps))})" if several and one.steps else "")
        for one in lacking
    ]
    what = "one thing is" if len(lacking) == 1 else f"{len(lacking)} things are"
    hint = (
        "\nWith --steps, the other commands can be run alone."
        if several and not choice.steps and _others(card, lacking)
        else ""
    )
    return f"{card.name} cannot run with {choice.encoder}: {what} missing\n" + "\n".join(lines) + hint


def _others(card: Card, lacking: Sequence[Missing]) -> bool:
    """Whether some commands lack nothing."""
    return all(one.steps for one in lacking) and {n for one in lacking for n in one.steps} != {
        *range(1, len(card.steps) + 1)
    }


def _run(card: Card, one: Planned) -> None:
    """Runs a command, unless what it makes is there."""
    if one.done:
        return
    console.rule(f"{card.name}, command {one.number}")
    console.print(one.line, markup=False)
    try:
        one.run()
    except (ValueError, OSError, ImportError) as error:
        raise ValueError(f"command {one.number} of {card.name} failed, {one.line}: {error}") from error


def _print_expected(card: Card, planned: Sequence[Planned]) -> None:
    """Prints the published values that the results will be compared with; for another encoder, those of all."""
    paper, names = paper_of(card).name, {one.setting.name for one in planned if one.setting.name}
    every = [one for one in PUBLISHED if one.paper == paper and one.table in card.tables]
    if shown := [one for one in every if one.encoder in names] or every:
        _print_published(paper, shown)
        console.print(
            "A value counts as equal within half a unit of its last digit, otherwise as within the 95% interval of "
            "ours over queries and seeds, or outside."
        )
    else:
        console.print(f"No published value of {card.items} is known.")


def _report(card: Card, planned: Sequence[Planned], choice: Choice, copies: Mapping[str, str]) -> None:
    """Prints and writes the published values beside ours."""
    ours: list[Measured] = []
    for one in planned:
        if one.out is not None and (one.out / "results.jsonl").is_file():
            ours += grouped(read_results(one.out / "results.jsonl"), one.setting, one.step.metrics)
    paper, folder = paper_of(card), choice.folder(card)
    every = [one for one in PUBLISHED if one.paper == paper.name and one.table in card.tables]
    names = {one.setting.name for one in planned if one.setting.name}
    expected = [one for one in every if one.encoder in names]
    rows = compare(ours, expected)
    console.rule(f"{card.name}, {choice.name}")
    if not names:
        known = dict.fromkeys(one.name for step in card.steps for one in step.encoders.values() if one.name)
        console.print(
            f"{choice.name} is not an encoder of {card.items} of {paper.name} ({', '.join(known)}), so there is "
            "nothing to compare with."
        )
    elif not expected:
        console.print(f"No published value of {card.items} is known for {', '.join(sorted(names))}.")
    if rows:
        _print_rows(rows, choice)
        told = {"card": card.name, "paper": paper.name, "encoder": choice.name, "as": ", ".join(sorted(names))}
        write_rows(rows, folder, {**told, **copies})
    if every and not expected:
        _print_published(paper.name, every)
    for name in (name for one in planned for name in one.step.figures):
        console.print(f"figure {name}: {', '.join(map(str, sorted(folder.rglob(name)))) or 'not drawn'}")
    if judged := [row for row in rows if row.verdict]:
        counts = {verdict: sum(row.verdict == verdict for row in judged) for verdict in _VERDICTS}
        told_counts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        console.print(f"{len(judged)} published values: {told_counts}")
    console.print(f"wrote results and comparison to {folder}" if rows else f"wrote results to {folder}")


def _print_rows(rows: Sequence[Row], choice: Choice) -> None:
    """Prints one table for the values that are compared, and one for the others."""
    with_published = [row for row in rows if row.published is not None]
    others = [row for row in rows if row.published is None]
    if with_published:
        columns = ["", "layer", "published", "ours", "difference", "tolerance", "verdict"]
        source = "; ".join(dict.fromkeys(row.source for row in with_published))
        print_table(f"{choice.name} beside {source}", columns, [cells(row) for row in with_published])
    if others:
        title = f"{choice.name}: {'values that have no published one' if with_published else 'our values'}"
        table = [[name, layer, ours, margin] for name, layer, _, ours, _, margin, _ in map(cells, others)]
        print_table(title, ["", "layer", "ours", "95% interval"], table)


def _print_published(paper: str, every: Sequence[Published]) -> None:
    """Prints the published values of the paper's encoders, as information."""
    encoders = list(dict.fromkeys(one.encoder for one in every))
    values = {(one.source, one.metric, one.method, one.encoder): f"{one.value:.{decimals_of(one)}f}" for one in every}
    keys = dict.fromkeys((one.source, one.metric, one.method) for one in every)
    rows = [
        [f"{source.removeprefix(paper + ', ')}, {_plain(metric)}: {method}"]
        + [values.get((source, metric, method, encoder), "") for encoder in encoders]
        for source, metric, method in keys
    ]
    print_table(f"Published in {paper} for its encoders, on its data and fits", ["", *encoders], rows)


def _plain(pattern: str) -> str:
    return pattern.replace("\\", "")


_VERDICTS = ("equal", "within", "outside", "not judged", "not compared")
