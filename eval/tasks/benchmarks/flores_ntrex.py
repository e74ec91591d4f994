"""FLORES, NTREX and other text that is parallel in all languages: search for translations, and script.

    python -m eval flores --data data/flores200_dataset/devtest
    python -m eval flores --data hub:mteb/FloresBitextMining --languages en de hi ar ar-Latn --pairs all
    python -m eval ntrex --data data/NTREX-128
    python -m eval scripts --data udhr-scripts/test --fit-on udhr-scripts/fit

Each sentence searches the other language for its translation, by cosine, as in MTEB's bitext mining: accuracy,
and the mean F1 of the translations as classes, which MTEB calls ``f1``. MTEB measures all ordered pairs of FLORES;
``--pairs en`` measures those with English. Line i is the same in all languages, and intervals are over lines.

For languages in two scripts, the search across their scripts is measured, that from English in each script, and what
their neighbours are (``eval.scores.language_pairs``).

NLLB Team, "No Language Left Behind", 2022 (FLORES-200); Federmann, Kocmi and Xin, "NTREX-128", SumEval 2022.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from eval.command import command
from eval.data.flores_ntrex import read_parallel
from eval.scores.language_pairs import PairMeans, script_neighbours, script_pairs
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.ranking import Bank, bitext_f1
from lsar_jax.retrieval.search import nearest, nearest_both

__all__ = ["FLORES", "NTREX", "SCRIPTS", "flores", "ntrex", "scripts"]

Pairs = Literal["en", "all"]

_GET = {
    "flores": "unpack flores200_dataset.tar.gz of github.com/facebookresearch/flores there, or set --data, for example "
    "to hub:mteb/FloresBitextMining",
    "ntrex": "copy NTREX-128 of github.com/MicrosoftTranslator/NTREX there, or set --data, for example to "
    "hub:mteb/NTREXBitextMining",
}

# The means in tables.
_OF_PAIRS = ("en-xx accuracy", "xx-en accuracy", "en-xx F1", "xx-yy accuracy", "xx-yy F1")
_OF_SCRIPTS = ("across scripts accuracy", "neighbours", "en-xx accuracy lost")
_SIDES = ("usual script", "other script")


def flores(
    data: Data = Path("data/flores200_dataset/devtest"), languages: tuple[str, ...] = (), pairs: Pairs = "en"
) -> Task:
    """Search for translations on FLORES, in up to 204 languages.

    Args:
      data: folder of xxx_Yyyy.devtest files; hub:ID; or tfds:NAME.
      languages: language codes; by default, all in the data.
      pairs: en for each language and English, or all for all ordered pairs of languages.
    """
    return _task("flores", "FLORES", data, languages, pairs)


def ntrex(data: Data = Path("data/NTREX-128"), languages: tuple[str, ...] = (), pairs: Pairs = "en") -> Task:
    """Search for translations on NTREX, in up to 121 languages.

    Args:
      data: folder of newstest2019-ref.xxx.txt files; hub:ID; or tfds:NAME.
      languages: language codes; by default, all in the data.
      pairs: en for each language and English, or all for all ordered pairs of languages.
    """
    return _task("ntrex", "NTREX", data, languages, pairs)


def scripts(data: Data = Path("scripts"), languages: tuple[str, ...] = (), pairs: Pairs = "en") -> Task:
    """Languages in two scripts: search from one into the other, and which of language and script neighbours share.

    Args:
      data: folder of xx.txt files, where line i is the same in all, with sr.txt and sr-Latn.txt and the like; or data
        of flores and ntrex.
      languages: language codes; by default, all in the data.
      pairs: en for each language and English, or all for all ordered pairs of languages.
    """
    task = _task("scripts", "Languages in two scripts", data, languages, pairs)
    if not script_pairs(task.languages):
        raise ValueError(f"{data} has {', '.join(task.languages)}, none in two scripts; add such as sr and sr-Latn")
    return task


def _task(name: str, title: str, data: Data, languages: Sequence[str], pairs: Pairs) -> Task:
    texts = read_parallel(data, languages, _GET.get(name, ""))
    if len(texts) < 2 or (pairs == "en" and "en" not in texts):
        needs = "at least two languages" if len(texts) < 2 else "en"
        raise ValueError(f"{data} has {', '.join(texts)}; give {needs}, or --pairs all")

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        by_language = {code: rows for (_, code), rows in x.items()}
        shown = _OF_SCRIPTS if name == "scripts" else _OF_PAIRS
        return _scores(by_language, pairs, {*setting.fitted, "en"}, shown, method.bank)

    return Task(
        name=name,
        title=f"{title}, {len(texts)} languages",
        languages=list(texts),
        parts=[{("text", code): lines for code, lines in texts.items()}],
        scores=scores,
        evaluated="by language",
        some=True,
        searches=True,
    )


def _scores(
    x: dict[str, Float[np.ndarray, "line dim"]], pairs: Pairs, fitted: set[str], shown: Collection[str],
    bank: Bank,
) -> Iterator[Score]:  # fmt: skip
    codes, of_scripts = list(x), script_pairs(x)
    means = PairMeans(fitted)
    wanted = [(a, b) for n, a in enumerate(codes) for b in codes[n + 1 :]]
    if pairs == "en":
        wanted = [pair for pair in wanted if "en" in pair or pair in of_scripts or pair[::-1] in of_scripts]
    for first, second in wanted:
        across = (first, second) in of_scripts or (second, first) in of_scripts
        given = x[first], x[second]
        both = nearest_both(*given) if bank is None else [nearest(*way, bank=bank) for way in (given, given[::-1])]
        forward, backward = (np.asarray(best[1])[:, 0] for best in both)
        for (a, b), found in (((first, second), forward), ((second, first), backward)):
            values = {"accuracy": 100.0 * (found == np.arange(len(found))), "F1": 100 * bitext_f1(found)}
            # Each mean that the pair is in, with the languages that must be fitted besides.
            names: list[tuple[str, Collection[str]]] = [(name, ()) for name in _means(a, b, pairs, across)]
            if "en" in (a, b):
                way = "en-xx" if a == "en" else "xx-en"
                sides = ((pair, *side) for pair in of_scripts for side in zip(pair, _SIDES, strict=True))
                names += [(f"{way} {{}}, {side}", pair) for pair, code, side in sides if code in (a, b)]
            for metric, of_line in values.items():
                if pairs == "en" or across:
                    yield Score.of(Metric(f"{a}-{b} {metric}"), [a, b], QueryScores(of_line))
                for name, needs in names:
                    means.add(_metric(name.format(metric), shown), (a, b), of_line, needs)
    yield from means.scores()
    for way in ("en-xx", "xx-en"):
        lost = Metric(f"{way} accuracy lost in the other script", "lower", shown=f"{way} accuracy lost" in shown)
        yield from means.difference(lost, *(_metric(f"{way} accuracy, {side}", shown) for side in _SIDES))
    if bank is None:
        yield from script_neighbours(x, fitted, shown="neighbours" in shown)


def _means(a: str, b: str, pairs: Pairs, across: bool) -> Iterator[str]:
    """The means that a pair of languages is in, with ``{}`` for the metric."""
    if across:
        yield "across scripts {}"
    if pairs == "all":
        yield from ("xx-yy {}", f"{a}-xx {{}}", f"xx-{b} {{}}")
    elif "en" in (a, b):
        yield "en-xx {}" if a == "en" else "xx-en {}"


def _metric(name: str, shown: Collection[str]) -> Metric:
    return Metric(name, shown=name in shown)


FLORES = command(flores)
NTREX = command(ntrex)
SCRIPTS = command(scripts)
