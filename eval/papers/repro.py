"""Reproduces a table or figure of a paper: checks that everything is here, runs its commands, compares the results.

    python -m eval repro                                        # all cards, and what each lacks here
    python -m eval repro xie-table-1 --encoder mbert --dry-run  # the commands, and everything that is missing
    python -m eval repro xie-table-1 --encoder mbert            # run them, and compare with the paper

``cards/xie.toml`` and its neighbours hold the cards; ``comparison.py`` says what is compared and how far a value may be
off. Commands of ``train`` resume where they stopped; commands of ``eval`` whose results are there, from the same
options, are not run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from eval.papers.card import CARDS, Card, find
from eval.papers.comparison import Measured, Row, cells, compare, decimals_of, grouped, write_rows
from eval.papers.missing import missing
from eval.papers.page import papers_page
from eval.papers.plan import Choice, Planned, plan
from eval.papers.published import PUBLISHED, Published
from eval.papers.sources import SOURCES, checksum_of
from eval.results import read_results
from lsar_jax.cli.console import console, print_table
from lsar_jax.files import write_text

__all__ = ["Repro"]

_VERDICTS = ("equal", "within", "outside", "not judged", "not compared")


@dataclass(frozen=True)
class Repro(Choice):
    """Reproduces a table or figure of a paper.

    Attributes:
      name: the card, such as xie-table-1; without a name, all are listed.
      dry_run: print the commands and what is missing, and run nothing.
      page: a page whose tables of all cards are written anew, instead.
    """

    name: Annotated[str, tyro.conf.Positional] = ""
    dry_run: bool = False
    page: Path | None = None

    def run(self) -> None:
        """Lists the cards, writes their page, or runs the commands of one.

        Raises:
          FileNotFoundError: something that the commands need is missing; the error lists everything.
          ValueError: there is no such card, or a command failed.
        """
        if self.page is not None:
            write_text(self.page, papers_page(self.page.read_text(encoding="utf-8")))
            console.print(f"wrote {self.page}")
        elif self.name:
            self._reproduce(find(self.name))
        else:
            _print_cards(Choice(encoder=self.encoder, out=self.out))

    def _reproduce(self, card: Card) -> None:
        planned = plan(card, self)
        lacks = _missing(card, planned, self, download=not self.dry_run)
        if lacks and not self.dry_run:
            raise FileNotFoundError(lacks)
        console.print(f"{card.name}: {card.paper}, {card.items}. {card.shows}.")
        for one in planned:
            done = f"  (not run again: {one.done})" if one.done else ""
            console.print(f"{one.number}. {one.line}{done}", markup=False)
        console.print(f"Results go to {self.folder(card)}.")
        copies = _copies(planned)
        for name, copy in copies.items():
            console.print(f"{name}: {copy}", markup=False, soft_wrap=True)
        if self.dry_run:
            console.print(lacks or "Everything that it needs is here.", markup=False)
            _print_expected(card, planned)
            return
        for one in planned:
            if not one.done:
                console.rule(f"{card.name}, command {one.number}")
                console.print(one.line, markup=False)
                try:
                    one.run()
                except (ValueError, OSError, ImportError) as error:
                    raise ValueError(f"command {one.number} of {card.name} failed, {one.line}: {error}") from error
        _report(card, planned, self, copies)


def _print_cards(choice: Choice) -> None:
    table = Table("name", "shows", "lacks", title=f"Cards, and what they lack here with the encoder {choice.encoder}")
    table.title_justify = "left"
    for card in CARDS.values():
        lacks = dict.fromkeys(lack.name for lack in missing(card, plan(card, choice), choice))
        shows = f"{card.items}{card.sure}: {card.shows}"
        table.add_row(card.name, shows, "\n".join(lacks) or "nothing", end_section=True)
    console.print(table)
    console.print("python -m eval repro NAME --encoder ENCODER --dry-run says where to get what is lacking.")


def _missing(card: Card, planned: Sequence[Planned], choice: Choice, *, download: bool) -> str:
    """Everything that is missing as a text; empty if nothing is."""
    lacks, several = missing(card, planned, choice, download=download), len(card.steps) > 1
    if not lacks:
        return ""
    lines = [f"{card.name} cannot run with {choice.encoder}: {len(lacks)} things are missing"]
    if len(lacks) == 1:
        lines = [f"{card.name} cannot run with {choice.encoder}: one thing is missing"]
    for lack in lacks:
        which = f" (command {' and '.join(map(str, lack.steps))})" if several and lack.steps else ""
        lines.append(f"- {lack.text}{which}")
    others = {one.number for one in planned}.difference(*(lack.steps for lack in lacks))
    if others and not choice.steps and all(lack.steps for lack in lacks):
        lines.append("With --steps, the other commands can be run alone.")
    return "\n".join(lines)


def _copies(planned: Sequence[Planned]) -> dict[str, str]:
    """The checksums of the data by folder, and whether it is the copy of the page's numbers."""
    copies = {}
    for source in dict.fromkeys(SOURCES[key] for one in planned for key in one.step.data):
        if source.path and (checksum := checksum_of(Path(source.path), source.read)):
            same = ", the copy that the page's numbers are from" if checksum == source.checksum else ""
            other = f", not the copy that the page's numbers are from ({source.checksum})" if source.checksum else ""
            copies[source.path] = f"sha256 {checksum}{same or other}"
    for text in dict.fromkeys(one.options["fit_on"] for one in planned if "fit_on" in one.options):
        if checksum := checksum_of(Path(text), "*.txt"):
            copies[text] = f"sha256 {checksum}"
    return copies


def _published(card: Card, planned: Sequence[Planned]) -> tuple[list[Published], list[Published], list[str]]:
    """The published values of a card, those of the encoder that is run, and the paper's names for it."""
    names = sorted({one.setting.name for one in planned if one.setting.name})
    values = [value for value in PUBLISHED if value.paper == card.paper and value.table in card.tables]
    return values, [value for value in values if value.encoder in names], names


def _print_expected(card: Card, planned: Sequence[Planned]) -> None:
    """Prints the published values that the results will be compared with; for another encoder, those of all."""
    values, expected, _ = _published(card, planned)
    if values:
        _print_published(card, expected or values)
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
    name, folder = choice.short_name(), choice.folder(card)
    values, expected, names = _published(card, planned)
    rows = compare(ours, expected)
    console.rule(f"{card.name}, {name}")
    if not names:
        known = dict.fromkeys(one.name for step in card.steps for one in step.encoders.values() if one.name)
        console.print(
            f"{name} is not an encoder of {card.items} of {card.paper} ({', '.join(known)}), so there is nothing to "
            "compare with."
        )
    elif not expected:
        console.print(f"No published value of {card.items} is known for {', '.join(names)}.")
    if rows:
        _print_rows(rows, name)
        about = {"card": card.name, "paper": card.paper, "encoder": name, "as": ", ".join(names)}
        write_rows(rows, folder, {**about, **copies})
    if values and not expected:
        _print_published(card, values)
    for picture in (picture for one in planned for picture in one.step.figures):
        drawn = ", ".join(map(str, sorted(folder.rglob(picture))))
        console.print(f"figure {picture}: {drawn or 'not drawn'}")
    if verdicts := [row.verdict for row in rows if row.verdict]:
        counts = ", ".join(f"{verdicts.count(one)} {one}" for one in _VERDICTS if one in verdicts)
        console.print(f"{len(verdicts)} published values: {counts}")
    console.print(f"wrote results and comparison to {folder}" if rows else f"wrote results to {folder}")


def _print_rows(rows: Sequence[Row], name: str) -> None:
    """Prints one table for the values that are compared, and one for the others."""
    compared = [row for row in rows if row.published is not None]
    if compared:
        columns = ["", "layer", "published", "ours", "difference", "tolerance", "verdict"]
        sources = "; ".join(dict.fromkeys(row.source for row in compared))
        print_table(f"{name} beside {sources}", columns, map(cells, compared))
    others = [cells(row) for row in rows if row.published is None]
    if others:
        title = f"{name}: {'values that have no published one' if compared else 'our values'}"
        table = [[what, layer, ours, margin] for what, layer, _, ours, _, margin, _ in others]
        print_table(title, ["", "layer", "ours", "95% interval"], table)


def _print_published(card: Card, values: Sequence[Published]) -> None:
    """Prints published values, a column for each of the paper's encoders."""
    encoders = list(dict.fromkeys(value.encoder for value in values))
    rows: dict[str, dict[str, str]] = {}
    for value in values:
        row = f"{value.table}, {value.metric}: {value.method}".replace("\\", "")
        rows.setdefault(row, {})[value.encoder] = f"{value.value:.{decimals_of(value)}f}"
    table = [[row, *(numbers.get(encoder, "") for encoder in encoders)] for row, numbers in rows.items()]
    print_table(f"Published in {card.paper} for its encoders, on its data and fits", ["", *encoders], table)
