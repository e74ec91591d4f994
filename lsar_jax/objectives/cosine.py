"""Cosines with gradients that are finite at zero vectors and at any others, in float32 or float64."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["apart", "cosine", "squares", "together", "unit"]

# Added to squared norms, as PyTorch's CosineEmbeddingLoss does.
_EPS = 1e-12


def cosine(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, " vector"]:
    """Returns the cosine of each row of x ``[vector, dim]`` with the same row of y; 0 if either is zero."""
    x, y = _near(x), _near(y)
    return (x * y).sum(axis=1) * jax.lax.rsqrt((squares(x) + _EPS) * (squares(y) + _EPS))


def squares(x: Float[Array, "vector dim"]) -> Float[Array, " vector"]:
    """Returns the squared length of each row of x, ``[vector, dim]``."""
    return (x * x).sum(axis=1)


def unit(x: Float[Array, "vector dim"]) -> Float[Array, "vector dim"]:
    """Divides each row of x, ``[vector, dim]``, by its length; a zero row stays zero."""
    x = _near(x)
    return x * jax.lax.rsqrt(squares(x) + _EPS)[:, None]


def together(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, ""]:
    """Returns the mean of ``1 - cos`` over rows of x and y, ``[vector, dim]``: CEL+, which pulls them together."""
    return (1 - cosine(x, y)).mean()


def apart(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, ""]:
    """Returns the mean of ``max(0, cos)`` over rows of x and y, ``[vector, dim]``: CEL-, which pushes them apart."""
    return jax.nn.relu(cosine(x, y)).mean()


def _near(x: Float[Array, "vector dim"]) -> Float[Array, "vector dim"]:
    """Divides rows with entries above 1 by the largest: the direction is the same, and squares are finite."""
    x = x if x.dtype.itemsize > 4 else x.astype(jnp.float32)
    # In two steps: XLA may multiply by the reciprocal, and that of 3e38 vanishes.
    root = jax.lax.rsqrt(jnp.maximum(jax.lax.stop_gradient(jnp.abs(x).max(axis=1, keepdims=True)), 1))
    return x * root * root
