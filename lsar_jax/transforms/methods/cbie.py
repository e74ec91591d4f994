"""CBIE: remove the dominant directions of each cluster of a language's embeddings.

Rajaee and Pilehvar, "A Cluster-based Approach for Improving Isotropy in Contextual Embedding
Space", ACL 2021; for languages Hämmerl et al., Findings of ACL 2023. A language's embeddings are
clustered by k-means; each embedding loses the mean of its cluster and its projection onto the
cluster's top principal components::

    y = z - P_c P_c^T z,   z = x - mean_c.

The published code clusters the sentences that it evaluates and cannot be applied to others. Here a new
embedding is assigned to the nearest centroid of its language. Lloyd's iterations, at most 300, run until no sentence
changes its cluster, so the sentences that were fitted on are also nearest to their own centroid.
"""

import zlib
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from lsar_jax.arrays import in_float32, pad_rows, product, row_bucket
from lsar_jax.checks import whole_number
from lsar_jax.languages import canonical_keys
from lsar_jax.moments import moments_by_language
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.decompose import on_device
from lsar_jax.transforms.base.limits import DIMENSIONS, SEED, Limit

__all__ = ["cbie", "cluster_directions", "dominant_directions", "fit_cbie", "kmeans"]

# Default number of sentences per cluster, as in the paper.
_CLUSTER = 300
_ITERATIONS = 300
_MOST_ROWS = 1 << 30
_BLOCK = 8192


def kmeans(
    x: Float[AnyArray, "row dim"], count: int | Int[Array, ""], clusters: int, key: Key[Array, ""]
) -> tuple[Float[Array, "cluster dim"], Int[Array, " row"]]:
    """Returns the centroids of Lloyd's iterations ``[cluster, dim]``, and each row's cluster, int32 ``[row]``.

    They start at ``clusters`` different rows drawn at random. A cluster that loses all its rows
    keeps its centroid. Pure: works under ``jit`` (``clusters`` static) and ``vmap``.

    Args:
      x: rows ``[row, dim]``; those from index ``count`` on are filler, whose clusters mean nothing.
      count: number of real rows, at least ``clusters``.
      clusters: number of clusters.
      key: random key of the start, from ``jax.random.key``.
    """
    x = jnp.asarray(x)
    there = jnp.arange(len(x)) < count
    order = jnp.where(there, jax.random.uniform(key, (len(x),), jnp.float32), 2.0)
    start = x[jnp.argsort(order)[:clusters]]

    def assign(centroids: Array) -> Array:
        def nearest(row: Array) -> Array:
            return jnp.argmin((centroids**2).sum(axis=1) - 2 * product(row, centroids.T)).astype(jnp.int32)

        # In blocks of rows: all distances of a million sentences to their clusters take 13 GB.
        return jax.lax.map(nearest, x, batch_size=_BLOCK)

    def step(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        number, centroids, chosen, _ = state
        # Filler belongs to a cluster past the last, which is dropped.
        segment = jnp.where(there, chosen, clusters)
        sums = jax.ops.segment_sum(x, segment, clusters + 1)[:clusters]
        sizes = jax.ops.segment_sum(jnp.ones_like(x[:, :1]), segment, clusters + 1)[:clusters]
        means = sums / jnp.maximum(sizes, jnp.ones((), x.dtype))
        centroids = jnp.where(sizes > 0, means, centroids)
        again = assign(centroids)
        return number + 1, centroids, again, ((again != chosen) & there).any()

    def goes_on(state: tuple[Array, Array, Array, Array]) -> Array:
        return state[3] & (state[0] < _ITERATIONS)

    begin = jnp.zeros((), jnp.int32), start, assign(start), jnp.ones((), bool)
    _, centroids, chosen, _ = jax.lax.while_loop(goes_on, step, begin)
    return centroids, chosen


def dominant_directions(
    x: Float[AnyArray, "row dim"], there: Bool[AnyArray, " row"], components: int
) -> Float[Array, "dim components"]:
    """Returns the top principal directions of centred rows, ``[dim, components]``, as orthonormal or zero columns.

    Pure: works under ``jit`` (``components`` static) and ``vmap``. Decomposes the smaller of
    ``x x^T`` and ``x^T x``. ``there`` says which rows are real, ``[row]``.
    """
    x = jnp.where(there[:, None], x, jnp.zeros((), x.dtype))
    rows, dim = x.shape
    # Scaled to a largest entry of 1: squares of small numbers underflow in float32.
    largest = jnp.max(jnp.abs(x))
    x = x / jnp.where(largest > 0, largest, jnp.ones((), x.dtype))
    values, vectors = jnp.linalg.eigh(product(x, x.T) if rows < dim else product(x.T, x))
    top = min(components, rows)
    values, vectors = values[::-1][:top], vectors[:, ::-1][:, :top]
    real = values > 16 * jnp.finfo(x.dtype).eps * values[0]
    if rows < dim:
        vectors = product(x.T, vectors)
        norm = jnp.linalg.norm(vectors, axis=0, keepdims=True)
        vectors = vectors / jnp.where(norm > 0, norm, jnp.ones((), x.dtype))
    return jnp.pad(jnp.where(real, vectors, jnp.zeros((), x.dtype)), ((0, 0), (0, components - top)))


def cluster_directions(
    x: Float[AnyArray, "row dim"], count: int | Int[Array, ""], clusters: int, components: int, key: Key[Array, ""]
) -> tuple[Float[Array, "cluster dim"], Float[Array, "cluster dim components"]]:
    """Returns the centroids of the first ``count`` rows, and each cluster's directions; arguments as for ``kmeans``.

    A small cluster has zero columns: at least one direction of its rows is kept, or they would all coincide.
    """
    x = jnp.asarray(x)
    centroids, chosen = kmeans(x, count, clusters, key)
    usual = row_bucket(len(x) // clusters, len(x))

    def of_cluster(cluster: Int[Array, ""]) -> Float[Array, "dim components"]:
        there = (chosen == cluster) & (jnp.arange(len(x)) < count)
        number = there.sum()

        def of_rows(most: int) -> Float[Array, "dim components"]:
            rows = jnp.argsort(~there, stable=True)[:most]
            return dominant_directions(x[rows] - centroids[cluster][None], there[rows], components)

        few = partial(of_rows, usual)
        basis = few() if usual == len(x) else jax.lax.cond(number <= usual, few, partial(of_rows, len(x)))
        return jnp.where(jnp.arange(components) < number - 2, basis, jnp.zeros((), x.dtype))

    return centroids, jax.lax.map(of_cluster, jnp.arange(clusters, dtype=jnp.int32))


def cbie(x: Float[AnyArray, "row dim"], key: Key[Array, ""], clusters: int, components: int) -> Float[Array, "row dim"]:
    """Returns the embeddings of one language without their clusters' means and directions, ``[row, dim]``.

    They are what ``fit_cbie`` finds with this key. Pure: works under ``jit`` (``clusters`` and ``components`` static)
    and ``vmap``; k-means has no gradient.

    Example:
      >>> x = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32) + 4
      >>> lj.functional.cbie(x, jax.random.key(0), clusters=2, components=3).shape
      (60, 16)
    """
    x = jnp.asarray(x)
    x = x - x.mean(axis=0, keepdims=True)
    centroids, bases = cluster_directions(x, len(x), clusters, components, key)
    step = Step(shift=centroids, basis=bases, clusters=jnp.zeros(clusters, jnp.int32))
    return step(x, jnp.zeros((), jnp.int32))


def fit_cbie(
    x: Mapping[str, Embeddings],
    clusters: Annotated[int | None, Limit(1, _MOST_ROWS, "clusters of each language")] = None,
    components: Annotated[int, DIMENSIONS] = 12,
    *,
    seed: Annotated[int, SEED] = 0,
    source: EncoderSpec | None = None,
) -> Transform:
    """Fits ``y = z - P_c P_c^T z``, ``z = x - mean_c``, for the clusters c of each language.

    The transform needs the language of each vector.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``; moments do not suffice.
      clusters: number of clusters per language; by default one per 300 sentences, at least one.
      components: directions removed per cluster; a small cluster keeps at least one direction.
      seed: seed of the random starts; the start of a language does not depend on the others.
      source: spec of the embeddings' encoder; saved, and checked on use.

    Raises:
      ValueError: moments are given, an array or code is invalid, a language has fewer sentences than
        clusters or than ``components + 2``, or ``components`` is out of range.

    Example:
      >>> x = {code: np.random.default_rng(0).normal(size=(60, 16)) + 4 for code in ("de", "en")}
      >>> cbie = lj.transforms.fit_cbie(x, clusters=2, components=3)
      >>> cbie.steps[0].shift.shape, cbie.steps[0].basis.shape  # two clusters of each of two languages
      ((4, 16), (4, 16, 3))
    """
    moments = moments_by_language(x, least=1, embeddings=True)
    dim = next(iter(moments.values())).dim
    components = DIMENSIONS("components", components, dim=dim)
    seed = SEED("seed", seed)
    fewest, scarcest = min((m.count, code) for code, m in moments.items())
    if clusters is not None:
        clusters = whole_number("clusters", clusters, 1, fewest, f"the sentences of {scarcest}")
    # Without two sentences more than directions, all sentences of a cluster coincide.
    whole_number("components", components, 1, fewest - 2, f"the {fewest} sentences of {scarcest} leave two")
    shifts, bases, owners = [], [], []
    for index, (code, rows) in enumerate(canonical_keys(x).items()):
        number = clusters or max(len(rows) // _CLUSTER, 1)
        key = jax.random.fold_in(jax.random.key(seed), zlib.crc32(code.encode()))
        # Centred, because a common offset would cost the distances precision.
        mean = moments[code].mean.astype(np.float32)
        centred: Any = in_float32(rows) - mean[None] if on_device(rows) else np.asarray(rows, np.float64) - mean
        unit = float(abs(centred).max()) or 1.0
        padded = pad_rows((centred / unit).astype(np.float32), row_bucket(len(rows), _MOST_ROWS))
        centroids, basis = map(np.asarray, _clusters(padded, len(rows), number, components, key))
        shifts.append(centroids * unit + mean.astype(np.float64))
        bases.append(basis)
        owners += [index] * number
    parameters = {"components": components} | ({} if clusters is None else {"clusters": clusters}) | {"seed": seed}
    step = Step.of(shift=np.concatenate(shifts), basis=np.concatenate(bases))
    step = step._replace(clusters=jax.device_put(np.array(owners, np.int32)))
    return Transform((step,), (Fit.of("cbie", moments, by_language=True, **parameters),), source).with_sample(x)


_clusters = partial(jax.jit, static_argnames=("clusters", "components"))(cluster_directions)
