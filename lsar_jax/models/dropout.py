"""Dropout (Srivastava et al., JMLR 2014): what a training pass zeroes at random, from a key that the pass is given.

The modules have no random state: under plain ``jax.jit``, a stateful dropout would repeat the same zeros.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lsar_jax.shapes import Hidden

__all__ = ["Dropout", "drop", "independent", "zeroed"]


@partial(jax.tree_util.register_dataclass, data_fields=["key"], meta_fields=["hidden", "attention"])
@dataclass(frozen=True)
class Dropout:
    """The key of a training pass, and the shares that it zeroes, as BERT does.

    Attributes:
      key: a random key.
      hidden: share of the entries of the embeddings and of what each sublayer adds, before its residual sum.
      attention: share of the attention weights. Any other value than 0 rules out cuDNN's attention.
    """

    key: Any
    hidden: float = 0.1
    attention: float = 0.1


def independent(dropout: Dropout | None, count: int) -> list[Dropout | None]:
    """Returns independent dropouts of the same shares."""
    if dropout is None:
        return [None] * count
    return [replace(dropout, key=key) for key in jax.random.split(dropout.key, count)]


def drop(x: Hidden, dropout: Dropout | None) -> Hidden:
    """Returns hidden states with a random share of their entries zeroed."""
    return x if dropout is None else zeroed(x, dropout.hidden, dropout.key)


def zeroed(x: Array, share: float, key: Array) -> Array:
    """Zeroes a random share of the entries, and scales the others so that the mean stays the same."""
    if not share:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - share, x.shape), x / (1 - share), 0).astype(x.dtype)
