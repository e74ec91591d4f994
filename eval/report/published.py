"""Published numbers, to show beside ours, and the protocols that they were measured by.

A number stands beside ours only if the task, the metric, the languages, the number of queries and the protocol are the
same; encoders, fitting text and layers are those of the papers. Where the number of a table is not known here, its
subject stands instead.
Numbers that could not be read in a source are left out: of Xie et al., MLQA-R, XLM on the Amazon reviews, and LaBSE
(about 95.5 on Tatoeba, with and without each method); of Hämmerl et al., mBERT's and S-BERT's rows of STS17 and BUCC,
but for S-BERT's original on BUCC; of Ki et al., all but LaBSE on Tatoeba and six numbers of Table 9.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from eval.results import Result

__all__ = ["PROTOCOLS", "PUBLISHED", "Protocol", "Published", "published"]

_XIE = "Xie et al. 2022"
_HAEMMERL = "Hämmerl et al. 2023"
_KI = "Ki et al. 2024"


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


def _rows(
    protocol: str,
    metric: str,
    languages: int,
    source: tuple[str, str],
    methods: tuple[str, ...],
    values: dict[str, tuple[float, ...]],
) -> list[Published]:
    return [
        Published(protocol, metric, languages, encoder, method, value, *source)
        for encoder, several in values.items()
        for method, value in zip(methods, several, strict=True)
    ]


_FOUR = ("original", "center", "lir components=1")
_ZEROED = ("original", "zero=588", "zero=306", "zero=239")
_TATOEBA = ("en-xx mean over 36", 36)

# Ranks are those of the papers, and a fit of another rank is another method. For LAReQA, Xie et al. give rank 11 of 11
# languages, whose means span 10 directions.
PUBLISHED = (
    *_rows("tatoeba", *_TATOEBA, (_XIE, "Tatoeba"), (*_FOUR, "lir components=15", "lsar rank=36"), {
        "mBERT": (37.53, 39.57, 39.70, 41.21, 44.64), "XLM": (28.13, 27.13, 28.75, 31.65, 33.16),
        "XLM-R large": (57.68, 61.08, 61.60, 62.80, 65.05),
    }),
    *_rows("tatoeba, files", *_TATOEBA, (_HAEMMERL, "Tatoeba"), ("sample-whitening", "cbie"), {
        "XLM-R base": (70.03, 69.01), "mBERT": (45.14, 45.79), "S-BERT": (87.35, 86.36),
    }),
    *_rows("tatoeba, zeroed", *_TATOEBA, (_HAEMMERL, "Table 4"), (*_ZEROED, "largest=10"), {
        "XLM-R base": (50.35, 52.99, 50.59, 51.11, 60.09),
    }),
    *_rows("tatoeba, zeroed", *_TATOEBA, (_HAEMMERL, "Table 4"), ("original",), {"S-BERT": (85.17,)}),
    *_rows("bucc", "F1 mean", 5, (_HAEMMERL, "Table 4"), _ZEROED, {"XLM-R base": (59.1, 59.6, 58.0, 59.2)}),
    *_rows("bucc, largest", "F1 mean", 5, (_HAEMMERL, "Table 4"), ("largest=10",), {"XLM-R base": (64.4,)}),
    *_rows("bucc", "F1 mean", 5, (_HAEMMERL, "Table 4"), ("original",), {"S-BERT": (85.7,)}),
    *_rows("lareqa", "mAP, dot", 11, (_XIE, "Table 2, LSAR of rank 11"), (*_FOUR, "lsar rank=10"), {
        "mBERT X-X": (23.36, 44.66, 44.25, 45.89), "mBERT En-En": (28.57, 35.37, 37.70, 41.13),
    }),
    *_rows("lareqa", "same language, dot", 11, (_XIE, "one target"), ("original", "lsar rank=10"), {
        "mBERT X-X": (84.57, 81.57),
    }),
    *_rows("lareqa", "other languages, dot", 11, (_XIE, "one target"), ("original", "lsar rank=10"), {
        "mBERT X-X": (5.89, 23.76),
    }),
    *_rows("clustering", "NMI", 37, (_XIE, "clustering"), (*_FOUR, "lsar rank=36"), {
        "mBERT": (0.2815, 0.0975, 0.0900, 0.0801), "XLM": (0.5422, 0.2483, 0.1875, 0.1320),
        "XLM-R large": (0.2457, 0.2004, 0.2203, 0.0856),
    }),
    *(
        number
        for part, values in (
            ("removed", (0.6910, 0.6378, 0.7526, 0.6894)), ("left", (-0.2711, 0.2239, 0.1338, -0.2362)),
        )
        for number in _rows(
            "typology", rf"syntax, {part} \(precomputed.*\)", 37, (_XIE, "typology"), ("lsar rank=36",),
            {name: (value,) for name, value in zip(("mBERT", "XLM", "XLM-R large", "LaBSE"), values, strict=True)},
        )
    ),
    *_rows("anisotropy", "drawn English-xx", 37, (_HAEMMERL, "Table 1"), ("original",), {
        "XLM-R base": (0.92,), "mBERT": (0.73,), "S-BERT": (0.35,),
    }),
    *(
        number
        for measure, values in (
            ("mean", {
                "XLM-R base": {588: -15.18, 306: 3.08, 239: -2.06, 180: 1.86},
                "mBERT": {227: -11.64, 195: -8.01, 731: 2.70}, "S-BERT": {588: -6.78},
            }),
            ("contribution", {"XLM-R base": {588: 0.77}, "mBERT": {227: 0.39, 195: 0.16}, "S-BERT": {588: 0.22}}),
        )
        for encoder, dimensions in values.items()
        for dimension, value in dimensions.items()
        for number in _rows(
            "anisotropy", f"{measure} of dimension {dimension}", 37, (_HAEMMERL, "Table 1"), ("original",),
            {encoder: (value,)},
        )
    ),
    *_rows("amazon", "accuracy mean", 4, (_XIE, "Table 3"), ("original", "lsar rank=1"), {"mBERT": (74.73, 75.58)}),
    *_rows("amazon", "accuracy mean", 4, (_XIE, "Table 3"), ("original", "lsar rank=2"), {
        "XLM-R large": (80.32, 82.37),
    }),
    *(
        number
        for track, values in (
            ("2.ar-en", (11.4, 35.5, 31.6)), ("4a.es-en", (4.0, 44.4, 44.5)),
            ("4b.es-en", (-5.9, 15.3, 12.1)), ("6.tr-en", (14.1, 36.0, 37.0)),
        )
        for number in _rows(
            "sts17, columns", rf"Pearson {re.escape(track)}", 2, (_HAEMMERL, "Table 5"),
            ("original", "sample-whitening", "cbie"), {"XLM-R base": values},
        )
    ),
    *(
        number
        for way, values in (
            ("en-xx", (95.27, 95.26, 19.33, 1.50, 86.51, 9.92)), ("xx-en", (95.09, 95.03, 19.58, 1.70, 40.61, 8.41)),
        )
        for number in _rows(
            "tatoeba, heads", f"{way} mean without id", 35, (_KI, "Tatoeba-36"), (
                "meaning objective=dream (halves)", "meaning objective=dream (halves) + oracle (code, all)",
                "language objective=dream (halves)", "language objective=dream (halves) + oracle (code, all)",
                "language objective=meat", "language objective=meat + oracle (code, all)",
            ), {"LaBSE": values},
        )
    ),
    *_rows("tatoeba, ten languages", "mean of both directions over 10", 10, (_KI, "Table 9"), (
        "original", "head of meaning",
    ), {"LaBSE": (96.03, 96.36), "InfoXLM": (29.69, 61.49), "LASER": (95.96, 93.24)}),
)  # fmt: skip


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
