"""Held-out parallel text: find each sentence's translation among all held-out pairs.

    python -m eval bitext --data data/bitext
    python -m eval bitext --data data/bitext --fit-on train
    python -m eval bitext --data hub:mteb/bucc-bitext-mining

A seed chooses the held-out pairs from the distinct pairs; training with the same options leaves out the same pairs. The
mean cosine of the original embeddings of the pairs is measured too (Ki et al. 2024, Table 2).

xsim is the share of sentences, in percent, whose English sentence with the largest ratio margin over four neighbours is
not their translation, as in LASER (Artetxe and Schwenk 2019).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from eval.command import command
from eval.data.fit_text import FitText
from eval.scores.translations import translations
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.checks import errors_of
from lsar_jax.corpora.parallel_text import Pair, read_bitext
from lsar_jax.corpora.parallel_text import held_out as split_pairs
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.query_scores import strata_of
from lsar_jax.measures.ranking import paired_cosine
from lsar_jax.mining import mine

__all__ = ["COMMAND", "bitext"]

# Language -> pairs to train on, and those that are held out.
Parts = dict[str, tuple[list[Pair], list[Pair]]]


def bitext(
    data: Data = Path("data/bitext"),
    languages: tuple[str, ...] = (),
    held_out: int | float = 500,
    split_seed: int = 0,
    seen: tuple[str, ...] = (),
    split: str = "",
    sample: int | None = None,
) -> Task:
    """Retrieval of translations on held-out pairs of any parallel text.

    Args:
      data: folder of en-xx.tsv files with the fields domain, English, xx; a folder of Moses files; a prepared dataset;
        hub:ID; or tfds:NAME with {} for the language.
      languages: language codes; by default, all in the data.
      held_out: number of held-out pairs per language; below 1, the share of each language's pairs.
      split_seed: seed that chooses the held-out pairs.
      seen: languages that transforms may be fitted on; by default, all for which there is text to fit on.
      split: split of a named dataset, hub:ID or tfds:NAME; by default, its only split, or else test.
      sample: number of pairs per language to draw at random, by split_seed, before all else; by default, all.
    """

    @cache
    def parts(codes: tuple[str, ...]) -> Parts:
        result: Parts = {}
        for code, pairs in read_bitext(data, codes, "--data", split, sample, split_seed).items():
            with errors_of(f"{data}, {code}"):
                result[code] = split_pairs(pairs, held_out, split_seed)
        return result

    def train(codes: Sequence[str], count: int) -> dict[str, list[str]]:
        """The pairs that are not held out, with English pooled from all languages."""
        further = set(codes) - {"en", *parts(languages)}
        whole = parts(()) if further else parts(languages)
        test = {english for _, pairs in whole.values() for english, _ in pairs}
        chosen = {code: pairs for code, (pairs, _) in whole.items() if code in codes}
        texts = {code: [other for _, other in pairs] for code, pairs in chosen.items()}
        # An English sentence may be held out with one language and not with another.
        texts["en"] = list(dict.fromkeys(e for pairs in chosen.values() for e, _ in pairs if e not in test))
        return {code: texts[code][:count] for code in sorted(texts)}

    # Without the commit of a Hub dataset, which the options record.
    name = Path(data).name.partition("@")[0] if str(data).startswith("hub:") else Path(data).name
    pairs = {code: ([a for a, _ in held], [b for _, b in held]) for code, (_, held) in parts(languages).items()}
    text = FitText(f"{name} but the held-out pairs", lambda: list(parts(())), train)
    # What LASER, or LaBSE and InfoXLM, were not trained on (Ki et al. 2024, section 6.1), and the others.
    unseen = [codes for codes in (("gn",), ("gn", "ay")) if set(codes) < pairs.keys()]
    groups = {f"but {' and '.join(of)}": [code for code in pairs if code not in of] for of in unseen}
    groups |= {f"of {' and '.join(of)}": list(of) for of in unseen}
    title = f"{held_out if held_out >= 1 else f'{held_out:.0%}'} held-out pairs of {name}"
    task = translations("bitext", title, pairs, seen=seen, groups=groups, own_text={"train": text})
    return replace(task, scores=partial(_with_errors, task.scores))


def _with_errors(scores: Callable[..., Iterable[Any]], x: Embedded, method: Method, setting: Setting) -> Iterator[Any]:
    """Yields the scores of translations, the margin's errors, and the original cosines of the pairs."""
    yield from scores(x, method, setting)
    if method.bank is not None:  # a margin is a scale already
        return
    codes = [code for side, code in x if side == "xx"]
    for code in codes if method.name == "original" else ():
        cosines = QueryScores(np.asarray(paired_cosine(x["en", code], x["xx", code]), np.float64))
        yield Score.of(Metric(f"cosine en-{code}", unit=""), [code], cosines)
    wrong = {}
    for code in codes:
        found, hits = mine(x["xx", code], x["en", code], k=4, retrieval="forward"), np.zeros(len(x["xx", code]), bool)
        hits[found.source] = found.source == found.target
        wrong[code] = QueryScores(100.0 * ~hits)
        yield Score.of(Metric(f"xsim {code}-en", "lower"), [code], wrong[code])
    yield Score.of(Metric("xsim", "lower").over(len(codes)), codes, strata_of([*wrong.values()]))


COMMAND = command(bitext, rare=("split_seed", "split", "sample", "seen"))
