"""STS17: does the cosine of two sentences increase with the similarity of their meanings?

    python -m eval sts17 --data data/sts17
    python -m eval sts17 --data hub:mteb/sts17-crosslingual-sts
    python -m eval sts17 --fit-on evaluated --transforms original whitening sample-whitening cbie

The data are the sentence pairs of Cer et al., "SemEval-2017 Task 1: Semantic Textual Similarity", 2017, which people
rated from 0 to 5. The score is the correlation between the cosine and this gold score: Pearson's, as in the shared task
and in Hämmerl et al. 2023, and Spearman's, as in sentence-transformers and ORACLE. Means are taken over the monolingual
tracks, over the cross-lingual tracks, and over all tracks. With ``--fit-on evaluated``, whitening and CBIE are fitted
on each column of a track by itself, as in that paper's Table 5, and the other methods on the sentences of each
language.

``eval.data.sts17`` documents the files and where to get them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

from eval.data.sts17 import Track, read_tracks
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.metrics import paired_cosine
from eval.resampling import resampled_correlations
from eval.results import Result
from eval.score import Score
from eval.task import Embedded, Texts
from lsar_jax import EncoderSpec
from lsar_jax.cli.console import console
from lsar_jax.corpora.tables import Data, check_split

__all__ = ["Sts17"]


@dataclass(frozen=True)
class Sts17(FittedTask):
    """Semantic textual similarity: correlation between cosine and gold score, per track and on average.

    Attributes:
      data: folder of STS.input.track*.txt and STS.gs.track*.txt files, or hub:ID.
      tracks: tracks to test, such as 1.ar-ar, or ar-ar for a Hub dataset; by default, all available.
      split: split of a named dataset; by default, its only split, or else test.
      fit_on: text to fit transforms on: udhr, for the Universal Declaration of Human Rights; evaluated, for the
        evaluated sentences; a folder with one text file per language; tfds:NAME/{}; or hub:ID.
    """

    name = "sts17"
    fits_evaluated = True

    out: Path = Path("results/sts17")
    data: Data = Path("data/sts17")
    tracks: tuple[str, ...] = ()
    split: str = ""

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return f"STS17, {len(self.scored_tracks)} tracks"

    @cached_property
    def scored_tracks(self) -> dict[str, Track]:
        """The tracks with their gold scores."""
        check_split(self.data, self.split)
        return read_tracks(self.data, self.tracks, self.split)

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return sorted({code for track in self.scored_tracks.values() for code in track.languages})

    def texts(self) -> Texts:
        """Returns both columns of each track."""
        return {
            (f"{name} {column}", code): sentences
            for name, track in self.scored_tracks.items()
            for column, (code, sentences) in enumerate(zip(track.languages, track.pairs, strict=True))
        }

    def fit_texts(self) -> Mapping[str, Sequence[str]]:
        """Returns the text to fit on; empty if transforms are fitted on the evaluated sentences."""
        if self.fit_on != "evaluated":
            return super().fit_texts()
        _ = self.further_codes(self.codes())
        return {}

    def methods(self, x: Embedded, spec: EncoderSpec) -> list[Method]:
        """Fits every method on the fitting text, or on the evaluated sentences."""
        if self.fit_on != "evaluated":
            return super().methods(x, spec)
        own = {code: [value for (_, other), value in x.items() if other == code] for code in self.codes()}
        return self.fit_evaluated(x, {code: np.concatenate(several) for code, several in own.items()}, spec)

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields both correlations of each track, and their means, with intervals over resampled pairs."""
        tracks = self.scored_tracks
        cosines = {}
        for name, track in tracks.items():
            cosines[name] = paired_cosine(*(x[f"{name} {column}", code] for column, code in enumerate(track.languages)))
            if np.ptp(cosines[name]) == 0:
                console.print(
                    f"track {name}: after {method.label}, all cosines are {cosines[name][0]:.3f}, so the score is 0"
                )
        # Each track by itself, and the means over all, the monolingual and the cross-lingual tracks.
        groups = {name: [name] for name in tracks} | {
            "mean": list(tracks),
            "monolingual mean": [name for name, track in tracks.items() if len(set(track.languages)) == 1],
            "cross-lingual mean": [name for name, track in tracks.items() if len(set(track.languages)) == 2],
        }
        for correlation, function in (("Pearson", pearsonr), ("Spearman", spearmanr)):
            values = {
                name: 100 * float(function(cosines[name], track.gold).statistic) if np.ptp(cosines[name]) else 0.0
                for name, track in tracks.items()
            }
            ranked = correlation == "Spearman"
            drawn = {
                name: 100 * resampled_correlations(cosines[name], track.gold, ranked=ranked, seed=number)
                for number, (name, track) in enumerate(tracks.items())
            }
            for group, names in groups.items():
                if not names:
                    continue
                mean = float(np.mean([values[name] for name in names]))
                n = sum(len(tracks[name].gold) for name in names)
                low, high = np.quantile(np.mean([drawn[name] for name in names], axis=0), (0.025, 0.975))
                every = sorted({code for name in names for code in tracks[name].languages})
                languages = tracks[group].languages if group in tracks else every
                yield Score(f"{correlation} {group}", mean, languages, n, low=float(low), high=float(high))

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns the means over all tracks."""
        return ["Spearman mean", "Pearson mean"]
