"""LIR: remove the principal directions of each language's own embeddings.

Yang et al., "A Simple and Effective Method To Eliminate the Self Language Bias in
Multilingual Representations", EMNLP 2021. As in the authors' code the embeddings are not
centred first, so that the first direction is near to the language's mean. The directions are
the top eigenvectors of the uncentred second moment, which are the left singular vectors of
the matrix of embeddings.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.moments import Moments, moments_by_language
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform, fix_signs

__all__ = ["fit_lir", "principal_directions"]


def principal_directions(second_moment: Float[AnyArray, "dim dim"], components: int) -> Float[Array, "dim components"]:
    """Returns the top eigenvectors of a symmetric matrix as columns, largest first.

    Pure: passes under ``jit`` (``components`` static) and ``vmap``.
    """
    _, vectors = jnp.linalg.eigh(second_moment)
    return fix_signs(vectors[:, ::-1][:, :components])


def fit_lir(
    x: Mapping[str, Embeddings | Moments],
    components: int = 1,
    *,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - C C^T x`` with C the top directions of the sentence's language.

    Args:
      x: from language to raw embeddings ``[n, dim]``, or to moments that kept their second;
        one language is enough.
      components: directions removed per language; the papers use 1 to 20.
      source: the encoder's spec, remembered and checked later.
      precise: whether to sum embeddings and decompose in float64; moments come summed.

    Returns:
      A transform that needs the language of each vector.

    Raises:
      ValueError: bad arrays or codes, moments without a second, or more components than
        a language has sentences or dimensions.
    """
    moments = moments_by_language(x, least=1, second_moment=True, precise=precise)
    dim = next(iter(moments.values())).dim
    most, scarcest = min((min(m.count, dim), code) for code, m in moments.items())
    if not 1 <= components <= most:
        raise ValueError(f"components is {components}; {scarcest} spans at most {most}, and 1 is the least")
    with jax.enable_x64(precise):
        dtype = jnp.float64 if precise else jnp.float32
        stacked = jnp.asarray(np.stack([m.second_moment() for m in moments.values()]), dtype)
        basis = _directions(stacked, components).astype(jnp.float32)
    fit = Fit.of("lir", moments, by_language=True, components=components)
    return Transform((Step(basis=basis),), (fit,), source)


@partial(jax.jit, static_argnames="components")
def _directions(second: Float[Array, "language dim dim"], components: int) -> Float[Array, "language dim components"]:
    return jax.vmap(principal_directions, in_axes=(0, None))(second, components)
