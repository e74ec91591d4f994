"""Reproduces a table or figure of a paper: checks that everything is here, runs its commands, compares the results.

    python -m eval repro                                        # all cards, and what each lacks here
    python -m eval repro xie-table-1 --encoder mbert --dry-run  # the commands, and everything that is missing
    python -m eval repro xie-table-1 --encoder mbert            # run them, and compare with the paper

``cards/xie.toml`` and its neighbours hold the cards; ``comparison.py`` says what is compared and how far a value may be
off. Commands of ``train`` resume where they stopped; commands of ``eval`` whose results are there, from the same
options, are not run again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from eval.papers.card import CARDS, Card
from eval.papers.comparison import COLUMNS, VERDICTS, cells, compare, grouped, write_rows
from eval.papers.missing import missing
from eval.papers.plan import CardOptions, Planned, plan
from eval.papers.published import PUBLISHED, items_of
from eval.papers.sources import SOURCES, checksum_of
from lsar_jax.checks import check_choice, errors_of
from lsar_jax.console.output import console, print_table
from lsar_jax.measures.results import read_results

__all__ = ["Repro"]


@dataclass(frozen=True)
class Repro(CardOptions):
    """Reproduces a table or figure of a paper.

    Attributes:
      name: the card, such as xie-table-1; without a name, all are listed.
      dry_run: print the commands and what is missing, and run nothing.
    """

    name: Annotated[str, tyro.conf.Positional] = ""
    dry_run: bool = False

    # What --help shows.
    essential = ("name", "dry_run", "encoder", "layers", "fit_on", "max_length", "steps", "out", "overwrite")

    def run(self) -> None:
        """Lists the cards, or runs the commands of one, if nothing that they need is missing."""
        if self.name:
            check_choice("card", self.name, CARDS)
            self._reproduce(CARDS[self.name])
        else:
            _print_cards(CardOptions(encoder=self.encoder, out=self.out))

    def _reproduce(self, card: Card) -> None:
        planned = plan(card, self)
        lacks = _missing(card, planned, self, download=not self.dry_run)
        if lacks and not self.dry_run:
            raise FileNotFoundError(lacks)
        console.print(f"{card.name}: {card.paper}, {card.items}. {card.shows}.")
        for entry in planned:
            console.print(f"{entry.number}. {entry.line}{f'  (not run again: {entry.done})' if entry.done else ''}")
        console.print(f"Results go to {self.folder(card)}.")
        for name, copy in (copies := _copies(planned)).items():
            console.print(f"{name}: {copy}", soft_wrap=True)
        if self.dry_run:
            console.print(lacks or "Everything that it needs is here.")
            return
        for entry in planned:
            if not entry.done:
                console.rule(f"{card.name}, command {entry.number}")
                console.print(entry.line)
                failed = f"command {entry.number} of {card.name} failed, {entry.line}"
                with errors_of(failed, ValueError, OSError, ImportError):
                    entry.run()
        _report(card, planned, self, copies)


def _print_cards(choice: CardOptions) -> None:
    title = f"Cards, and what they lack here with the encoder {choice.encoder}"
    table = Table("name", "shows", "lacks", title=title, title_justify="left")
    for card in CARDS.values():
        lacks = dict.fromkeys(lack.name for lack in missing(card, plan(card, choice), choice))
        table.add_row(card.name, f"{card.items}: {card.shows}", "\n".join(lacks) or "nothing", end_section=True)
    console.print(table)
    console.print("python -m eval repro NAME --encoder ENCODER --dry-run says where to get what is lacking.")


def _missing(card: Card, planned: Sequence[Planned], choice: CardOptions, *, download: bool) -> str:
    """Everything that is missing as a text; empty if nothing is."""
    lines = []
    for lack in missing(card, planned, choice, download=download):
        needed = f" (command {' and '.join(map(str, lack.steps))})" if len(card.steps) > 1 and lack.steps else ""
        lines.append(f"\n- {lack.text}{needed}")
    return f"{card.name} cannot run with {choice.encoder}; missing ({len(lines)}):{''.join(lines)}" if lines else ""


def _copies(planned: Sequence[Planned]) -> dict[str, str]:
    """The checksums of the data by folder, and whether it is the copy of the page's numbers."""
    copies = {}
    for source in dict.fromkeys(SOURCES[key] for entry in planned for key in entry.step.data):
        if source.path and (checksum := checksum_of(Path(source.path), source.read)):
            same = ", the copy that the page's numbers are from" if checksum == source.checksum else ""
            other = f", not the copy that the page's numbers are from ({source.checksum})" if source.checksum else ""
            copies[source.path] = f"sha256 {checksum}{same or other}"
    for text in dict.fromkeys(entry.options["fit_on"] for entry in planned if "fit_on" in entry.options):
        if checksum := checksum_of(Path(text), "*.txt"):
            copies[text] = f"sha256 {checksum}"
    return copies


def _report(card: Card, planned: Sequence[Planned], choice: CardOptions, copies: Mapping[str, str]) -> None:
    """Prints and writes the published values beside ours."""
    ours = [
        measured
        for entry in planned
        if entry.out is not None and (path := entry.out / "results.jsonl").is_file()
        for measured in grouped(read_results(path), entry.setting, entry.step.metrics)
    ]
    name, folder = choice.short_name(), choice.folder(card)
    names = sorted({entry.setting.name for entry in planned if entry.setting.name})
    values = [value for value in PUBLISHED if value.paper == card.paper and value.encoder in ("", *names)]
    rows = compare(ours, [value for value in values if {*items_of(card.items)} & {*items_of(value.table)}])
    console.rule(f"{card.name}, {name}")
    if not names:
        known = dict.fromkeys(entry.name for step in card.steps for entry in step.encoders.values() if entry.name)
        console.print(f"{name} is not an encoder of {card.items} of {card.paper} ({', '.join(known)}).")
    if rows:
        reasons = Counter(row.why for row in rows if row.verdict == "not compared")
        print_table(f"{name} beside {card.paper}", COLUMNS, [cells(r) for r in rows if r.verdict != "not compared"])
        for why, count in reasons.items():
            console.print(f"not compared, {count}: {why}", soft_wrap=True)
        about = {"card": card.name, "paper": card.paper, "encoder": name, "as": ", ".join(names)}
        write_rows(rows, folder, {**about, **copies})
    for picture in (picture for entry in planned for picture in entry.step.figures):
        console.print(f"figure {picture}: {', '.join(map(str, sorted(folder.rglob(picture)))) or 'not drawn'}")
    if verdicts := [row.verdict for row in rows if row.verdict]:
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts)
        console.print(f"{len(verdicts)} published values: {counts}")
    console.print(f"wrote results and comparison to {folder}" if rows else f"wrote results to {folder}")
