"""Search among embeddings: nearest neighbours, ranks of known answers, and which languages are preferred."""

from lsar_jax.retrieval import preference
from lsar_jax.retrieval.ranks import candidate_ranks
from lsar_jax.retrieval.search import check_metric, nearest, similarity

__all__ = ["candidate_ranks", "check_metric", "nearest", "preference", "similarity"]
