"""Published numbers, to show beside ours, and the protocols that they were measured by (``protocols.toml``).

A number stands beside ours only if the task, the metric, the languages, the number of queries and the protocol are the
same; encoders, fitting text and layers are those of the papers. Where the number of a table is not known here, its
subject stands instead.
Numbers that could not be read in a source are left out: of Xie et al., MLQA-R, XLM on the Amazon reviews, and LaBSE
(about 95.5 on Tatoeba, with and without each method); of Hämmerl et al., mBERT's and S-BERT's rows of STS17 and BUCC,
but for S-BERT's original on BUCC; of Ki et al., all but LaBSE on Tatoeba and six numbers of Table 9.
"""

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from eval.papers.card import read_toml
from eval.results import Result

__all__ = ["PROTOCOLS", "PUBLISHED", "Protocol", "Published", "published"]


class Protocol(NamedTuple):
    """How numbers were measured."""

    command: str  # that measures by it, after python -m eval
    what: str
    evaluated: bool | None = None  # whether methods are fitted on the evaluated sentences; None if it does not matter
    n: int | None = None  # number of queries or vectors, as our results count them; None if it is not known
    settings: Mapping[str, Any] = {}  # options, and max_length, that our result must have been measured with
    other: str = ""  # how it differs from our measurement, so that its numbers do not stand beside ours

    @property
    def task(self) -> str:
        """The name of the task in our results."""
        return self.command.split()[0]

    def measured(self, result: Result) -> bool:
        """Whether a result was measured so, on the same data, whatever its methods were fitted on."""
        used = {**result.options, "max_length": result.max_length}
        return (
            not self.other
            and self.task == result.task
            and self.n in (None, result.n)
            and all(used.get(name) == value for name, value in self.settings.items())
        )

    def fitted(self, result: Result) -> bool:
        """Whether the methods beside a result were fitted as in this protocol."""
        return self.evaluated in (None, result.options.get("fit_on") == "evaluated")


class Published(NamedTuple):
    """One number from a paper."""

    protocol: str  # key of PROTOCOLS
    metric: str  # regular expression for the metric's name in our results
    languages: int  # that our result covers, with English where the task counts it
    encoder: str  # the paper's name
    method: str  # label in our results, which may have further parameters; a rank must agree
    value: float  # in percent, or as printed in the paper
    paper: str
    table: str  # by number or by subject

    @property
    def source(self) -> str:
        """The paper and its table."""
        return f"{self.paper}, {self.table}"

    def is_of(self, method: str) -> bool:
        """Whether a method's label in our results is the one of this number."""
        suffix = method.removeprefix(self.method)
        return suffix == "" or (suffix != method and re.match(r" \w+=", suffix) is not None)


_FOLDER = Path(__file__).parent
PROTOCOLS = {name: Protocol(**fields) for name, fields in read_toml(_FOLDER / "protocols.toml").items()}
# Ranks are those of the papers, and a fit of another rank is another method. For LAReQA, Xie et al. give rank 11 of 11
# languages, whose means span 10 directions.
with (_FOLDER / "published.csv").open(encoding="utf-8", newline="") as _file:
    PUBLISHED = tuple(
        Published(
            row["task"], row["metric"], int(row["setting"].split()[0]), row["encoder"], row["method"],
            float(row["value"]), row["paper"], row["table"],
        )
        for row in csv.DictReader(_file)
    )  # fmt: skip


def published(result: Result) -> list[Published]:
    """Finds the papers' numbers that were measured as a result of ours was: by the same metric on the same data.

    Numbers of fitted methods are left out if the paper fitted them on the evaluated sentences and we did not, or the
    reverse.
    """
    languages = len(set(result.languages))
    return [
        number
        for number in PUBLISHED
        if PROTOCOLS[number.protocol].measured(result)
        and (number.method == "original" or PROTOCOLS[number.protocol].fitted(result))
        and languages == number.languages
        and re.fullmatch(number.metric, result.metric)
    ]
