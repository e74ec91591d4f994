"""Calibrated scores: a threshold for a wanted share of false accepts, and the share of right matches.

A match of a query is right or wrong, and a query may have no right match at all. So that a threshold means the same for
any two languages, scores are cosines after a transform, scaled by its bank (CSLS, ``nearest``). Thresholds are
split-conformal (Vovk et al. 2005): of n wrong scores, the ``ceil((n + 1) (1 - error))``-th smallest is reached by a
further, exchangeable one with a probability of at most ``error``. The share of right matches is the isotonic regression
of right and wrong matches on their scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.arrays import digest
from lsar_jax.checks import check_flags, finite_numbers, positive_number, whole_number
from lsar_jax.languages import canonical_keys, language_code
from lsar_jax.retrieval.matches import Matches, find_matches
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec, same_source
from lsar_jax.transforms import Transform

__all__ = ["Calibration", "PairResult", "calibrate", "conformal_threshold", "digests_of"]

FORMAT = "lsar_jax.calibration.v1"


class PairResult(NamedTuple):
    """A threshold, and what it does on lines that it was not chosen on, in percent.

    Attributes:
      threshold: the lowest score that is accepted.
      found: queries whose right candidate is first and accepted.
      false_accepts: queries without a right candidate whose first result is accepted.
    """

    threshold: float
    found: float
    false_accepts: float


def conformal_threshold(
    wrong: Float[np.ndarray, "*pair line"], error: float = 0.05, *, lines: int | None = None
) -> float:
    """Returns the threshold that wrong scores of a further line are at or above in at most the share ``error``.

    Lines are exchangeable, but not the scores of a line in several pairs, ``[pair, line]``. Of n lines and P pairs, the
    ``ceil((n + 1) (1 - error) P)``-th smallest score keeps the promise on average over the pairs: among the scores of
    n + 1 lines, the share above that place is at most ``error``, and no line is special. ``lines`` is n where lines are
    in different pairs, whose scores are one array.

    Raises:
      ValueError: there are fewer lines than ``1 / error - 1``, a score is not finite, or ``error`` is not a share.

    Example:
      >>> from lsar_jax.retrieval.calibration import conformal_threshold
      >>> conformal_threshold(np.arange(19.0), 0.05)  # above all: 19 lines are just enough
      18.000001907348633
    """
    error, lines = positive_number("error", error, share=True), lines or wrong.shape[-1]
    wrong = np.sort(finite_numbers("the wrong scores", wrong.ravel()))
    # Less rounding, as of 1 - 0.95.
    exact = 1 / error - 1, (1 + 1 / max(lines, 1)) * (1 - error) * len(wrong)
    needed, place = (int(np.ceil(number - 1e-9)) for number in exact)
    if lines < needed:
        raise ValueError(
            f"the calibration has {lines} lines, but an error of {error:.3g} needs {needed:,}; calibrate on more, in "
            "collections as large as those searched, or allow a larger error"
        )
    # In float32, because numpy compares float32 scores with a number that is rounded to it.
    return float(np.nextafter(np.float32(wrong[max(place, 1) - 1]), np.float32(np.inf)))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of matches that are known to be right or wrong, by pair of languages, and thresholds from them.

    Attributes:
      pairs: the languages of the queries and of the candidates, in the order of the rows.
      matches: their matches, ``[pair, line]``.
      candidates: size of the collections; in a larger one, more queries have a wrong candidate with a high score.
      scaled: whether the scores are CSLS against the transform's bank, and not cosines.
      digests: of the transform and of its bank; see ``digests_of``.
      source: spec of the embeddings that it takes, or None for bare arrays.
    """

    pairs: tuple[tuple[str, str], ...]
    matches: Matches
    candidates: int
    scaled: bool
    digests: tuple[str, ...]
    source: EncoderSpec | None = None

    def threshold(
        self, error: float = 0.05, *, pair: Sequence[str] | None = None, candidates: int | None = None
    ) -> float:
        """Returns the lowest score to accept, for all pairs of languages, or for one.

        Of queries whose right candidate is not in the collection, at most the share ``error`` is accepted if queries
        are drawn as the lines of the calibration were: over its pairs as a whole, or in the pair that is chosen.

        Args:
          error: the wanted share of false accepts.
          pair: codes of the languages of the queries and of the candidates; by default, one threshold for all.
          candidates: size of the collection, if it is larger than the calibration's. A query has more wrong candidates
            there, so ``error`` is divided by the ratio of the sizes (the union bound), which needs as many more lines.

        Raises:
          ValueError: there are too few lines for the error, or the pair is not known.
        """
        absent = self.matches.absent
        if pair is not None:
            known, name = [f"{a} to {b}" for a, b in self.pairs], " to ".join(map(language_code, pair))
            if name not in known:
                raise ValueError(f"the pair {name} is not calibrated; the pairs are {', '.join(known)}")
            absent = absent[known.index(name)]
        size = self.candidates if candidates is None else whole_number("candidates", candidates, 1, 1 << 62, "vectors")
        return conformal_threshold(absent, error * min(1.0, self.candidates / size))

    def share(self, scores: Float[AnyArray, "*shape"], absent_share: float = 0.5) -> Float[np.ndarray, "*shape"]:
        """Returns the share of matches with each score that are right, from 0 to 1, in the shape of ``scores``.

        Args:
          scores: of first results.
          absent_share: of queries that have no right candidate in the collection, which scores do not tell. The
            collection is taken to be as large as the calibration's.
        """
        from scipy.optimize import isotonic_regression

        absent = min(positive_number("absent_share", absent_share, share=True), 1 - 1e-9)
        found = np.concatenate([self.matches.score.ravel(), self.matches.absent.ravel()]).astype(np.float64)
        right = np.concatenate([self.matches.right.ravel(), np.zeros(self.matches.absent.size)])
        weights = np.repeat([1 - absent, absent], self.matches.score.size)
        order = np.argsort(found, kind="stable")
        shares = isotonic_regression(right[order], weights=weights[order]).x
        return np.interp(np.asarray(scores, np.float64), found[order], shares)

    def held_out(self, error: float = 0.05, *, by_pair: bool = False) -> dict[tuple[str, str], PairResult]:
        """Returns what thresholds do on lines that they were not chosen on: each half of the lines tests the other's.

        Args:
          error: the wanted share of false accepts.
          by_pair: whether each pair has a threshold of its own.
        """
        fold = np.arange(self.matches.score.shape[1]) % 2
        found: dict[tuple[str, str], PairResult] = {}
        for row, pair in enumerate(self.pairs):
            parts = []
            for half in (0, 1):
                chosen = self.matches.absent[row : row + 1] if by_pair else self.matches.absent
                limit, tested = conformal_threshold(chosen[:, fold != half], error), fold == half
                right = self.matches.right[row, tested] & (self.matches.score[row, tested] >= limit)
                parts.append((limit, 100 * right.mean(), 100 * (self.matches.absent[row, tested] >= limit).mean()))
            found[pair] = PairResult(*np.mean(parts, axis=0).tolist())
        return found

    def check(self, transform: Transform, scaled: bool = True) -> None:
        """Raises ValueError unless embeddings that ``transform`` returns have these scores."""
        same_source("the calibration", {"the transform": transform.source, "the calibration": self.source})
        if digests_of(transform, scaled) != self.digests:
            raise ValueError(
                f"the calibration is of other scores than those of {transform.name}{' with its bank' * scaled}; "
                "calibrate again with it, or give the transform that it was made with"
            )

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file."""
        header = {
            "pairs": self.pairs, "candidates": self.candidates, "scaled": self.scaled, "digests": self.digests,
            "source": self.source and self.source.to_dict(),
        }  # fmt: skip
        save_arrays(Path(path), self.matches._asdict(), format=FORMAT, header=header)

    @classmethod
    def load(cls, path: str | Path) -> "Calibration":
        """Reads a file that ``save`` wrote; raises FileNotFoundError, or ValueError if it is not such a file."""
        with open_arrays(Path(path), format=FORMAT, what="calibration") as file:
            matches, header = Matches(*map(file.read, Matches._fields)), dict(file.header)
        source = EncoderSpec.from_dict(header["source"]) if header["source"] else None
        pairs, digests = tuple((a, b) for a, b in header["pairs"]), tuple(header["digests"])
        return cls(pairs, matches, header["candidates"], header["scaled"], digests, source)


def calibrate(x: Mapping[str, Embeddings], transform: Transform, *, local_scaling: bool = True) -> Calibration:
    """Calibrates scores on lines in several languages, each line a translation of the same line in the others.

    Take lines that the transform was not fitted on, as many as the collections that you search have, if you can.

    Args:
      x: mapping from language to raw embeddings ``[line, dim]`` of the same lines in each; for known pairs of two
        collections, any two codes of languages that the transform takes.
      transform: applied to them; ``transform.at_strength(0)`` calibrates the embeddings as they are.
      local_scaling: whether scores are CSLS against ``transform.bank``, or cosines.

    Raises:
      ValueError: there are fewer than two languages or lines, their numbers differ, an array or code is invalid, or the
        transform has no bank.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> meaning, place = rng.normal(size=(400, 32)), 4 * np.eye(32)
      >>> x = {code: meaning + place[i] + rng.normal(size=(400, 32)) / 2 for i, code in enumerate(("de", "en", "fr"))}
      >>> lsar = lj.transforms.fit_lsar({code: rows[:200] for code, rows in x.items()})
      >>> calibration = lj.calibrate({code: rows[200:] for code, rows in x.items()}, lsar)
      >>> of_pair = calibration.held_out(error=0.05)[("de", "fr")]
      >>> of_pair.found > 90, of_pair.false_accepts < 10
      (True, True)
    """
    check_flags(local_scaling=local_scaling)
    x = canonical_keys(x)
    counts = {code: len(rows) for code, rows in x.items()}
    if len(x) < 2 or len(set(counts.values())) > 1:
        raise ValueError(f"the lines of the languages are {counts}; give the same number of lines in at least two")
    moved = {code: np.asarray(transform(rows, code)) for code, rows in x.items()}
    bank = transform.bank if local_scaling else None
    pairs, found = tuple(permutations(moved, 2)), dict[tuple[str, str], Sequence[np.ndarray]]()
    for b, candidates in moved.items():
        # All languages search the candidates at once: they are scaled once, and small searches wait for Python.
        others = [code for code in moved if code != b]
        right = np.tile(np.arange(len(candidates)), len(others))
        of = find_matches(np.concatenate([moved[a] for a in others]), candidates, right=right, bank=bank)
        split = (np.split(part, len(others)) for part in of)
        found |= {(a, b): parts for a, parts in zip(others, zip(*split, strict=True), strict=True)}
    matches = Matches(*map(np.stack, zip(*map(found.__getitem__, pairs), strict=True)))
    return Calibration(
        pairs, matches, counts[pairs[0][0]], local_scaling, digests_of(transform, local_scaling), transform.source
    )


def digests_of(transform: Transform, scaled: bool) -> tuple[str, ...]:
    """Returns the digests of a transform and, for scaled scores, of the sample that its bank is made of."""
    bank = (digest(*transform.sample, *transform.sample.values()),) if scaled else ()
    return (*transform.digests, *bank)
