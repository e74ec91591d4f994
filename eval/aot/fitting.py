"""The programs of moments, of every fit, and of every kind of transform."""

from functools import partial

import jax
from jax.sharding import Mesh

from eval.aot.arguments import Sizes, Trace, floats, integers, key, on_one, over_devices, some
from lsar_jax.moments.accumulator import first_block, next_block
from lsar_jax.moments.moments import BLOCK
from lsar_jax.transforms import (
    LanguageIdentifier,
    Step,
    dominant_directions,
    erasing_functionals,
    kmeans,
    language_subspace,
    largest_dimensions,
    leading_directions,
    procrustes,
    zca,
)
from lsar_jax.transforms.base.transform import apply_steps
from lsar_jax.transforms.identifier import discriminant

__all__ = ["on_meshes", "programs"]

# CBIE's clusters of a language of 10,000 sentences, with rows for these, and its directions.
_CLUSTERS, _ROWS, _COMPONENTS = 33, 16_384, 12
# Rows of a cluster, and embeddings to transform.
_MEMBERS, _VECTORS = 512, 32_768


def on_meshes(sizes: Sizes) -> dict[str, Trace]:
    """Returns the programs that sum moments, on any number of devices."""
    return {
        "moments/means": partial(_moments, sizes, second=False),
        "moments/second": partial(_moments, sizes, second=True),
    }


def programs(sizes: Sizes) -> dict[str, Trace]:
    """Returns the programs of fits and transforms, which run on one device."""
    means, square = (sizes.languages, sizes.dim), (sizes.dim, sizes.dim)
    squares = (sizes.languages, *square)
    fits = {
        "lsar": on_one(partial(language_subspace, rank=sizes.languages - 1), floats(*means)),
        "outliers": on_one(partial(largest_dimensions, largest=3), floats(*means)),
        "lir": on_one(jax.vmap(partial(leading_directions, components=1)), floats(*squares)),
        "whitening": on_one(zca, floats(*square), floats()),
        "language-whitening": on_one(jax.vmap(zca), floats(*squares), floats(sizes.languages)),
        "cbie/clusters": on_one(
            partial(_kmeans, clusters=_CLUSTERS), floats(_ROWS, sizes.dim), integers(), key()
        ),
        "cbie/directions": on_one(
            partial(dominant_directions, components=_COMPONENTS), floats(_MEMBERS, sizes.dim), some((_MEMBERS,), bool)
        ),
        "leace": on_one(erasing_functionals, floats(*square), floats(sizes.dim, sizes.languages - 1), floats()),
        "identifier": on_one(discriminant, floats(*means), floats(*square), floats()),
        "linear-map": on_one(procrustes, floats(*square)),
    }  # fmt: skip
    found = {f"fit/{name}": trace for name, trace in fits.items()}
    found |= {f"apply/{name}": _applied(sizes, step) for name, step in _steps(sizes).items()}
    x, offsets = floats(_VECTORS, sizes.dim), floats(sizes.languages)
    return found | {"apply/identifier": on_one(_identified, floats(sizes.dim), floats(*means), offsets, x)}


def _moments(sizes: Sizes, mesh: Mesh, *, second: bool) -> jax.stages.Traced:
    """Traces what adds a block of embeddings to the sums of each device."""
    count = BLOCK * mesh.size
    x, places = *over_devices(mesh, floats(1, count, sizes.dim), axis=1), *over_devices(mesh, integers(count))
    state, _ = jax.eval_shape(first_block(mesh, second, False), x, places)
    return next_block(mesh).trace(*over_devices(mesh, state), x, places)


def _kmeans(x: jax.Array, count: jax.Array, key: jax.Array, *, clusters: int) -> tuple[jax.Array, jax.Array]:
    return kmeans(x, count, clusters, key)


def _identified(center: jax.Array, weights: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
    return LanguageIdentifier(center, weights, bias, tuple(map(str, range(len(bias))))).ids(x)


def _steps(sizes: Sizes) -> dict[str, Step]:
    """Returns the step of every method, with shapes instead of arrays."""
    dim, count = sizes.dim, sizes.languages
    table, square, rank = floats(count, dim), floats(dim, dim), floats(dim, count - 1)
    clusters = count * _CLUSTERS
    return {
        "center": Step(shift=table),
        "outliers": Step(scale=floats(dim)),
        "lsar": Step(basis=rank),
        "lir": Step(basis=floats(count, dim, 1)),
        "whitening": Step(shift=floats(dim), matrix=square),
        "language-whitening": Step(shift=table, matrix=floats(count, dim, dim)),
        "cbie": Step(
            shift=floats(clusters, dim), basis=floats(clusters, dim, _COMPONENTS), clusters=integers(clusters)
        ),
        "leace": Step(shift=floats(dim), basis=rank, dual=rank, offset=floats(dim)),
        "head": Step(matrix=square, offset=floats(dim)),
    }


def _applied(sizes: Sizes, step: Step) -> Trace:
    """Returns what traces a step on embeddings of many languages."""
    shared = all(part is None or part.shape[0] == sizes.dim for part in step)
    return on_one(apply_steps, (step,), floats(_VECTORS, sizes.dim), (integers(*() if shared else (_VECTORS,)),))
