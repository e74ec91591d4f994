"""Hub measures as metrics: what evaluations and the report print of ``lsar_jax.geometry.hub_measures``."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from lsar_jax.geometry import HubMeasures
from lsar_jax.measures.metric import Metric

__all__ = ["HUBS", "mean_hubs"]

# The metrics, in the order of ``HubMeasures``.
HUBS = (
    Metric("hub skewness", "lower", unit=""), Metric("never found", "lower"), Metric("hub mass", "lower"),
    Metric("reciprocal"),
)  # fmt: skip


def mean_hubs(pools: Sequence[HubMeasures | Float[np.ndarray, " measure"]]) -> dict[Metric, float]:
    """Returns the mean over pools of each measure, in percent but for the skewness."""
    means = np.stack([*map(np.asarray, pools)]).mean(axis=0) * [100 if metric.unit else 1 for metric in HUBS]
    return dict(zip(HUBS, means.tolist(), strict=True))
