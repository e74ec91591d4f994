"""LIR: remove the principal directions of each language's own embeddings.

Yang et al., "A Simple and Effective Method To Eliminate the Self Language Bias in
Multilingual Representations", EMNLP 2021. As in the authors' code, the embeddings are not
centred first, so the first direction is close to the language's mean. The directions are
the top eigenvectors of the uncentred second moment, which are the left singular vectors of
the matrix of embeddings.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.arrays import row_bucket
from lsar_jax.checks import whole_number
from lsar_jax.moments import Moments, common_source, moments_by_language
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform, fix_signs

__all__ = ["fit_lir", "principal_directions", "principal_directions_of_few"]


def principal_directions(
    second_moment: Float[AnyArray, "dim dim"], components: int
) -> tuple[Float[Array, "dim components"], Float[Array, " dim"]]:
    """Returns the top eigenvectors of a symmetric matrix as columns, and all eigenvalues, largest first.

    Pure: works under ``jit`` (``components`` static) and ``vmap``.

    Args:
      second_moment: a symmetric matrix ``[dim, dim]``, such as the mean of ``x x^T``.
      components: number of eigenvectors, at most ``dim``.

    Returns:
      The eigenvectors ``[dim, components]``, each with its largest entry positive, and the eigenvalues ``[dim]``.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> directions, values = lj.transforms.principal_directions(np.diag([1.0, 4.0, 2.0]).astype(np.float32), 1)
      >>> directions.ravel().tolist(), values.tolist()
      ([0.0, 1.0, 0.0], [4.0, 2.0, 1.0])
    """
    values, vectors = jnp.linalg.eigh(second_moment)
    return fix_signs(vectors[:, ::-1][:, :components]), values[::-1]


def principal_directions_of_few(
    second_moment: Float[AnyArray, "dim dim"], components: int, rank: int
) -> tuple[Float[Array, "dim components"], Float[Array, " rank"]]:
    """Returns the result of ``principal_directions`` for a matrix of rank at most ``rank``.

    Its product with ``rank`` random vectors spans its range, so the eigenvectors of a small matrix
    are enough (Halko, Martinsson and Tropp 2011); the matrix of n sentences has rank at most n.
    Pure: works under ``jit`` (``components`` and ``rank`` static) and ``vmap``.

    Args:
      second_moment: a symmetric matrix ``[dim, dim]`` without negative eigenvalues.
      components: number of eigenvectors, at most ``rank``.
      rank: upper bound of the rank of the matrix, such as the number of sentences.

    Returns:
      The eigenvectors ``[dim, components]``, and the ``rank`` largest eigenvalues.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> x = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)  # three sentences of width 40
      >>> few, _ = lj.transforms.principal_directions_of_few(x.T @ x, components=2, rank=4)
      >>> every, _ = lj.transforms.principal_directions(x.T @ x, components=2)
      >>> bool(np.allclose(few, every, atol=1e-4))
      True
    """
    second_moment = jnp.asarray(second_moment)
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    probes = jax.random.normal(jax.random.key(0), (second_moment.shape[0], rank), second_moment.dtype)
    # Twice: the second product removes what rounding puts outside the range.
    for _ in range(2):
        probes, _ = jnp.linalg.qr(product(second_moment, probes))
    values, vectors = jnp.linalg.eigh(product(probes.T, product(second_moment, probes)))
    return fix_signs(product(probes, vectors[:, ::-1][:, :components])), values[::-1]


def fit_lir(
    x: Mapping[str, Embeddings | Moments],
    components: int = 1,
    *,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - C C^T x`` with C the top directions of the sentence's language.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, or to moments with second moments;
        one language is enough.
      components: directions removed per language; the papers use 1 to 20.
      source: spec of the encoder that made the embeddings; saved, and checked on use.
      precise: whether to sum embeddings and decompose in float64; moments are already summed.

    Returns:
      A transform that needs the language of each vector.

    Raises:
      ValueError: an array or code is invalid, widths or encoders differ, moments have no second moments or are pooled,
        or there are more components than the embeddings of a language span.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> rng = np.random.default_rng(0)
      >>> x = {"de": rng.normal(size=(50, 8)) + 9 * np.eye(8)[0], "en": rng.normal(size=(50, 8)) + 9 * np.eye(8)[1]}
      >>> lir = lj.transforms.fit_lir(x, components=1)
      >>> np.abs(np.asarray(lir.steps[0].basis)).argmax(axis=1).ravel().tolist()  # planted above
      [0, 1]
      >>> y = lir(np.concatenate([x["de"], x["en"]]), ["de"] * 50 + ["en"] * 50)  # a mixed batch
      >>> y.shape, float(abs(y).mean()) < 1
      ((100, 8), True)
    """
    moments = moments_by_language(x, least=1, second_moment=True, precise=precise)
    dim = next(iter(moments.values())).dim
    most, scarcest = min((min(m.count, dim), code) for code, m in moments.items())
    kept = whole_number("components", components, 1, most, f"the sentences and dimensions of {scarcest}")
    with jax.enable_x64(precise):
        dtype = np.float64 if precise else np.float32
        scaled = np.empty((len(moments), dim, dim), dtype)
        outer = np.empty((dim, dim))
        for row, m in zip(scaled, moments.values(), strict=True):
            assert m.scatter is not None, "moments_by_language checks this"
            trace = max(np.trace(m.scatter) / m.count + m.mean @ m.mean, np.finfo(np.float64).tiny)
            # The uncentred second moment, scaled to trace 1 before the cast: squares of small embeddings
            # underflow in float32. One buffer is reused: fresh memory costs more than the arithmetic.
            np.multiply.outer(m.mean / np.sqrt(trace), m.mean / np.sqrt(trace), out=outer)
            outer += m.scatter * (1 / m.count / trace)
            row[:] = outer
        # Slightly more than the sentences of the largest language, rounded up to one of a few sizes.
        rank = row_bucket(max(m.count for m in moments.values()) + 4, 1 << 30)
        basis, values = _directions(scaled, kept) if 3 * rank > dim else _directions_of_few(scaled, kept, rank)
        basis, values = basis.astype(jnp.float32), np.asarray(values)
    # Rounding leaves up to 3.5 eps of the largest eigenvalue, measured at widths 40 to 1,024; a bound
    # that grows with the width would reject real directions of anisotropic encoders. With trace 1 the
    # largest is at least 1 / dim; the 0.5 / dim below that is for embeddings that are all zero.
    floor = 16 * np.finfo(values.dtype).eps * np.maximum(values[:, :1], 0.5 / dim)
    significant = (values > floor).sum(axis=1)
    for code, number in zip(moments, significant, strict=True):
        if kept > number:
            # Directions with vanishing eigenvalues are determined by rounding alone.
            raise ValueError(
                f"components is {kept}, but the embeddings of {code} span {number} dimensions; "
                "components cannot exceed that"
            )
    fit = Fit.of("lir", moments, by_language=True, components=kept)
    return Transform((Step(basis=basis),), (fit,), common_source(moments, source))


@partial(jax.jit, static_argnames="components")
def _directions(
    second: Float[Array, "language dim dim"], components: int
) -> tuple[Float[Array, "language dim components"], Float[Array, "language dim"]]:
    return jax.vmap(principal_directions, in_axes=(0, None))(second, components)


@partial(jax.jit, static_argnames=("components", "rank"))
def _directions_of_few(
    second: Float[Array, "language dim dim"], components: int, rank: int
) -> tuple[Float[Array, "language dim components"], Float[Array, "language rank"]]:
    return jax.vmap(partial(principal_directions_of_few, components=components, rank=rank))(second)
