"""Moments as an aggregation of Ray Data, over a whole dataset or by language."""

from typing import Any

import numpy as np

from lsar_jax.extras import import_extra
from lsar_jax.moments.moments import Moments

__all__ = ["ray_aggregation"]


def ray_aggregation(column: str = "embedding", *, second_moment: bool = False) -> Any:
    """Returns an aggregation for ``aggregate`` of a Ray dataset, or of its ``groupby``, whose result is ``Moments``.

    Each block is summed on the host in float64, and the sums are merged. Rows without a vector are left out.

    Args:
      column: the column of embeddings, vectors of one width, which also names the result.
      second_moment: whether to keep the scatter.

    Raises:
      ImportError: Ray Data is not installed (``pip install 'lsar_jax[ray]'``).

    Example:
      >>> total = lj.moments.ray_aggregation(second_moment=True)  # doctest: +SKIP
      >>> moments = dataset.groupby("language").aggregate(total).take_all()  # doctest: +SKIP
      >>> lsar = lj.transforms.fit_lsar({row["language"]: row["embedding"] for row in moments})  # doctest: +SKIP
    """
    aggregate = import_extra("ray.data.aggregate", "ray", "a Ray Data aggregation", "ray[data]")

    class Aggregation(aggregate.AggregateFnV2):  # ray is imported where it is used
        def aggregate_block(self, block: Any) -> Moments | None:
            rows = [row for row in block[column].to_numpy(zero_copy_only=False) if row is not None]
            if not rows:
                return None
            return Moments.from_embeddings(np.stack(rows), second_moment=second_moment, precise=True)

        def combine(self, current_accumulator: Moments, new: Moments) -> Moments:
            return current_accumulator.merge(new)

    return Aggregation(column, lambda: None, on=column, ignore_nulls=True)
