"""Search among embeddings: nearest neighbours, ranks of known answers, and which languages are preferred."""

from lsar_jax.retrieval import preference
from lsar_jax.retrieval.mix_queries import mix_queries
from lsar_jax.retrieval.over_processes import nearest_over_processes
from lsar_jax.retrieval.ranks import candidate_ranks
from lsar_jax.retrieval.search import local_scale, nearest
from lsar_jax.retrieval.similarity import similarity

__all__ = [
    "candidate_ranks",
    "local_scale",
    "mix_queries",
    "nearest",
    "nearest_over_processes",
    "preference",
    "similarity",
]
