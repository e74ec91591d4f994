"""Groups of translations and near-duplicates inside one collection of any number of languages.

Two sentences are joined if each is among the nearest others of the other, and both scores reach a threshold; a group is
what is connected so (``scipy.sparse.csgraph``). No language of a sentence needs to be known. Chains can join what is
less alike than the threshold: choose a high one.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import whole_number
from lsar_jax.corpora.row_files import JSON_LINES
from lsar_jax.embeddings import Embeddings
from lsar_jax.files import new_file
from lsar_jax.mining.pair_files import flat
from lsar_jax.mining.thresholds import bank_of, check_threshold
from lsar_jax.retrieval.calibration import Calibration
from lsar_jax.retrieval.search import nearest_others
from lsar_jax.shapes import AnyArray
from lsar_jax.transforms import Transform

__all__ = ["Groups", "duplicate_groups", "write_duplicates"]


class Groups(NamedTuple):
    """The group of each row, ``[row]``, and its best score within it; NaN where the row is alone."""

    number: Int[np.ndarray, " row"]
    score: Float[np.ndarray, " row"]


def duplicate_groups(
    x: Float[AnyArray, "row dim"], threshold: float, *, k: int = 10, bank: Float[AnyArray, "kept dim"] | None = None
) -> Groups:
    """Groups rows that are translations or near-duplicates of each other.

    Memory holds the vectors and ``k`` neighbours of each.

    Args:
      x: embeddings of distinct sentences, ``[row, dim]``.
      threshold: the lowest score of two rows that are joined, a cosine or, with a bank, CSLS.
      k: number of nearest others of a row, at most as many as there are.
      bank: ``[kept, dim]``, such as ``transform.bank``.

    Raises:
      ValueError: as for ``retrieval.nearest``.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> english = rng.normal(size=(20, 16))
      >>> german = english[:3] + 0.1 * rng.normal(size=(3, 16))
      >>> groups = lj.mining.duplicate_groups(np.concatenate([english, german]), 0.9)
      >>> [np.flatnonzero(groups.number == number).tolist() for number in groups.number[-3:]]
      [[0, 20], [1, 21], [2, 22]]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    check_threshold(threshold)
    count, k = len(x), whole_number("k", k, 1, 1 << 24, "the nearest others")
    scores, near = nearest_others(x, min(k, count - 1), bank)
    row, other = np.repeat(np.arange(count), near.shape[1]), near.ravel()
    accepted = scores.ravel() >= threshold
    # A pair of rows as one number, in both orders.
    forward, backward = row * count + other, other * count + row
    joined = accepted & np.isin(forward, backward[accepted])
    graph = coo_array((joined[joined], (row[joined], other[joined])), shape=(count, count))
    best = np.full(count, np.nan)
    np.fmax.at(best, row[joined], scores.ravel()[joined])
    return Groups(connected_components(graph, directed=False)[1], best)


def write_duplicates(
    embeddings: Embeddings,
    out: Path,
    threshold: float | Calibration,
    *,
    error: float = 0.05,
    transform: Transform | None = None,
    language: str | None = None,
    k: int = 10,
) -> tuple[int, int]:
    """Writes the groups of two or more sentences of a folder, and returns the number of groups and of sentences.

    Scores are cosines or, with a calibration of the transform, CSLS, cut at its threshold for ``error``. That is
    for first results in another language: sentences are joined within a language too, and with any of their ``k``
    nearest others, so that no share of wrong ones is promised. Exact copies of a sentence are in its group; what is
    blank is in none. Groups are in the order of their first rows: in ``.jsonl`` and the like, an object with ``group``,
    ``ids``, ``texts`` and ``scores``, a list each; else group, score, id and text between tabs, a line for each
    sentence. A score is the best with another text of the group, and none (empty) where all are copies of one text.

    Raises:
      ValueError: the transform was fitted on other embeddings or is applied already, or as for ``duplicate_groups``.
    """
    if transform is not None:
        embeddings.check_transform(transform)
    rows, text = embeddings.copies()
    first = np.unique(text, return_index=True)[1]
    x = embeddings.take(rows[first]).astype(np.float32, copy=False)
    x, bank = x if transform is None else np.asarray(transform(x, language)), None
    if isinstance(threshold, Calibration):
        bank, threshold = bank_of(threshold, transform), threshold.threshold(error, candidates=len(x))
    groups = duplicate_groups(x, threshold, k=k, bank=bank)
    number = groups.number[text]
    parts = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    members = sorted((part for part in parts if len(part) > 1), key=min)
    as_json = out.suffix.lower() in JSON_LINES
    with new_file(out) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for group, part in enumerate(members):
            found = embeddings.sentences_of(rows[part])
            scores = [None if np.isnan(score) else round(float(score), 6) for score in groups.score[text[part]]]
            if as_json:
                row = {"group": group, "ids": found.ids, "texts": found.texts, "scores": scores}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                continue
            for score, id, sentence in zip(scores, found.ids, found.texts, strict=True):
                file.write(f"{group}\t{'' if score is None else score}\t{id}\t{flat(sentence)}\n")
    return len(members), sum(map(len, members))
