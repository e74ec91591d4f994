"""Held-out parallel text: find each sentence's translation among all held-out pairs.

    python -m eval bitext --data data/bitext
    python -m eval bitext --data data/bitext --fit-on train
    python -m eval bitext --data hub:mteb/bucc-bitext-mining

A seed chooses the held-out pairs from the distinct pairs; training with the same options leaves out the same pairs. The
mean cosine of the original embeddings of the pairs is measured too (Ki et al. 2024, Table 2).
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from eval.command import command
from eval.data.fit_text import FitText
from eval.scores.translations import translations
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.corpora.parallel_text import Pair, read_bitext
from lsar_jax.corpora.parallel_text import held_out as split_pairs
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.ranking import paired_cosine

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
    """

    @cache
    def parts(codes: tuple[str, ...]) -> Parts:
        result: Parts = {}
        for code, pairs in read_bitext(data, codes, "--data", split=split).items():
            try:
                result[code] = split_pairs(pairs, held_out, split_seed)
            except ValueError as error:
                raise ValueError(f"{data}, {code}: {error}") from error
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
    title = f"{held_out if held_out >= 1 else f'{held_out:.0%}'} held-out pairs of {name}"
    return translations("bitext", title, pairs, seen=seen, own_text={"train": text}, of_layer=_cosines)


def _cosines(x: Embedded, methods: Sequence[Method], _: Setting) -> Iterator[tuple[Method, Score]]:
    """Yields the mean cosine of the pairs of each language, in the original embeddings."""
    for method in (method for method in methods if method.name == "original"):
        for code in (code for side, code in x if side == "xx"):
            cosines = QueryScores(np.asarray(paired_cosine(x["en", code], x["xx", code]), np.float64))
            yield method, Score.of(Metric(f"cosine en-{code}", unit=""), [code], cosines)


COMMAND = command(bitext, rare=("split_seed", "split"))
