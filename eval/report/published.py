"""Published numbers, to show beside ours.

The numbers for Tatoeba are means over XTREME's 36 languages with English queries; those for LAReQA are mean average
precision on XQuAD-R, where Xie et al. give rank 11 of 11 languages, whose means span 10 directions; those for
clustering are mutual information. Encoders, fitting text and layers are those of the papers.
"""

import re
from typing import NamedTuple

__all__ = ["PUBLISHED", "Published", "published"]

_XIE = "Xie et al. 2022"
_HAEMMERL = "Hämmerl et al. 2023"


class Published(NamedTuple):
    """One number from a paper.

    Attributes:
      task: name of the task in our results.
      metric: regular expression for the metric's name in our results.
      languages: a result of ours that covers one of these numbers of languages is on the same data as the paper's.
      encoder: the paper's name for the encoder.
      method: label of the method in our results.
      value: the value, in percent or as printed in the paper.
      source: the paper.
    """

    task: str
    metric: str
    languages: tuple[int, ...]
    encoder: str
    method: str
    value: float
    source: str


def _rows(
    task: str,
    metric: str,
    languages: tuple[int, ...],
    source: str,
    methods: tuple[str, ...],
    values: dict[str, tuple[float, ...]],
) -> list[Published]:
    return [
        Published(task, metric, languages, encoder, method, value, source)
        for encoder, several in values.items()
        for method, value in zip(methods, several, strict=True)
    ]


# Ranks are those of the papers: a fit of another rank is another method.
_FOUR = ("original", "center", "lir components=1")
PUBLISHED = (
    *_rows("tatoeba", r"en-xx mean over 3[56]", (35, 36), _XIE, (*_FOUR, "lir components=15", "lsar rank=36"), {
        "mBERT": (37.53, 39.57, 39.70, 41.21, 44.64), "XLM": (28.13, 27.13, 28.75, 31.65, 33.16),
        "XLM-R large": (57.68, 61.08, 61.60, 62.80, 65.05),
    }),
    *_rows("tatoeba", r"en-xx mean over 3[56]", (35, 36), _HAEMMERL, ("language-whitening", "cbie"), {
        "XLM-R base": (70.03, 69.01), "mBERT": (45.14, 45.79), "S-BERT": (87.35, 86.36),
    }),
    *_rows("tatoeba", r"en-xx mean over 3[56]", (35, 36), _HAEMMERL, ("original",), {
        "XLM-R base": (50.35,), "S-BERT": (85.17,),
    }),
    *_rows("lareqa", "mAP(, dot)?", (11,), _XIE, (*_FOUR, "lsar rank=10"), {
        "mBERT X-X": (23.36, 44.66, 44.25, 45.89), "mBERT En-En": (28.57, 35.37, 37.70, 41.13),
    }),
    *_rows("lareqa", "same language(, dot)?", (11,), _XIE, ("original", "lsar rank=10"), {"mBERT X-X": (84.57, 81.57)}),
    *_rows("lareqa", "other languages(, dot)?", (11,), _XIE, ("original", "lsar rank=10"), {
        "mBERT X-X": (5.89, 23.76),
    }),
    *_rows("geometry", "NMI", (36, 37), _XIE, (*_FOUR, "lsar rank=36"), {
        "mBERT": (0.2815, 0.0975, 0.0900, 0.0801), "XLM": (0.5422, 0.2483, 0.1875, 0.1320),
        "XLM-R large": (0.2457, 0.2004, 0.2203, 0.0856),
    }),
    *_rows("amazon", "accuracy mean", (4,), _XIE, ("original", "lsar rank=1"), {"mBERT": (74.73, 75.58)}),
    *_rows("amazon", "accuracy mean", (4,), _XIE, ("original", "lsar rank=2"), {"XLM-R large": (80.32, 82.37)}),
    *(
        published
        for track, values in (
            ("2.ar-en", (11.4, 35.5, 31.6)), ("4a.es-en", (4.0, 44.4, 44.5)),
            ("4b.es-en", (-5.9, 15.3, 12.1)), ("6.tr-en", (14.1, 36.0, 37.0)),
        )
        for published in _rows(
            "sts17", rf"Pearson {re.escape(track)}", (2,), _HAEMMERL, ("original", "whitening", "cbie"),
            {"XLM-R base": values},
        )
    ),
)  # fmt: skip


def published(task: str, metric: str, languages: int) -> list[Published]:
    """Returns the papers' numbers for a metric on the same data, given the number of languages that ours covers."""
    return [
        one for one in PUBLISHED if one.task == task and re.fullmatch(one.metric, metric) and languages in one.languages
    ]
