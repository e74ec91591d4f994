"""Scores of a given bitext: the cosine, the ratio margin and CSLS of each pair among the sentences of both sides."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from lsar_jax.arrays import log, unit_rows
from lsar_jax.checks import whole_numbers
from lsar_jax.corpora.row_files import JSON_LINES
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.files import new_file
from lsar_jax.mining.job import MiningOptions
from lsar_jax.mining.pair_files import check_form, pair_line, read_pairs
from lsar_jax.mining.pairs import margin_score
from lsar_jax.mining.thresholds import threshold_of
from lsar_jax.retrieval.calibration import Calibration
from lsar_jax.retrieval.search import csls_scores, nearest, nearest_both, scaled_sides
from lsar_jax.shapes import AnyArray

__all__ = ["PairScores", "score_file", "score_pairs"]


class PairScores(NamedTuple):
    """The scores of given pairs, ``[pair]`` each; ``csls`` is None without a bank."""

    cosine: Float[np.ndarray, " pair"]
    margin: Float[np.ndarray, " pair"]
    csls: Float[np.ndarray, " pair"] | None


def score_pairs(
    source: Float[AnyArray, "source dim"],
    target: Float[AnyArray, "target dim"],
    rows: Int[AnyArray, "pair 2"],
    *,
    k: int = 4,
    bank: Float[AnyArray, "row dim"] | None = None,
) -> PairScores:
    """Scores given pairs by their neighbours among the sentences of the same bitext.

    The margin is the ratio of Artetxe and Schwenk (ACL 2019), CSLS that of ``retrieval.nearest`` with a bank, where a
    source is the query: both need no other collection.

    Args:
      source: embeddings of the distinct sentences of one side, ``[source, dim]``, so that copies of a sentence do not
        push others out of its neighbours.
      target: likewise of the other side, ``[target, dim]``.
      rows: the rows of the source and the target of each pair, ``[pair, 2]``.
      k: number of neighbours of the margin, at most the number of rows of the smaller side.
      bank: ``[row, dim]``, such as ``transform.bank``.

    Raises:
      ValueError: as for ``retrieval.nearest``.
      IndexError: a row does not exist.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> english = rng.normal(size=(50, 32))
      >>> german = english + 0.1 * rng.normal(size=(50, 32))
      >>> scores = lj.mining.score_pairs(german, english, np.array([[7, 7], [7, 8]]))
      >>> scores.margin[0] > 1.5, scores.margin[1] < 0.5
      (np.True_, np.True_)
    """
    left, right = whole_numbers("rows", rows, (None, 2), 0).T
    forward, backward = (np.asarray(near[0]).mean(axis=1) for near in nearest_both(source, target, k))
    x, y = (np.asarray(unit_rows(jnp.asarray(side, jnp.float32))) for side in (source, target))
    cosine = np.einsum("pd,pd->p", x[left], y[right])
    margin = np.asarray(margin_score(cosine, (forward[left] + backward[right]) / 2))
    if bank is None:
        return PairScores(cosine, margin, None)
    queries, candidates = scaled_sides(x, y, bank)
    near, ids = nearest(queries, candidates, min(10, len(y)), metric="dot")
    scale = -2 * candidates[:, -1]
    of_query = (2 * near - csls_scores(near, scale[ids]))[:, 0]
    return PairScores(cosine, margin, 2 * cosine - np.asarray(of_query)[left] - np.asarray(scale)[right])


def score_file(
    path: Path, out: Path, encoder: SentenceEncoder, options: MiningOptions, *, max_length: int | None = None,
    columns: Sequence[str] = (),
) -> tuple[int, int]:  # fmt: skip
    """Writes the pairs of a file whose score reaches the threshold, in their order.

    The score is the margin or, with a calibration of the transform, CSLS, cut at the threshold of ``error``. ``.jsonl``
    and the like have ``cosine``, ``margin`` and, with a calibration, ``csls`` and ``share`` too: how many first results
    with this score are right. The distinct sentences of both sides are encoded, and their
    vectors are in memory.

    Returns:
      The number of pairs that were scored, and of those written. Pairs with a blank side are neither.

    Raises:
      OSError: there is no such file.
      ValueError: as for ``read_pairs`` and ``score_pairs``.
    """
    check_form(out)
    every = list(read_pairs(path, ids=False, columns=columns))
    pairs = [pair for pair in every if all(map(str.strip, pair))]
    if left_out := len(every) - len(pairs):
        log.warning("left out %d of %d pairs of %s, of which a side is blank", left_out, len(every), path)
    encoder, sides, rows = encoder.with_transform(options.transform) if options.transform else encoder, [], []
    for texts, language in zip(zip(*pairs, strict=True), options.languages, strict=True):
        number = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        rows.append([number[text] for text in texts])
        sides.append(encoder.encode([*number], language=language, max_length=max_length, show_progress=True))
    scores = score_pairs(sides[0], sides[1], np.transpose(rows), k=options.k, bank=options.bank)
    named = {name: values for name, values in scores._asdict().items() if values is not None}
    score, least = scores.margin, options.threshold
    if isinstance(least, Calibration):
        score, named["share"] = named["csls"], least.share(named["csls"])
        least = threshold_of(least, options.error, options.languages)
    chosen = np.flatnonzero(score >= (-np.inf if least is None else least))
    with new_file(out) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        for pair in chosen.tolist():
            more: dict[str, Any] = {name: round(float(values[pair]), 6) for name, values in named.items()}
            file.write(pair_line(out.suffix.lower() in JSON_LINES, float(score[pair]), *pairs[pair], **more))
    return len(pairs), len(chosen)
