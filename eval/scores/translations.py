"""Search for translations in pairs of languages: the task that Tatoeba, any parallel text and code-switching share.

The score is the accuracy of the nearest neighbour, in each direction, as the mean of both and as their difference (Ki
et al. 2024, section 6.1), with means over languages. A method that depends on the language is tested on the languages
that it was fitted on. The original embeddings, and transforms that are the same for all languages, are tested on all
languages; those that were not fitted on are also reported separately.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eval.figures.plots import rank_curves
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.languages import language_code
from lsar_jax.measures.query_scores import strata_of
from lsar_jax.measures.ranking import top1_hits
from lsar_jax.measures.results import Result, by_method

__all__ = ["TranslatedTexts", "translations"]

# Language -> (English sentences, their translations), line by line.
TranslatedTexts = Mapping[str, tuple[Sequence[str], Sequence[str]]]

_WAYS = {"en-xx": "from English", "xx-en": "into English"}


def translations(
    name: str,
    title: str,
    pairs: TranslatedTexts,
    *,
    seen: Sequence[str] = (),
    groups: Mapping[str, Sequence[str]] | None = None,
    **fields: Any,
) -> Task:
    """Returns a task of retrieval of translations, from and into English.

    Transforms may be fitted on the languages that are ``seen``, by default all. ``groups`` are named sets of languages
    to report means for, where all of a set are tested; ``fields`` are further attributes of the task.
    """
    to_fit = [language_code(code) for code in seen] or list(pairs)
    if unknown := [code for code in to_fit if code not in pairs]:
        raise ValueError(f"--seen has {', '.join(unknown)}, but there are pairs only for {', '.join(pairs)}")
    return Task(
        name=name,
        title=title,
        languages=[*to_fit, "en"],
        parts=[{(side, code): list(pairs[code][n]) for code in pairs for n, side in enumerate(("en", "xx"))}],
        scores=partial(_scores, groups or {}),
        some=True,
        searches=True,
        draw=partial(_draw, title),
        **fields,
    )


def _scores(groups: Mapping[str, Sequence[str]], x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
    """Yields the accuracy of each language and direction, and means over sets of languages."""
    tested = [code for side, code in x if side == "xx"]
    known = [[code for code in tested if code in of] for of in (setting.paired, setting.fitted)]
    # The tables have the means over what methods are fitted on, in which all can be compared, and over all.
    means = {f"mean over {len(codes)}": codes for codes in (*known, tested) if codes}
    shown = set(means)
    if unseen := [code for code in tested if code not in setting.fitted]:
        means[f"mean over {len(unseen)} unseen"] = unseen
    means |= {f"mean {of}": list(codes) for of, codes in groups.items() if set(codes) <= set(tested)}
    hits = {
        way: {code: 100.0 * top1_hits(x[asked, code], x[read, code], method.bank) for code in tested}
        for way, (asked, read) in ((way, way.split("-")) for way in _WAYS)
    }
    ways = [(way, of, "") for way, of in hits.items()]
    both = {code: np.mean([of[code] for of in hits.values()], axis=0) for code in tested}
    gap = {code: hits["xx-en"][code] - hits["en-xx"][code] for code in tested}
    for way, values, end in (*ways, ("en-xx", both, ", both ways"), ("xx-en", gap, " minus en-xx")):
        queries = {code: QueryScores(values[code]) for code in tested}
        for code in tested:
            metric = Metric(f"{way} accuracy{end}".replace("xx", code), "neither" if values is gap else "higher")
            yield Score.of(metric, [code], queries[code])
        for of, codes in means.items():
            metric = Metric(f"{way} {of}{end}", metric.direction)
            if of in shown and not end:
                metric = Metric(metric.name, kind="across languages", column=_WAYS[way], shown=True)
            yield Score.of(metric, codes, strata_of([queries[code] for code in codes]))


def _draw(title: str, results: Sequence[Result], _: Mapping[str, Any], out: Path) -> None:
    """Draws accuracy against rank, if a method was fitted with several ranks."""
    metric, table = next(r.metric for r in results if r.shown), by_method(results)
    panels = {
        f"layer {layer}": {label: row[layer, metric].value for label, row in table.items() if (layer, metric) in row}
        for layer in dict.fromkeys(result.layer for result in results)
    }
    rank_curves(panels, f"{metric}, %", f"{title} ({results[0].encoder})", out / "ranks.png")
