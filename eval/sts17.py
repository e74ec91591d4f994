"""STS17: does the cosine of two sentences grow as their meanings come nearer?

    python -m eval sts17 --data data/sts17
    python -m eval sts17 --data hub:mteb/sts17-crosslingual-sts

Cer et al., "SemEval-2017 Task 1: Semantic Textual Similarity", 2017: pairs that people gave 0 to 5. The score is
the correlation of cosine and gold, Pearson's as in the task and in Hämmerl et al. 2023, Spearman's as in
sentence-transformers and ORACLE; the mean over the monolingual tracks, the cross-lingual ones, and all.

Data: the folder of ``STS.input.track*.txt`` (two sentences and a tab) and ``STS.gs.track*.txt``, as in
github.com/eduardofv/sts_eval. Of track 6 it has 500 pairs and the gold of the first 250: the others are
left out, which is printed. The languages of the two columns are not those of a file's name in their
order: tracks 2, 4b and 6 have English first. Tracks of other languages (``STS.input.track7.en-de.txt``) are
read with the columns of their name. ``hub:mteb/sts17-crosslingual-sts`` has the tracks by their languages,
track 4b left out and four later ones added, each with its columns in the order of its name.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.stats import pearsonr, spearmanr

from eval.fitted import FittedTask
from eval.methods import Method
from eval.metrics import paired_cosine
from eval.named import Data, Tables, check_split, named_tables, one_split, plain_folder
from eval.resampling import resampled_correlations
from eval.results import Result, console
from lsar_jax import EncoderSpec, corpora
from lsar_jax.languages import language_code

__all__ = ["Sts17", "Track", "read_tracks"]

# Of which the public data have the gold of the first half, and those whose columns are turned.
_HALF = "6.tr-en"
_TURNED = ("2.ar-en", "4b.es-en", "6.tr-en")


@dataclass(frozen=True)
class Track:
    """Pairs of sentences with a score.

    Attributes:
      languages: of the two columns.
      pairs: the two columns.
      gold: 0 to 5.
    """

    languages: tuple[str, str]
    pairs: tuple[list[str], list[str]]
    gold: Float[np.ndarray, " pair"]


@dataclass(frozen=True)
class Sts17(FittedTask):
    """Semantic textual similarity: correlation of cosine and gold, per track and mean.

    Attributes:
      data: the folder of STS.input.track*.txt and STS.gs.track*.txt; or hub:ID.
      tracks: as 1.ar-ar, of the Hub as ar-ar; by default all that there are.
      split: of data with a name; by default its only one or test.
    """

    name = "sts17"

    out: Path = Path("results/sts17")
    data: Data = Path("data/sts17")
    tracks: tuple[str, ...] = ()
    split: str = ""

    def run(self) -> list[Result]:
        """Encodes, fits, scores; prints a table, writes ``results.jsonl`` and a figure."""
        results = self.measure()
        means = [metric for metric in ("Spearman mean", "Pearson mean") if any(r.metric == metric for r in results)]
        tracks = len({r.metric for r in results if r.metric.startswith("Spearman") and not r.metric.endswith("mean")})
        self.report(results, f"STS17, {tracks} tracks", means, "Spearman mean")
        return results

    def measure(self) -> list[Result]:
        """Encodes, fits and scores."""
        check_split(self.data, self.split)
        tracks = read_tracks(self.data, self.tracks, self.split)
        languages = sorted({code for track in tracks.values() for code in track.languages})
        texts = {("fit", code): text for code, text in (self.fit_texts(languages) if self.fits else {}).items()}
        for name, track in tracks.items():
            for column, (code, sentences) in enumerate(zip(track.languages, track.pairs, strict=True)):
                texts[f"{name} {column}", code] = sentences
        encoder = self.prepare(len(languages))
        x = self.encode(encoder, texts)
        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            for method in self.fitted(x, index, spec):
                results += self._score({key: value[index] for key, value in x.items()}, tracks, method, spec)
        return results

    def _score(
        self,
        x: Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]],
        tracks: Mapping[str, Track],
        method: Method,
        spec: EncoderSpec,
    ) -> list[Result]:
        """Returns both correlations of each track, and their means, with intervals over resampled pairs."""
        started = time.perf_counter()
        cosines = {}
        for name, track in tracks.items():
            sides = [method(x[f"{name} {column}", code], code) for column, code in enumerate(track.languages)]
            cosines[name] = paired_cosine(*sides)
            if np.ptp(cosines[name]) == 0:
                console.print(
                    f"track {name}: after {method.label} all cosines are {cosines[name][0]:.3f}: counted as 0"
                )
        # Every track by itself, and the means: overall, monolingual, cross-lingual.
        groups = {name: [name] for name in tracks} | {
            "mean": list(tracks),
            "monolingual mean": [name for name, track in tracks.items() if len(set(track.languages)) == 1],
            "cross-lingual mean": [name for name, track in tracks.items() if len(set(track.languages)) == 2],
        }
        results = []
        for correlation, function in (("Pearson", pearsonr), ("Spearman", spearmanr)):
            values = {
                name: 100 * float(function(cosines[name], track.gold).statistic) if np.ptp(cosines[name]) else 0.0
                for name, track in tracks.items()
            }
            drawn = {
                name: 100
                * resampled_correlations(cosines[name], track.gold, ranked=correlation == "Spearman", seed=number)
                for number, (name, track) in enumerate(tracks.items())
            }
            seconds = time.perf_counter() - started
            for group, names in groups.items():
                if not names:
                    continue
                mean, n = (
                    float(np.mean([values[name] for name in names])),
                    sum(len(tracks[name].gold) for name in names),
                )
                low, high = np.quantile(np.mean([drawn[name] for name in names], axis=0), (0.025, 0.975))
                languages = sorted({code for name in names for code in tracks[name].languages})
                of = tracks[group].languages if group in tracks else languages
                made = self.result(spec, method, of, f"{correlation} {group}", mean, n, seconds)
                results.append(replace(made, low=float(low), high=float(high)))
        return results


def read_tracks(data: Data, names: tuple[str, ...] = (), split: str = "") -> dict[str, Track]:
    """Reads the tracks, by name as ``4a.es-en``, of a dataset with a name as ``es-en``.

    Args:
      data: the folder of the files, or ``hub:ID``.
      names: of the tracks; by default all that there are.
      split: of a dataset with a name; by default its only one or ``test``.

    Raises:
      FileNotFoundError: no such data, track or gold file.
      ValueError: a line that is not two sentences, a score that is no number from 0 to 5, or more
        scores than pairs; file and line are named.
    """
    tables = named_tables(data)
    return _files(plain_folder(data), names) if tables is None else _named(tables, names, split)


def _named(tables: Tables, names: tuple[str, ...], split: str) -> dict[str, Track]:
    matches = {name: re.fullmatch(r"(\w+)-(\w+)", name) for name in tables.configs}
    there = {name: match for name, match in matches.items() if match}
    missing = [name for name in names if name not in there]
    if missing or not there:
        raise ValueError(
            f"{tables.name} has no track {', '.join(missing)}; it has {', '.join(there) or 'none as en-tr'}"
        )
    tracks = {}
    for name in names or sorted(there):
        first, second, gold = [], [], []
        for number, row in enumerate(tables.rows(name, one_split(tables, name, split)), 1):
            sides = [str(row.get(column) or "").strip() for column in ("sentence1", "sentence2")]
            score = row.get("score")
            if not all(sides) or not isinstance(score, int | float) or not 0 <= score <= 5:
                raise ValueError(
                    f"{tables.name}, track {name}, row {number} is not sentence1, sentence2 and a score from 0 to 5"
                )
            first.append(sides[0])
            second.append(sides[1])
            gold.append(float(score))
        if not gold:
            raise ValueError(f"{tables.name}, track {name} has no rows")
        languages = language_code(there[name][1]), language_code(there[name][2])
        tracks[name] = Track(languages, (first, second), np.array(gold))
    return tracks


def _files(folder: Path, names: tuple[str, ...]) -> dict[str, Track]:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; copy sts2017 of github.com/eduardofv/sts_eval there, or say --data, "
            "such as hub:mteb/sts17-crosslingual-sts"
        )
    pattern = r"STS\.input\.track(\w+\.(\w+)-(\w+))\.txt"
    there = {match[1]: match for path in folder.iterdir() if (match := re.fullmatch(pattern, path.name))}
    missing = [name for name in names if name not in there]
    if missing or not there:
        raise FileNotFoundError(
            f"{folder} has no track {', '.join(missing)}; it has {', '.join(sorted(there)) or 'none'}"
        )
    tracks = {}
    for name in names or sorted(there):
        pairs = _pairs(folder / f"STS.input.track{name}.txt")
        gold = _scores(folder / f"STS.gs.track{name}.txt")
        if len(gold) > len(pairs):
            raise ValueError(f"{folder}, track {name}: {len(pairs)} pairs and {len(gold)} scores")
        if len(gold) < len(pairs) and name != _HALF:
            raise ValueError(f"{folder}, track {name}: {len(pairs)} pairs and {len(gold)} scores")
        if len(gold) < len(pairs):
            console.print(f"track {name}: {len(pairs)} pairs, of which the first {len(gold)} have a score")
        first, second = language_code(there[name][2]), language_code(there[name][3])
        languages = (second, first) if name in _TURNED else (first, second)
        columns = ([pair[0] for pair in pairs[: len(gold)]], [pair[1] for pair in pairs[: len(gold)]])
        tracks[name] = Track(languages, columns, gold)
    return tracks


def _pairs(path: Path) -> list[list[str]]:
    pairs = [line.split("\t") for line in corpora.lines(path)]
    for number, pair in enumerate(pairs, 1):
        if len(pair) != 2 or not all(part.strip() for part in pair):
            raise ValueError(f"{path}, line {number} is not two sentences and a tab between them")
    return pairs


def _scores(path: Path) -> Float[np.ndarray, " pair"]:
    scores = []
    for number, line in enumerate(corpora.lines(path), 1):
        try:
            score = float(line)
        except ValueError:
            score = -1.0
        if not 0 <= score <= 5:
            raise ValueError(f"{path}, line {number}: {line!r} is not a score from 0 to 5")
        scores.append(score)
    return np.array(scores)
