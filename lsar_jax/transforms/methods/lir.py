"""LIR: remove the principal directions of each language's own embeddings.

Yang et al., "A Simple and Effective Method To Eliminate the Self Language Bias in
Multilingual Representations", EMNLP 2021. As in the authors' code, the embeddings are not
centred first, so the first direction is close to the language's mean. The directions are
the top eigenvectors of the uncentred second moment, which are the left singular vectors of
the matrix of embeddings.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import product
from lsar_jax.checks import whole_number
from lsar_jax.moments import common_source, moments_by_language
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform, fix_signs
from lsar_jax.transforms.base.limits import DIMENSIONS, check_rank

__all__ = ["fit_lir", "leading_directions", "lir_directions", "principal_directions", "top_directions"]

# Steps of subspace iteration, each of which costs about a hundredth of a whole decomposition.
_STEPS = 100
# The vectors of an iteration are at most this part of the width; with more, a whole decomposition takes as long.
_CHEAP = 3


# Directions of float64 that are as exact as this are good enough; to iterate further costs more than to decompose.
_EXACT = 2.0**-30


class _Iterate(NamedTuple):
    """The state of the iteration: Ritz vectors and values, the vectors times the matrix, and the error."""

    steps: Any
    vectors: Float[Any, "dim block"]
    values: Float[Any, " block"]
    image: Float[Any, "dim block"]
    error: Any


def principal_directions(
    second_moment: Float[AnyArray, "dim dim"], components: int
) -> tuple[Float[Any, "dim components"], Float[Any, " dim"]]:
    """Returns the top eigenvectors ``[dim, components]`` of a symmetric matrix ``[dim, dim]``, and all eigenvalues.

    The largest come first, and the largest entry of each eigenvector is positive. Pure: works under ``jit``
    (``components`` static) and ``vmap``; numpy decomposes a numpy array.
    """
    values, vectors = second_moment.__array_namespace__().linalg.eigh(second_moment)
    return fix_signs(vectors[:, ::-1][:, :components]), values[::-1]


def leading_directions(
    second_moment: Float[AnyArray, "dim dim"], components: int
) -> tuple[Float[Any, "dim components"], Float[Any, " components"], Float[Any, ""]]:
    """Returns the top eigenvectors of a matrix without negative eigenvalues, without decomposing all of it.

    Subspace iteration with Rayleigh-Ritz steps (Saad 2011, Numerical methods for large eigenvalue problems, chapter 5)
    on ``2 components + 8`` vectors, in products of the matrix with a few vectors. It ends when the directions are as
    exact as ``principal_directions`` of the same dtype; where neighbouring eigenvalues are so close that it would take
    more than 100 steps, the error that it returns is large. Pure: works under ``jit`` (``components`` static) and
    ``vmap``; numpy iterates on a float64 numpy array.

    Args:
      second_moment: a symmetric matrix ``[dim, dim]`` without negative eigenvalues.
      components: number of eigenvectors, at most ``(dim - 8) / 2``.

    Returns:
      The eigenvectors ``[dim, components]``, each with its largest entry positive, their eigenvalues ``[components]``,
      and how far the residual is above what counts as exact, 1 or less if it is.
    """
    on_host = isinstance(second_moment, np.ndarray) and second_moment.dtype == np.float64
    xp: Any = np if on_host else jnp
    second_moment = xp.asarray(second_moment)
    eps = max(float(jnp.finfo(second_moment.dtype).eps), _EXACT)
    probes = np.random.default_rng(0).standard_normal((second_moment.shape[0], 2 * components + 8))
    probes = xp.asarray(probes, second_moment.dtype)

    def step(state: _Iterate) -> _Iterate:
        basis, _ = xp.linalg.qr(state.image)
        image = product(second_moment, basis)
        values, rotation = xp.linalg.eigh(product(basis.T, image))
        values, rotation = values[::-1], rotation[:, ::-1]
        vectors, image = product(basis, rotation), product(image, rotation)
        residual = xp.linalg.norm((image - vectors * values[None])[:, :components])
        # The angle to the wanted subspace is at most the residual over the gap. Below a few units of rounding of the
        # largest eigenvalue, the residual cannot fall.
        gap = values[components - 1] - values[components]
        exact = xp.maximum(4 * eps * gap, 4 * eps * components**0.5 * values[0])
        exact = xp.maximum(exact, xp.finfo(probes.dtype).tiny)  # a matrix of zeros is exact at once
        return _Iterate(state.steps + 1, vectors, values, image, residual / exact)

    def goes_on(state: _Iterate) -> Any:
        return (state.steps < _STEPS) & (state.error > 1)

    values, error = xp.zeros(probes.shape[1], probes.dtype), xp.full((), xp.inf, probes.dtype)
    state = _Iterate(xp.zeros((), xp.int32), probes, values, probes, error)
    if on_host:
        while goes_on(state):
            state = step(state)
    else:
        state = jax.lax.while_loop(goes_on, step, state)
    return fix_signs(state.vectors[:, :components]), state.values[:components], state.error


def top_directions(
    symmetric: Float[AnyArray, "dim dim"], components: int
) -> tuple[Float[Any, "dim components"], Float[Any, " components"]]:
    """Returns what ``leading_directions`` finds, or, where it does not converge, what a whole decomposition does.

    Pure: works under ``jit`` (``components`` static) and ``vmap``.
    """

    def whole() -> tuple[Float[Any, "dim components"], Float[Any, " components"]]:
        basis, values = principal_directions(symmetric, components)
        return basis, values[:components]

    if _CHEAP * (2 * components + 8) > len(symmetric):
        return whole()
    basis, values, error = leading_directions(symmetric, components)
    if isinstance(basis, np.ndarray):
        return (basis, values) if error <= 1 else whole()
    return jax.lax.cond(error <= 1, lambda: (basis, values), whole)


def lir_directions(
    mean: Float[AnyArray, " dim"], covariance: Float[AnyArray, "dim dim"], components: int
) -> tuple[Float[Any, "dim components"], Float[Any, " components"]]:
    """Returns the top eigenvectors ``[dim, components]`` of ``C + m m^T``, and their eigenvalues ``[components]``.

    A large mean m costs no digits: after the first, w, the directions are found in ``P C P + P m (P m)^T``, with
    P = I - w w^T, where the mean is gone. Pure: works under ``jit`` (``components`` static) and ``vmap``; numpy
    decomposes numpy arrays.

    Args:
      mean: of the embeddings, ``[dim]``.
      covariance: divided by their number, ``[dim, dim]``.
      components: number of directions, at most ``dim``.
    """
    xp = covariance.__array_namespace__()
    first, value = top_directions(covariance + mean[:, None] * mean[None], 1)
    if components == 1:
        return first, value

    def rest(columns: Float[Any, "dim column"]) -> Float[Any, "dim column"]:
        return columns - product(first, product(first.T, columns))

    short = rest(mean[:, None])
    others, values = top_directions(rest(rest(covariance).T) + product(short, short.T), components - 1)
    return xp.concatenate([first, others], axis=1), xp.concatenate([value, values])


def fit_lir(
    x: LanguageData,
    components: Annotated[int, DIMENSIONS] = 1,
    *,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - C C^T x`` with C the top directions of the sentence's language.

    The transform needs the language of each vector.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, or to moments with second moments;
        one language is enough.
      components: directions removed per language; the papers use 1 to 20.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings and decompose in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: an array or code is invalid, widths or encoders differ, moments have no second moments or are pooled,
        or there are more components than the embeddings of a language span.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 8)) + 9 * np.eye(8)[i] for i, code in enumerate(("de", "en"))}
      >>> lir = lj.transforms.fit_lir(x, components=1)
      >>> np.abs(np.asarray(lir.steps[0].basis)).argmax(axis=1).ravel().tolist()  # planted above
      [0, 1]
    """
    moments = moments_by_language(x, least=1, second_moment=True, precise=precise)
    dim = next(iter(moments.values())).dim
    most, scarcest = min((min(m.count, dim), code) for code, m in moments.items())
    rank = whole_number("components", components, 1, most, f"the sentences and dimensions of {scarcest}")
    bases = []
    for code, m in moments.items():
        # Scaled to a second moment of trace 1: squares of small embeddings underflow in float32.
        trace = max(np.trace(m.kept_scatter()) / m.count + m.mean @ m.mean, np.finfo(np.float64).tiny)
        mean, covariance = m.mean / np.sqrt(trace), m.kept_scatter() * (1 / m.count / trace)
        basis, values = lir_directions(mean, covariance, rank)
        # The sums leave rounding of this size in directions that are not there.
        eps = np.finfo(np.float64 if precise else np.float32).eps
        floor = max(16 * eps * np.linalg.norm(covariance), 1e-15)
        if not values[-1] > floor:
            span = int((np.linalg.eigvalsh(covariance + np.outer(mean, mean)) > floor).sum())
            check_rank("components", rank, span, f"the embeddings of {code} span")
        bases.append(basis)
    fit = Fit.of("lir", moments, by_language=True, components=rank)
    return Transform((Step.of(basis=np.stack(bases)),), (fit,), common_source(moments, source)).with_sample(x)
