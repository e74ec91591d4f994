"""The geometry of embeddings after each method: anisotropy, isotropy, outliers, and remaining language information.

    python -m eval geometry                                   # the UDHR: one half is measured
    python -m eval geometry --text tatoeba                    # 36 languages and English, fitted on the UDHR
    python -m eval geometry --text tatoeba --transforms original --layers 8     # Hämmerl et al. 2023, Table 1
    python -m eval geometry --text text/wiki --transforms original --layers 12  # their Tables 2 and 3: ar.txt, en.txt
    python -m eval geometry --text tatoeba --pair en de       # a plane of two languages, as in their Figure 3

- The exact mean cosine of two sentences within a language, across languages and overall, and the mean cosine of 10,000
  random pairs within each language; the same of a sentence in English and one in another language.
- The mean of each outlier dimension and its contribution to that cosine, after each method too, as in their section
  6.4; of a folder of text, also their contribution within the languages (their Table 2).
- IsoScore; NMI between k-means clusters and languages; the accuracy of a linear language probe.
- The share of the ten nearest neighbours that are in the query's language, beside that language's share of the pool;
  and the hub measures of ``lsar_jax.geometry``. ``--scores cosine csls`` adds the same after local scaling.
- The correlation between URIEL's similarities to English and the cosine with English's mean, for the part of the
  language means that LSAR removes and for the part that it leaves, and along single directions (Xie et al. 2022).

The results have the cosines within each language, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from eval.anisotropy import ByLanguage, Contributions, of_pairs, outliers, within
from eval.command import Options, command
from eval.data.measured_text import MeasuredText, read_measured
from eval.data.typology import Signals
from eval.figures.embedding_space import draw_pair, draw_space
from eval.figures.layers import draw_layers
from eval.figures.removed import draw_syntax
from eval.scores.syntax import english_distances, syntax_scores
from eval.task import Embedded, Method, Metric, Panel, Score, Setting, Task
from eval.tasks.udhr import HALF
from lsar_jax.console.output import print_table
from lsar_jax.corpora.tables import Data
from lsar_jax.geometry import anisotropy_by_language, hub_measures, isoscore
from lsar_jax.languages import language_code
from lsar_jax.measures.compared_methods import ALL_METHODS, label
from lsar_jax.measures.hubs import HUBS, mean_hubs
from lsar_jax.measures.ranking import Bank, language_nmi, probe_accuracy, probe_folds
from lsar_jax.measures.results import Result
from lsar_jax.retrieval.preference import top_k_share
from lsar_jax.retrieval.search import nearest_others

__all__ = ["COMMAND", "geometry"]

_MEASURED = "measured"  # the group of the measured texts
# The measures of the first table.
_MEASURES = ("cosine within", "drawn", "cosine across", "cosine of all", "IsoScore", "NMI", "probe")
# The measures of the second.
_NEIGHBOURS = ("own in first 10", "pool share", *(metric.name for metric in HUBS))
_TITLE = "{} languages; cosines, shares and scores from 0 to 1, the probe in percent"
# The measures of English and another language.
_ENGLISH = ("cosine English-xx", "drawn English-xx")


def geometry(
    text: str = "udhr",
    data: Data = Path("data/tatoeba"),
    languages: tuple[str, ...] = (),
    pair: tuple[str, str] | None = None,
    uriel: Path | None = None,
    seeds: tuple[int, ...] = (0, 1, 2),
    *,
    options: Options,
) -> Task:
    """Measures and figures of the embedding space before and after each method.

    Args:
      text: the text to measure: udhr; tatoeba; or a folder with one text file per language, such as de.txt, and one
        sentence per line, of which the first 10,000 are measured. Languages without text to fit on are left out.
      data: folder of tatoeba.xxx-eng.xxx files; hub:ID; or tfds:NAME with {} for the language.
      languages: language codes; by default, all in the text.
      pair: codes of two languages to draw alone, by t-SNE; by default, none.
      uriel: path of lang2vec's distances2.zip; by default, cosine distances are computed from the features in
        lang2vec's wheel.
      seeds: seeds of k-means.
      options: all options of the command.
    """
    measured = read_measured(text, data, languages, options)
    codes = list(measured.texts)
    alone = [] if pair is None else [language_code(code) for code in pair]
    if pair is not None and (alone[0] == alone[1] or not {*alone} <= {*codes}):
        raise ValueError(f"--pair is {' '.join(pair)}; it must be two of the measured languages, {', '.join(codes)}")
    distances = english_distances(codes, uriel, options)
    return Task(
        name="geometry", title=_TITLE.format(len(codes)), languages=codes,
        parts=[{(_MEASURED, code): sentences for code, sentences in measured.texts.items()}],
        scores=partial(_scores, measured, seeds), own_text={"udhr": HALF} if text == "udhr" else {},
        evaluated="by language", of_layer=partial(_of_layer, distances), searches=True, every_layer=True, least=3,
        draw=partial(_draw, measured, alone, distances["syntax"][1] if distances else ""),
    )  # fmt: skip


def _draw(
    measured: MeasuredText, alone: Sequence[str], distances: str, results: Sequence[Result], panels: Mapping[str, Any],
    out: Path,
) -> None:  # fmt: skip
    encoder, where = results[0].encoder, f"layer {results[0].layer} ({results[0].encoder})"
    draw_layers({code: x for (_, code), x in panels["layers"].items()}, encoder, out)
    _print_tables(results, len(measured.texts))
    methods, test = panels["space"]
    english = _english_sides(measured, test)
    draw_space(methods, test, english, where, out)
    if alone:
        # On Tatoeba, the English side is that of the other language.
        sides = {c: english[d] if c == "en" else test[c] for c, d in zip(alone, alone[::-1], strict=True)}
        draw_pair(methods, sides, where, out)
    if "syntax" in panels:
        title = f"Language means and syntax, {where}; {distances.partition(',')[0]}"
        draw_syntax(panels["syntax"], title, out / "syntax.png")


def _english_sides(measured: MeasuredText, test: ByLanguage) -> ByLanguage:
    """The English sentences that each language is compared with."""
    return {code: test["en"][rows] for code, rows in measured.english.items()}


def _scores(measured: MeasuredText, seeds: Sequence[int], x: Embedded, method: Method, _: Setting) -> Iterator[Score]:
    test = {code: value for (_, code), value in x.items()}
    yield from _neighbours(test, method.bank)
    if method.bank is not None:  # the space is the same
        return
    contributions = {code: within(rows) for code, rows in test.items()}
    yield from _measures(test, contributions, seeds)
    yield from _within_languages(test, contributions, measured.parallel)
    if english := _english_sides(measured, test):
        yield from _with_english(test, english, measured.parallel)


def _measures(x: ByLanguage, contributions: Mapping[str, Contributions], seeds: Sequence[int]) -> Iterator[Score]:
    """Yields the measures of the whole space."""
    cosines = anisotropy_by_language(x)
    codes = [code for code, rows in x.items() for _ in rows]
    pool = np.concatenate(list(x.values()))
    values = (
        cosines.within,
        float(np.mean([drawn.sum() for drawn, _ in contributions.values()])),
        cosines.across,
        cosines.overall,
        isoscore(pool),
        float(language_nmi(pool, codes, seeds).mean()),
        probe_accuracy(pool, codes, probe_folds(codes, [n for rows in x.values() for n in range(len(rows))])),
    )
    for name, value in zip(_MEASURES, values, strict=True):
        metric = Metric(name, "higher" if name == "IsoScore" else "neither", unit="%" if name == "probe" else "")
        yield Score(metric, value, list(x), len(pool))


def _neighbours(x: ByLanguage, bank: Bank) -> Iterator[Score]:
    """Yields the measures of the ten nearest neighbours in the pool of all languages."""
    pool, language = np.concatenate(list(x.values())), np.repeat(np.arange(len(x)), list(map(len, x.values())))
    near = nearest_others(pool, 10, bank)[1]
    top, hubs = top_k_share(near, language, language), mean_hubs([hub_measures(near, len(pool))])
    of_pool = {_plain(_NEIGHBOURS[0]): top.share, _plain(_NEIGHBOURS[1]): top.pool_share}
    yield from (Score(metric, value, list(x), len(pool)) for metric, value in (of_pool | hubs).items())


def _outlier_scores(
    mean: Float[np.ndarray, " dim"], shares: Float[np.ndarray, " dim"], names: Sequence[str], x: ByLanguage
) -> Iterator[Score]:
    """Yields the mean and the contribution of each outlier dimension of a mean embedding that is not just rounding."""
    rounding = 1e-5 * max(np.abs(rows).max() for rows in x.values())
    for d in outliers(np.where(np.abs(mean) > rounding, mean, 0)).tolist():
        for name, value in zip(names, (mean[d], shares[d]), strict=True):
            yield Score(_plain(f"{name} dimension {d}"), float(value), list(x), sum(map(len, x.values())))


def _within_languages(x: ByLanguage, contributions: Mapping[str, Contributions], parallel: bool) -> Iterator[Score]:
    """Yields the anisotropy within each language, and the outliers."""
    if not parallel:
        center = np.mean([rows.mean(axis=0) for rows in x.values()], axis=0)
        shares = np.mean([exact for _, exact in contributions.values()], axis=0)
        yield from _outlier_scores(center, shares, ("mean within, of", "contribution within, of"), x)
    for code, (drawn, exact) in contributions.items():
        yield Score(_plain(f"cosine within {code}"), float(exact.sum()), [code], len(x[code]))
        yield Score(_plain(f"drawn within {code}"), float(drawn.sum()), [code], len(x[code]))


def _with_english(test: ByLanguage, english: ByLanguage, parallel: bool) -> Iterator[Score]:
    """Yields the anisotropy of English and another language, and the outliers."""
    languages, count = list(test), sum(map(len, test.values()))
    drawn, exact = np.mean([of_pairs(test[code], side, parallel=parallel) for code, side in english.items()], axis=0)
    for name, cosines in zip(_ENGLISH, (exact, drawn), strict=True):
        yield Score(_plain(name), float(cosines.sum()), languages, count)
    center = np.mean([test[code].mean(axis=0) for code in english], axis=0)
    yield from _outlier_scores(center, exact, ("mean of", "contribution of"), test)


def _plain(name: str) -> Metric:
    """A cosine, or a part of one."""
    return Metric(name, "neither", unit="")


def _of_layer(
    distances: Signals, x: Embedded, methods: Sequence[Method], setting: Setting
) -> Iterator[tuple[Method, Score] | Panel]:
    test = {code: value for (group, code), value in x.items() if group == _MEASURED}
    yield from syntax_scores(methods, test, setting, distances)
    if setting.first:
        yield Panel("space", ([method for method in methods if method.bank is None], test))


def _print_tables(results: Sequence[Result], languages: int) -> None:
    """Prints the measures of each method, and the cosines of English and another language."""
    table: dict[str, dict[str, float]] = {}
    for r in results:
        table.setdefault(f"{r.layer} {label(r.transform, r.parameters)}", {})[r.metric] = r.value
    english = f"A sentence in English and one in another language, mean over {languages - 1} languages"
    near = "The ten nearest neighbours: shares from 0 to 1, hub measures but the skewness in percent"
    tables = ((_TITLE.format(languages), _MEASURES), (near, _NEIGHBOURS), (english, _ENGLISH))
    for title, columns in tables:
        rows = {name: row for name, row in table.items() if set(columns) <= row.keys()}
        if rows:
            cells = [[name, *(f"{row[metric]:.3f}" for metric in columns)] for name, row in rows.items()]
            print_table(title, ["", *columns], cells)


COMMAND = command(geometry, rare=("uriel", "seeds"), transforms=ALL_METHODS)
