"""Cosines with gradients that are finite at zero vectors."""

import jax
from jaxtyping import Array, Float

__all__ = ["cosine", "squares", "unit"]

# Added to squared norms, as PyTorch's CosineEmbeddingLoss does.
_EPS = 1e-12


def cosine(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, " vector"]:
    """Returns the cosine of each row of x ``[vector, dim]`` with the same row of y; 0 if either is zero.

    Example:
      >>> from lsar_jax.objectives.cosine import cosine
      >>> x, y = jnp.array([[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), jnp.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
      >>> jnp.round(cosine(x, y)).tolist()
      [1.0, 0.0, 0.0]
    """
    return (x * y).sum(axis=1) * jax.lax.rsqrt((squares(x) + _EPS) * (squares(y) + _EPS))


def squares(x: Float[Array, "vector dim"]) -> Float[Array, " vector"]:
    """Returns the squared length of each row of x, ``[vector, dim]``.

    Example:
      >>> from lsar_jax.objectives.cosine import squares
      >>> squares(jnp.array([[3.0, 4.0], [1.0, 0.0]])).tolist()
      [25.0, 1.0]
    """
    return (x * x).sum(axis=1)


def unit(x: Float[Array, "vector dim"]) -> Float[Array, "vector dim"]:
    """Divides each row of x, ``[vector, dim]``, by its length; a zero row stays zero.

    Example:
      >>> from lsar_jax.objectives.cosine import unit
      >>> jnp.round(unit(jnp.array([[0.0, 4.0], [0.0, 0.0]]))).tolist()
      [[0.0, 1.0], [0.0, 0.0]]
    """
    return x * jax.lax.rsqrt(squares(x) + _EPS)[:, None]
