"""STS17: does the cosine of two sentences increase with the similarity of their meanings?

    python -m eval sts17 --data data/sts17
    python -m eval sts17 --data hub:mteb/sts17-crosslingual-sts
    python -m eval sts17 --fit-on evaluated --transforms original whitening sample-whitening cbie

The data are the sentence pairs of Cer et al., "SemEval-2017 Task 1: Semantic Textual Similarity", 2017, which people
rated from 0 to 5 (``eval.data.sts17``). The score is the correlation between the cosine and this gold score: Pearson's,
as in the shared task and in Hämmerl et al. 2023, and Spearman's, as in sentence-transformers and ORACLE. With
``--fit-on evaluated``, whitening and CBIE are fitted on each column of a track by itself, as in Hämmerl et al.'s
Table 5, and the other methods on the sentences of each language.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

from eval.command import command
from eval.data.sts17 import Track, read_tracks
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.corpora.tables import Data
from lsar_jax.measures.correlations import pseudo_values, resampled_correlations
from lsar_jax.measures.metric import Kind
from lsar_jax.measures.query_scores import difference_of, strata_of
from lsar_jax.measures.ranking import paired_cosine

__all__ = ["COMMAND", "sts17"]

# Means that show what a method costs and gains.
_COLUMNS: dict[str, Kind] = {"monolingual mean": "in one language", "cross-lingual mean": "across languages"}


def sts17(data: Data = Path("data/sts17")) -> Task:
    """Semantic textual similarity: correlation between cosine and gold score, per track and on average.

    Args:
      data: folder of STS.input.track*.txt and STS.gs.track*.txt files, or hub:ID.
    """
    tracks = read_tracks(data)
    texts = {
        (f"{name} {column}", code): sentences
        for name, track in tracks.items()
        for column, (code, sentences) in enumerate(zip(track.languages, track.pairs, strict=True))
    }
    return Task(
        name="sts17",
        title=f"STS17, {len(tracks)} tracks",
        languages=sorted({code for _, code in texts}),
        parts=[texts],
        scores=partial(_scores, tracks),
        evaluated="by file",
    )


def _scores(tracks: Mapping[str, Track], x: Embedded, method: Method, _: Setting) -> Iterator[Score]:
    """Yields the correlations of each track, and their means over all, the monolingual and the cross-lingual ones.

    Monolingual minus cross-lingual is the gap in section 6.2 of Ki et al. 2024.
    """
    kinds = {count: [name for name, of in tracks.items() if len(set(of.languages)) == count] for count in (1, 2)}
    means = {"mean": list(tracks), "monolingual mean": kinds[1], "cross-lingual mean": kinds[2]}
    groups = {name: of for name, of in ({name: [name] for name in tracks} | means).items() if of}
    cosines = {
        name: paired_cosine(*(x[f"{name} {column}", code] for column, code in enumerate(track.languages)))
        for name, track in tracks.items()
    }
    for correlation, function in (("Spearman", spearmanr), ("Pearson", pearsonr)):
        values, drawn, queries = {}, {}, {}
        for number, (name, track) in enumerate(tracks.items()):
            sides, ranked = (cosines[name], track.gold), function is spearmanr
            # Of equal cosines, the correlation counts as 0.
            values[name] = 100 * float(function(*sides).statistic) if np.ptp(sides[0]) else 0.0
            drawn[name] = 100 * resampled_correlations(*sides, ranked=ranked, seed=number)
            queries[name] = QueryScores(100 * pseudo_values(*sides, ranked=ranked))
        for group, names in groups.items():
            metric = Metric(f"{correlation} {group}", shown=group == "mean")
            if correlation == "Spearman" and group in _COLUMNS:
                metric = Metric(metric.name, kind=_COLUMNS[group], column=group.removesuffix(" mean"))
            mean = float(np.mean([values[name] for name in names]))
            n = sum(len(tracks[name].gold) for name in names)
            low, high = np.quantile(np.mean([drawn[name] for name in names], axis=0), (0.025, 0.975))
            codes = sorted({code for name in names for code in tracks[name].languages})
            languages = tracks[group].languages if group in tracks else codes
            of_pairs = strata_of([queries[name] for name in names])
            yield Score(metric, mean, languages, n, of_pairs, float(low), float(high))
        if all(kinds.values()):
            gap = difference_of(*([queries[name] for name in names] for names in kinds.values()))
            metric = Metric(f"{correlation} monolingual minus cross-lingual", "neither")
            yield Score.of(metric, sorted({code for of in tracks.values() for code in of.languages}), gap)


COMMAND = command(sts17)
