"""Tatoeba: find each sentence's translation among a language's sentences, in both directions.

    python -m eval tatoeba --data data/tatoeba
    python -m eval tatoeba --data hub:mteb/tatoeba-bitext-mining
    python -m eval tatoeba --fit-on evaluated --transforms original center lsar whitening sample-whitening cbie
    python -m eval tatoeba --transforms original largest zero --zero 15 15,297
    python -m eval tatoeba --transforms original linear shift --parallel data/sentences

The protocol follows XTREME (Hu et al., ICML 2020) and Xie et al. 2022: 36 languages of LASER's Tatoeba v1, up to
1,000 pairs each, and the accuracy of the nearest neighbour by cosine, averaged over languages. The papers report
English queries, ``en-xx``. With ``--fit-on evaluated``, whitening and CBIE are fitted on each file separately, as in
Hämmerl et al. 2023, but with 1e-8 added to the eigenvalues; ``sample-whitening`` is the whitening of their code, which
adds 1e-5. The other methods are fitted on all languages together, with the 36 English sides pooled
as one language (Xie et al. fit on other text, 10,000 lines of OSCAR per language). The anisotropy is the mean cosine of
10,000 pairs of a sentence in English and one in another language that does not translate it (Hämmerl et al., Table 5).

``eval.data.tatoeba`` documents the files and where to get them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from eval.anisotropy import of_pairs
from eval.command import command
from eval.data.tatoeba import ORACLE_14, XTREME_36, read_pairs
from eval.scores.translations import translations
from eval.task import Embedded, Method, Metric, Panel, Score, Setting, Task
from lsar_jax.corpora.tables import Data

__all__ = ["COMMAND", "tatoeba"]


def tatoeba(
    data: Data = Path("data/tatoeba"), languages: tuple[str, ...] = XTREME_36, seen: tuple[str, ...] = ()
) -> Task:
    """Retrieval of translations on LASER's Tatoeba v1.

    Args:
      data: folder of tatoeba.xxx-eng.xxx files; hub:ID; or tfds:NAME with {} for the language.
      languages: language codes; by default, the 36 of XTREME.
      seen: languages that transforms may be fitted on; by default, all for which there is text to fit on.
    """
    # ORACLE's two sets of languages; the larger one lacks Indonesian.
    groups = {"of ORACLE's 14": ORACLE_14, "without id": [code for code in XTREME_36 if code != "id"]}
    task = translations(
        "tatoeba",
        "Tatoeba",
        read_pairs(data, languages),
        seen=seen,
        groups=groups if set(languages) >= set(XTREME_36) else {},
        evaluated="no" if seen else "by file",
    )

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score | Panel]:
        yield from task.scores(x, method, setting)
        codes = [code for side, code in x if side == "xx" and len(x[side, code]) > 1]
        if codes:
            cosines = [of_pairs(x["xx", code], x["en", code], parallel=True)[0].sum() for code in codes]
            count = sum(len(x["xx", code]) for code in codes)
            metric = Metric("anisotropy mean", "lower", unit="").over(len(codes))
            yield Score(metric, float(np.mean(cosines)), codes, count)

    return replace(task, scores=scores)


COMMAND = command(tatoeba)
