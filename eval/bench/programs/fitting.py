"""The programs of moments, of every fit, and of every kind of transform."""

from functools import partial
from typing import Any

import jax
from jax.sharding import Mesh

from eval.bench.programs.shapes import Sizes, Trace, floats, integers, on_one, placed
from lsar_jax import functional, transforms
from lsar_jax.mesh import split
from lsar_jax.moments.accumulator import next_block, zero_state
from lsar_jax.moments.moments import BLOCK
from lsar_jax.transforms import SparseAutoencoder, Step
from lsar_jax.transforms.base.steps import apply_steps
from lsar_jax.transforms.identifier import discriminant, nearest_mean
from lsar_jax.transforms.methods import METHODS, OF_PAIRS

__all__ = ["on_meshes", "programs"]

# CBIE's clusters of a language of 10,000 sentences, with rows for these, and its directions; queries of CSLS.
_CLUSTERS, _ROWS, _COMPONENTS, _QUERIES = 33, 16_384, 12, 2048
# Embeddings to transform.
_VECTORS = 32_768
# LangSAE's features for each dimension, those that a vector has, and vectors of a batch.
_WIDTH, _ACTIVE, _BATCH = 8, 64, 256


def on_meshes(sizes: Sizes) -> dict[str, Trace]:
    """The programs that sum moments, on any number of devices."""
    return {f"moments/{name}": partial(_moments, sizes, second=name == "second") for name in ("means", "second")}


def programs(sizes: Sizes) -> dict[str, Trace]:
    """The programs of fits and transforms, which run on one device."""
    return {f"fit/{name}": trace for name, trace in _fits(sizes).items()} | {
        f"apply/{name}": trace for name, trace in _transforms(sizes).items()
    }


def _fits(sizes: Sizes) -> dict[str, Trace]:
    count, dim = sizes.languages, sizes.dim
    fits = {
        name: on_one(function, *(floats(*shape) for shape in shapes))
        for name, method in {**METHODS, **OF_PAIRS}.items()
        if method.core is not None
        for function, *shapes in [method.core(count, dim)]
    }
    # The compiled parts of a loop in Python.
    key = jax.eval_shape(lambda: jax.random.key(0))
    gradient = jax.grad(partial(transforms.reconstruction_loss, active=_ACTIVE))
    weights = floats(dim, _WIDTH * dim), floats(_WIDTH * dim, dim)
    return fits | {
        "algorithm-1": on_one(partial(functional.language_components, rank=count - 1), floats(count, dim)),
        "cbie": on_one(partial(functional.cbie, clusters=_CLUSTERS, components=_COMPONENTS), floats(_ROWS, dim), key),
        "csls": on_one(functional.csls, floats(_QUERIES, dim), floats(_ROWS, dim), floats(_QUERIES, dim)),
        "langsae/gradient": on_one(gradient, weights, floats(_BATCH, dim)),
        "identifier": on_one(discriminant, floats(count, dim), floats(dim, dim), floats()),
    }  # fmt: skip


def _transforms(sizes: Sizes) -> dict[str, Trace]:
    count, dim = sizes.languages, sizes.dim
    x, means, square, squares = floats(_VECTORS, dim), floats(count, dim), floats(dim, dim), floats(count, dim, dim)
    span, clusters, features = floats(dim, count - 1), count * _CLUSTERS, _WIDTH * dim
    steps = {
        "center": Step(shift=means),
        "outliers": Step(scale=floats(dim)),
        "lsar": Step(basis=span),
        "lir": Step(basis=floats(count, dim, 1)),
        "whitening": Step(shift=floats(dim), matrix=square),
        "language-whitening": Step(shift=means, matrix=squares),
        "cbie": Step(floats(clusters, dim), basis=floats(clusters, dim, _COMPONENTS), clusters=integers(clusters)),
        "leace": Step(shift=floats(dim), basis=span, dual=span, offset=floats(dim)),
        "head": Step(matrix=square, offset=floats(dim)),
    }
    traces = {}
    for name, step in steps.items():
        shared = all(part is None or part.shape[0] == dim for part in step)
        traces[name] = on_one(apply_steps, (step,), x, (integers() if shared else integers(_VECTORS),))
    weights = floats(dim, features), floats(features, dim), floats(features)
    return traces | {
        "langsae": on_one(_apply_langsae, x, *weights, integers()),
        "identifier": on_one(nearest_mean, x, floats(dim), means, floats(count)),
    }


def _apply_langsae(x: Any, encoder: Any, decoder: Any, factors: Any, language: Any) -> Any:
    return apply_steps((SparseAutoencoder(encoder, decoder, factors, _ACTIVE, keep_error=False),), x, (language,))


def _moments(sizes: Sizes, mesh: Mesh, *, second: bool) -> jax.stages.Traced:
    """Traces the program that adds a block of embeddings to the sums of each device."""
    count = BLOCK * mesh.size
    (x,) = placed(split(mesh, 1), floats(1, count, sizes.dim))
    (places,) = placed(split(mesh), integers(count))
    state = jax.eval_shape(lambda: zero_state(mesh, 1, sizes.dim, second))
    return next_block(mesh).trace(*placed(split(mesh), state), x, places)
