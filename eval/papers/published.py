"""The numbers of the papers' tables, to show beside ours, and the protocol of each table.

``published.csv`` holds every number in the words of its paper, and ``protocols.csv`` says how each table was measured.
``quantities.toml`` says what a number is called in our results, or why none of ours is the same quantity. A number
stands beside ours only if the task, the metric, the languages, the number of queries, the options, the fitting text
and the training of heads and aligned encoders are the same; ``eval/papers/comparison.py`` compares encoders and layers.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from eval.papers.card import read_toml
from lsar_jax.corpora.by_language import group_by
from lsar_jax.files import read_table
from lsar_jax.measures.results import Result

__all__ = ["PROTOCOLS", "PUBLISHED", "Published", "Quantity", "items_of", "published"]

_FOLDER = Path(__file__).parent
# Methods that are not fitted here: the same whatever text there is, or heads, whose training is asked for.
_FIXED = ("original", "zero=", "meaning ", "language ")


class Quantity(NamedTuple):
    """The task, metric and conditions of numbers in our results; ``quantities.toml`` explains the fields."""

    task: str = ".*"
    setting: str = ".*"
    metric: str = ".*"
    method: str = ".*"
    ours: str = ""
    languages: int = 0
    n: int | None = None
    sizes: Mapping[str, int] = {}
    fit: str = ""
    options: Mapping[str, Any] = {}
    least: Mapping[str, int] = {}
    power: int = 0
    unlike: str = ""
    other: str = ""


class Published(NamedTuple):
    """One number from a paper.

    Attributes:
      paper, table, encoder: in the words of the paper.
      task, metric: names in our results; the paper's words if no number of ours is the same.
      method: label in our results, which may have further parameters; a rank must agree.
      value, decimals: in the unit of our results, and the number of decimals that are printed.
      quantity: what must be the same, with the ``n``, ``fit`` and ``options`` of this number.
      layer: the layer that the table names.
      note: what is wrong or unclear with the number in the paper.
    """

    paper: str
    table: str
    encoder: str
    task: str
    metric: str
    method: str
    value: float
    decimals: int
    quantity: Quantity
    layer: int | None
    note: str

    @property
    def source(self) -> str:
        """The paper and its table."""
        return f"{self.paper}, {self.table}"

    @property
    def other(self) -> str:
        """Why no number of ours is the same; empty if one may be."""
        return self.quantity.other or (self.note if "suspect" in self.note else "")

    def is_of(self, method: str) -> bool:
        """Whether a method's label in our results is the one of this number."""
        suffix = method.removeprefix(self.method)
        return suffix == "" or (suffix != method and re.match(r" \w+=", suffix) is not None)

    def measured(self, result: Result) -> bool:
        """Whether a result of this task and metric was measured so, and its methods were fitted or trained so."""
        same = self.quantity
        used = {**result.parameters, **result.options, "max_length": result.max_length, "pooling": result.pooling}
        text = str(result.options.get("fit_on")).lower().replace("-", "")
        return (
            not self.other
            and same.languages == len(set(result.languages))
            and same.n in (None, result.n)
            and (self.method.startswith(_FIXED) or same.fit.lower().replace("-", "") in text)
            and all(used.get(name) == value for name, value in same.options.items())
            and all(result.fitted_languages.get(code, 0) >= count for code, count in same.least.items())
        )


def items_of(text: str) -> list[str]:
    """Lists the tables and figures that a text names: Table 1(a), Tables 8 to 16, Figures 2 and 4."""
    items = []
    for kind, numbers in re.findall(r"(Table|Figure)s? (\d+(?:(?:, | and | to )\d+)*)", text):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            items += [f"{kind} {n}" for n in range(int(first), int(last or first) + 1)]
    return items


_NUMBERS, _PROTOCOLS = (read_table(_FOLDER / f"{name}.csv") for name in ("published", "protocols"))
_WORDS = read_toml(_FOLDER / "quantities.toml")
_QUANTITIES = tuple(Quantity(**fields) for fields in _WORDS["quantities"])


def _label(method: str, setting: str) -> str:
    """The label of a method in our results; its own words if we do not have it."""
    for pattern, label in _WORDS["methods"].items():
        if match := re.fullmatch(pattern, method):
            part = [name for words, name in _WORDS["parts"].items() if words in setting and "=" in label]
            return " ".join([*part, match.expand(label)])
    return method


@cache
def _quantity(task: str, setting: str, metric: str, method: str) -> tuple[Quantity, str]:
    """The first quantity that fits, with what it is of this setting, and its name in our results."""
    for found in _QUANTITIES:
        if re.fullmatch(found.task, task) and re.fullmatch(found.method, method):
            one, other = re.fullmatch(found.setting, setting), re.fullmatch(found.metric, metric)
            if one and other:
                groups = [*one.groups(""), *other.groups("")]
                fit = re.search("OSCAR|Wiki-40B|evaluated|MultiUN|OPUS-100", setting)
                pooling = {"pooling": "mean"} if "mean pooling" in setting else {}
                n = found.sizes.get(groups[0], found.n) if groups else found.n
                trained = next(of for words, of in _WORDS["trained"].items() if re.fullmatch(words, method))
                options = {**found.options, **pooling, **trained["options"]}
                same = found._replace(n=n, fit=fit[0] if fit else found.fit, options=options, least=trained["least"])
                return same, found.ours.format(*groups)
    raise ValueError(f"quantities.toml has none for {task!r}, {setting!r}, {metric!r}")


def _number(row: Mapping[str, str]) -> Published:
    setting, value = row["setting"], Decimal(row["value"])
    quantity, name = _quantity(row["task"], setting, row["metric"], row["method"])
    task, _, metric = name.partition(": ") if name else (row["task"], "", f"{row['metric']}; {setting}")
    layer = re.search(r"block (\d+) of", setting) or re.search(r"layer (\d+)", setting)
    value = value.scaleb(quantity.power)
    exponent = value.as_tuple().exponent
    return Published(
        row["paper"], row["table"], row["encoder"], task, metric, _label(row["method"], setting), float(value),
        max(0, -exponent) if isinstance(exponent, int) else 0, quantity, int(layer[1]) if layer else None, row["note"],
    )  # fmt: skip


# The numbers of tables and figures; the words of a table, and the numbers of the papers' text, are only in the file.
PUBLISHED = tuple(_number(row) for row in _NUMBERS if items_of(row["table"]) and row["task"] != "loss components")
# (paper, table) -> how it was measured.
PROTOCOLS = {(row["paper"], item): row["protocol"] for row in _PROTOCOLS for item in items_of(row["table"])}

_BY_NAME = group_by(PUBLISHED, lambda number: (number.task, number.metric))


def published(result: Result) -> list[Published]:
    """Finds the papers' numbers that were measured as a result of ours was: by the same metric on the same data.

    Numbers of fitted methods are left out if ours were fitted on other text.
    """
    return [number for number in _BY_NAME.get((result.task, result.metric), ()) if number.measured(result)]
