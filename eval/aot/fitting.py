"""The programs of moments, of every fit, and of every kind of transform."""

from functools import partial

import jax
from jax.sharding import Mesh

from eval.aot.shapes import Sizes, Trace, array, floats, integers, on_one, placed
from lsar_jax.mesh import split
from lsar_jax.moments.accumulator import next_block, zero_state
from lsar_jax.moments.moments import BLOCK
from lsar_jax.transforms import (
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
from lsar_jax.transforms.identifier import discriminant, nearest_mean

__all__ = ["on_meshes", "programs"]

# CBIE's clusters of a language of 10,000 sentences, with rows for these, and its directions.
_CLUSTERS, _ROWS, _COMPONENTS = 33, 16_384, 12
# Rows of a cluster, and embeddings to transform.
_MEMBERS, _VECTORS = 512, 32_768


def on_meshes(sizes: Sizes) -> dict[str, Trace]:
    """The programs that sum moments, on any number of devices."""
    return {
        "moments/means": partial(_moments, sizes, second=False),
        "moments/second": partial(_moments, sizes, second=True),
    }


def programs(sizes: Sizes) -> dict[str, Trace]:
    """The programs of fits and transforms, which run on one device."""
    count, dim = sizes.languages, sizes.dim
    means, square, squares, span = floats(count, dim), floats(dim, dim), floats(count, dim, dim), floats(dim, count - 1)
    clusters, x = count * _CLUSTERS, floats(_VECTORS, dim)
    key = jax.eval_shape(lambda: jax.random.key(0))
    fits = {
        "lsar": on_one(partial(language_subspace, rank=count - 1), means),
        "outliers": on_one(partial(largest_dimensions, largest=3), means),
        "lir": on_one(jax.vmap(partial(leading_directions, components=1)), squares),
        "whitening": on_one(zca, square, floats()),
        "language-whitening": on_one(jax.vmap(zca), squares, floats(count)),
        "cbie/clusters": on_one(
            lambda x, rows, key: kmeans(x, rows, _CLUSTERS, key), floats(_ROWS, dim), integers(), key
        ),
        "cbie/directions": on_one(
            partial(dominant_directions, components=_COMPONENTS), floats(_MEMBERS, dim), array((_MEMBERS,), bool)
        ),
        "leace": on_one(erasing_functionals, square, span, floats()),
        "identifier": on_one(discriminant, means, square, floats()),
        "linear-map": on_one(procrustes, square),
    }
    steps = {
        "center": Step(shift=means),
        "outliers": Step(scale=floats(dim)),
        "lsar": Step(basis=span),
        "lir": Step(basis=floats(count, dim, 1)),
        "whitening": Step(shift=floats(dim), matrix=square),
        "language-whitening": Step(shift=means, matrix=squares),
        "cbie": Step(
            shift=floats(clusters, dim), basis=floats(clusters, dim, _COMPONENTS), clusters=integers(clusters)
        ),
        "leace": Step(shift=floats(dim), basis=span, dual=span, offset=floats(dim)),
        "head": Step(matrix=square, offset=floats(dim)),
    }
    traces = {f"fit/{name}": trace for name, trace in fits.items()}
    for name, step in steps.items():
        shared = all(part is None or part.shape[0] == dim for part in step)
        languages = integers() if shared else integers(_VECTORS)
        traces[f"apply/{name}"] = on_one(apply_steps, (step,), x, (languages,))
    return traces | {"apply/identifier": on_one(nearest_mean, x, floats(dim), means, floats(count))}


def _moments(sizes: Sizes, mesh: Mesh, *, second: bool) -> jax.stages.Traced:
    """Traces the program that adds a block of embeddings to the sums of each device."""
    count = BLOCK * mesh.size
    (x,) = placed(split(mesh, 1), floats(1, count, sizes.dim))
    (places,) = placed(split(mesh), integers(count))
    state = jax.eval_shape(lambda: zero_state(mesh, 1, sizes.dim, second))
    return next_block(mesh).trace(*placed(split(mesh), state), x, places)
