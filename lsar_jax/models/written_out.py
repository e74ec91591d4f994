"""Attention written out, for a CPU and with what jax's own does not offer: a limit of the scores, and dropout."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lsar_jax.models.dropout import Dropout, zeroed

__all__ = ["PerGroup", "PerHead", "written_out"]

# Queries, and what is mixed for them; keys or values.
PerHead = Float[Array, "batch length head part"]
PerGroup = Float[Array, "batch length group part"]

# Bytes of scores in float32 above which a CPU takes a group at a time, whose scores stay in its cache: 12 heads of 512
# positions took 4.6 ms in place of 9, and of 2,048 positions 106 in place of 292. Below it, a loop took longer.
_CACHED = 1 << 22


def written_out(
    query: Float[Array, "batch query head part"],
    key: Float[Array, "batch key group part"],
    value: Float[Array, "batch key group part"],
    allowed: Bool[Array, "batch query key"],
    scale: float | None,
    cap: float | None,
    dropout: Dropout | None = None,
    *,
    on_cpu: bool = False,
) -> Float[Array, "batch query head part"]:
    """Mixes the values that each query is ``allowed``, perhaps with dropout of the weights; the rest as ``attend``."""
    batch, length, heads, width = query.shape
    groups = key.shape[2]

    def mix(of_group: Any) -> Array:
        query, key, value, random = of_group
        scores = jnp.einsum("bhqd,bkd->bhqk", query, key, preferred_element_type=jnp.float32) * (scale or width**-0.5)
        if cap is not None:
            scores = cap * jnp.tanh(scores / cap)
        # A finite number, because a query beyond the row has no key.
        scores = jnp.where(allowed[:, None], scores, jnp.finfo(jnp.float32).min)
        weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis=3, keepdims=True)))
        # The mix is divided by their sum, and not the weights, which are more.
        total = weights.sum(axis=3, keepdims=True)
        if dropout is not None:
            weights = zeroed(weights, dropout.attention, random)
        mixed = jnp.einsum("bhqk,bkd->bhqd", weights.astype(value.dtype), value, preferred_element_type=jnp.float32)
        return (mixed / total).astype(value.dtype)

    keys_of_random = None if dropout is None else jax.random.split(dropout.key, groups)
    of_groups = query.reshape(batch, length, groups, -1, width).transpose(2, 0, 3, 1, 4)
    states = of_groups, jnp.moveaxis(key, 2, 0), jnp.moveaxis(value, 2, 0), keys_of_random
    many = 4 * batch * heads * length * key.shape[1] > _CACHED
    mixed = jax.lax.map(mix, states) if on_cpu and many else jax.vmap(mix)(states)
    return mixed.transpose(1, 3, 0, 2, 4).reshape(query.shape)
