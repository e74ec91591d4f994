"""The mean of a query and its translation, to search with both at once."""

from jaxtyping import Array, Float

from lsar_jax.arrays import padded_rows
from lsar_jax.shapes import AnyArray

__all__ = ["mix_queries"]


def mix_queries(
    queries: Float[AnyArray, "query dim"], translations: Float[AnyArray, "query dim"]
) -> Float[Array, "query dim"]:
    """Returns the mean of each query and its translation, both scaled to norm 1, ``[query, dim]`` in float32.

    Zhu, Huang and Kan, "When Does Mixing Help? Analyzing Query Embedding Interpolation in Multilingual Dense
    Retrieval", ACL 2026 (arXiv 2606.13537), vary the shares of the two; here they are equal. That they scale the
    vectors first could not be confirmed. If a transform removes the language, mix what it returns.

    Args:
      queries: ``[query, dim]``.
      translations: the embedding of a translation of each query, ``[query, dim]``; the query's own where
        there is none.

    Raises:
      ValueError: the shapes differ, a value is not finite, or a vector is too short for float32.

    Example:
      >>> mixed = lj.retrieval.mix_queries(np.array([[2.0, 0.0]]), np.array([[0.0, 5.0]]))
      >>> mixed.tolist()
      [[0.5, 0.5]]
    """
    rows, others = padded_rows({"queries": queries, "translations": translations})
    if len(queries) != len(translations):
        raise ValueError(f"there are {len(queries)} queries and {len(translations)} translations; give one for each")
    return ((rows + others) / 2)[: len(queries)]
