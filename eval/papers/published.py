"""Published numbers, to show beside ours, and the protocols that they were measured by.

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

from eval.results import Result

__all__ = ["PROTOCOLS", "PUBLISHED", "Protocol", "Published", "published"]


class Protocol(NamedTuple):
    """How numbers were measured.

    Attributes:
      command: the command of this library that measures by it, after ``python -m eval``.
      what: what is measured.
      evaluated: whether methods are fitted on the evaluated sentences; None if it does not matter.
      n: number of queries or vectors, as our results count them, which tells the data from other data of the same form;
        None if it is not known.
      settings: options of the task, and ``max_length``, that our result must have been measured with.
      other: what differs from our measurement, so that its numbers do not stand beside ours; empty if nothing does.
    """

    command: str
    what: str
    evaluated: bool | None = None
    n: int | None = None
    settings: Mapping[str, Any] = {}
    other: str = ""

    @property
    def task(self) -> str:
        """The name of the task in our results."""
        return self.command.split()[0]

    def measured(self, result: Result) -> bool:
        """Whether a result was measured by this protocol, on its data, whatever its methods were fitted on."""
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


# XTREME's 36 languages of Tatoeba.
_TATOEBA_PAIRS = 31_692
# Their sentences and the 28,234 distinct English ones.
_TATOEBA_SENTENCES = 59_926
# Gold pairs of BUCC 2018's training split: 9,580 of German, 9,086 of French, 14,435 of Russian and 1,899 of Chinese.
_BUCC_PAIRS = 35_000


PROTOCOLS = {
    "tatoeba": Protocol(
        "tatoeba --components 1 15 --fit-on text/oscar",
        "XTREME's 36 languages, English queries, nearest by cosine; fitted on other text",
        evaluated=False,
        n=_TATOEBA_PAIRS,
    ),
    "tatoeba, files": Protocol(
        "tatoeba --fit-on evaluated --transforms original whitening sample-whitening cbie",
        "the same, but each of a language's two files is transformed by a fit of its own",
        evaluated=True,
        n=_TATOEBA_PAIRS,
    ),
    "tatoeba, zeroed": Protocol(
        "tatoeba --encoder xlm-r-base --layers 8 --fit-on evaluated --transforms original largest zero "
        "--zero 588 306 239",
        "the same, with dimensions zeroed on both sides; largest=10 is the paper's set of 18, chosen on Tatoeba",
        evaluated=True,
        n=_TATOEBA_PAIRS,
    ),
    "tatoeba, heads": Protocol(
        "leakage results/heads",
        "the same in both directions, by meaning or by language embeddings; without Indonesian",
        other="the paper has the first 1,000 pairs of the Tatoeba Challenge's test set of 2023, not LASER's Tatoeba",
    ),
    "tatoeba, ten languages": Protocol(
        "leakage results/heads",
        "the mean of both directions over 10 languages, without heads and with a head of meaning",
        other="the paper's Tatoeba is that of 2023, and which objective trained the head is not known here",
    ),
    "bucc": Protocol(
        "bucc --encoder xlm-r-base --layers 8 --transforms original zero --zero 588 306 239",
        "F1 by the ratio margin of 4 neighbours, with the threshold of the sample split; de, fr, ru and zh",
        n=_BUCC_PAIRS,
    ),
    "bucc, largest": Protocol(
        "bucc --encoder xlm-r-base --layers 8 --transforms original largest --fit-on text/tatoeba --fit-languages all",
        "the same, with the set of dimensions that was chosen on Tatoeba",
        other="the dimensions are those of 36 languages of Tatoeba, whatever text ours were chosen on",
    ),
    "lareqa": Protocol(
        "lareqa --metrics dot",
        "mAP over a pool of all languages of XQuAD-R, by dot product; fitted on the questions' language",
        n=11 * 1_190,
    ),
    "sts17, columns": Protocol(
        "sts17 --fit-on evaluated --transforms original sample-whitening cbie",
        "Pearson's correlation of cosines; each sentence column is transformed by a fit of its own",
        evaluated=True,
        n=250,
    ),
    "clustering": Protocol(
        "geometry --text tatoeba --fit-on text/oscar",
        "mutual information of k-means clusters and languages on Tatoeba",
        evaluated=False,
        n=_TATOEBA_SENTENCES,
        settings={"text": "tatoeba"},
    ),
    "typology": Protocol(
        "geometry --text tatoeba --fit-on text/oscar --uriel distances2.zip",
        "Pearson's r of syntactic similarity to English and cosine with English's mean, 36 languages",
        evaluated=False,
        n=36,
        settings={"text": "tatoeba"},
    ),
    "anisotropy": Protocol(
        "geometry --text tatoeba",
        "mean cosine of 10,000 random pairs of English and another language",
        n=_TATOEBA_SENTENCES,
        settings={"text": "tatoeba"},
    ),
    "amazon": Protocol(
        "amazon --max-length 512 --ranks 1 2 3",
        "accuracy of a classifier trained on English, mean of 4 languages",
        evaluated=False,
        settings={"max_length": 512},
    ),
}


class Published(NamedTuple):
    """One number from a paper.

    Attributes:
      protocol: key of ``PROTOCOLS``; its command begins with the name of the task.
      metric: regular expression for the metric's name in our results.
      languages: number of languages that our result covers, with English where the task counts it.
      encoder: the paper's name for the encoder.
      method: label of the method in our results, which may have further parameters; a rank must agree.
      value: the value, in percent or as printed in the paper.
      paper: the paper.
      table: its table, by number or by subject.
    """

    protocol: str
    metric: str
    languages: int
    encoder: str
    method: str
    value: float
    paper: str
    table: str

    @property
    def source(self) -> str:
        """The paper and its table."""
        return f"{self.paper}, {self.table}"

    def is_of(self, method: str) -> bool:
        """Whether a method's label in our results is the one of this number."""
        rest = method.removeprefix(self.method)
        return rest == "" or (rest != method and re.match(r" \w+=", rest) is not None)


def _read() -> tuple[Published, ...]:
    with Path(__file__).with_name("published.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Published(
                row["task"], row["metric"], int(row["setting"].split()[0]), row["encoder"], row["method"],
                float(row["value"]), row["paper"], row["table"],
            )
            for row in csv.DictReader(file)
        )  # fmt: skip


# Ranks are those of the papers, and a fit of another rank is another method. For LAReQA, Xie et al. give rank 11 of 11
# languages, whose means span 10 directions.
PUBLISHED = _read()


def published(result: Result) -> list[Published]:
    """Returns the papers' numbers that were measured as a result of ours was: by the same metric on the same data.

    Numbers of fitted methods are left out if the paper fitted them on the evaluated sentences and we did not, or the
    reverse.
    """
    languages = len(set(result.languages))
    return [
        one
        for one in PUBLISHED
        if PROTOCOLS[one.protocol].measured(result)
        and (one.method == "original" or PROTOCOLS[one.protocol].fitted(result))
        and languages == one.languages
        and re.fullmatch(one.metric, result.metric)
    ]
