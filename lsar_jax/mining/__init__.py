"""Finds parallel sentences in two monolingual collections, by the margin of a pair over its neighbourhoods.

Artetxe and Schwenk, "Margin-based parallel corpus mining with multilingual sentence embeddings", ACL 2019. A
pair's cosine is compared with the mean cosine of both sentences to their k nearest neighbours in the other
language, so that sentences that are close to everything do not win. ``mine`` takes arrays, and ``mine_folders`` what
``lsar_jax.embeddings.encode`` wrote.
"""

from lsar_jax.mining.duplicates import Groups, duplicate_groups
from lsar_jax.mining.folders import mine_folders
from lsar_jax.mining.given_pairs import PairScores, score_pairs
from lsar_jax.mining.job import MiningOptions
from lsar_jax.mining.known_pairs import KnownPairs
from lsar_jax.mining.pairs import Pairs, margin_score, mine
from lsar_jax.mining.thresholds import Threshold, best_threshold

__all__ = [
    "Groups",
    "KnownPairs",
    "MiningOptions",
    "PairScores",
    "Pairs",
    "Threshold",
    "best_threshold",
    "duplicate_groups",
    "margin_score",
    "mine",
    "mine_folders",
    "score_pairs",
]
