"""Search among embeddings: nearest neighbours, ranks of known answers, and which languages are preferred."""

from lsar_jax.retrieval import preference
from lsar_jax.retrieval.over_processes import nearest_over_processes
from lsar_jax.retrieval.ranks import candidate_ranks
from lsar_jax.retrieval.search import mix_queries, nearest, similarity

__all__ = ["candidate_ranks", "mix_queries", "nearest", "nearest_over_processes", "preference", "similarity"]
