"""LangSAE editing: remove the features of a sparse autoencoder that nearly all sentences of a language have.

Kim, Yoon, Park and Lim, "LangSAE Editing: Improving Multilingual Information Retrieval via Post-hoc Language Identity
Removal", ACL 2026 (arXiv 2601.04768). A sparse autoencoder without biases learns to reconstruct embeddings from the
``active`` largest of ``width * dim`` features::

    f = largest(relu(x E)),   E, D = argmin mean (f D - x)^2

Features that at least ``threshold`` of the sentences of any language have are removed from all embeddings, so that no
language need be known, and an embedding is made anew from the others::

    y = (f without them) D

As in the released code (junkim100/LangSAE-Editing), E starts uniform in ``+-1 / sqrt(dim)`` and D as its transpose,
neither is normalised, the mean stays, and Adam takes the steps. What differs here:

- The rate of Adam is higher and falls to zero, for thousands of batches instead of a hundred million embeddings, and
  each batch draws the languages evenly.
- A feature counts as fired where it is among the largest; the code counts it wherever ``x E`` is positive, which after
  short training removes nearly everything.
- Features of several languages are removed too, as the code's README advises; by default, the code leaves them.
- A penalty for features that fire in fewer than 1% of a batch is left out. By default it is at most 1e-7.
- ``keep_error``, with ``y = x - (f of the removed features) D``, is not in the code.

The paper could not be read: this is the code, whose default ``width`` and ``active`` are 32 and 64; others report
256 and 4096 for the paper's results. A ``width`` of 8 suits thousands of sentences.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from lsar_jax.arrays import log, pad_rows, product, row_bucket, to_device
from lsar_jax.checks import check_flags
from lsar_jax.extras import import_extra
from lsar_jax.languages import canonical_keys
from lsar_jax.moments import moments_by_language
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, SparseAutoencoder, Transform
from lsar_jax.transforms.base.limits import SEED, Limit, share_of
from lsar_jax.transforms.base.sparse_autoencoder import largest

__all__ = ["fit_langsae", "reconstruction_loss"]


_BATCH = 256
# Of weights near 1, and falling to zero.
_LEARNING_RATE = 0.1
# Steps of a call of the device, which an interrupt ends.
_STEPS = 50
# A share of the variance whose loss is worth a warning.
_MUCH = 0.1
# Embeddings whose features are counted together.
_BLOCK = 1024
_MOST_ROWS = 1 << 30

_WIDTH = Limit(1, 1024, "features for each dimension")
_ACTIVE = Limit(1, lambda dim, width, **_: width * dim, "the features")
_BATCHES = Limit(1, 1 << 30, "batches")

# E and D.
Weights = tuple[Float[Array, "dim feature"], Float[Array, "feature dim"]]
Rows = Float[np.ndarray, "row dim"]


def reconstruction_loss(weights: Weights, x: Float[Array, "vector dim"], active: int) -> Float[Array, ""]:
    """Returns the mean squared error of embeddings that are reconstructed from their ``active`` largest features.

    Pure: works under ``jit`` (``active`` static), ``grad`` and ``vmap``.

    Args:
      weights: E ``[dim, feature]`` and D ``[feature, dim]``.
      x: embeddings ``[n, dim]``.
      active: number of features that an embedding has at most.
    """
    encoder, decoder = weights
    return jnp.square(product(largest(jax.nn.relu(product(x, encoder)), active), decoder) - x).mean()


def fit_langsae(
    x: Mapping[str, Embeddings],
    width: Annotated[int, _WIDTH] = 8,
    active: Annotated[int, _ACTIVE] = 64,
    *,
    threshold: Annotated[float, share_of] = 0.95,
    keep_error: bool = False,
    steps: Annotated[int, _BATCHES] = 300,
    seed: Annotated[int, SEED] = 0,
    source: EncoderSpec | None = None,
) -> Transform:
    """Trains a sparse autoencoder, and fits the removal of the features that languages have.

    The training runs on the device and takes minutes. It needs the extra ``train``, and logs its error.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``; moments do not suffice.
      width: number of features for each dimension.
      active: number of features that an embedding has at most.
      threshold: share of the sentences of a language in which a feature fires that is removed.
      keep_error: subtract what the removed features add to an embedding, instead of making it anew from the others.
      steps: number of batches of 256 embeddings.
      seed: seed of the first weights and of the batches.
      source: spec of the embeddings' encoder; saved, and checked on use.

    Raises:
      ValueError: moments are given, an array or code is invalid, or an option is out of range.
      ImportError: optax is not installed.

    Example:
      >>> x = {code: np.random.default_rng(0).normal(size=(60, 16)) + 4 for code in ("de", "en")}
      >>> langsae = lj.transforms.fit_langsae(x, width=4, active=8, steps=10)
      >>> langsae.steps[0].encoder.shape, langsae(x["de"]).shape
      ((16, 64), (60, 16))
    """
    check_flags(keep_error=keep_error)
    moments = moments_by_language(x, least=1, embeddings=True)
    dim = next(iter(moments.values())).dim
    width, steps, seed = _WIDTH("width", width), _BATCHES("steps", steps), SEED("seed", seed)
    active, threshold = _ACTIVE("active", active, dim=dim, width=width), share_of("threshold", threshold)
    rows, scaled = _scaled([np.asarray(part, np.float32) for part in canonical_keys(x).values()], dim)
    weights = _train(rows, [*map(len, scaled)], width * dim, active, steps, seed)
    fires, errors = zip(*(_measured(weights, part, active) for part in scaled), strict=True)
    removed = np.stack(fires) >= threshold
    mean = np.mean([part.mean(axis=0, dtype=np.float64) for part in scaled], axis=0)
    variance = np.mean([*map(_mean_square, scaled)]) - np.square(mean).mean()
    lost = float(np.mean(errors) / max(variance, np.finfo(float).tiny))
    log.log(
        logging.INFO if lost <= _MUCH or keep_error else logging.WARNING,
        "LangSAE: the features lose %.1f%% of the variance; %d of %d are removed, which are those of %s",
        *(100 * lost, removed.any(axis=0).sum(), width * dim),
        ", ".join(f"{code} ({count})" for code, count in zip(moments, removed.sum(axis=1), strict=True)),
    )
    parameters: dict[str, Any] = {"width": width, "active": active, "threshold": threshold}
    parameters |= ({"keep_error": 1} if keep_error else {}) | {"steps": steps, "seed": seed}
    fit = Fit.of("langsae", moments, by_language=False, **parameters)
    factors = to_device(np.asarray(~removed.any(axis=0)))
    return Transform((SparseAutoencoder(*weights, factors, active, keep_error),), (fit,), source).with_sample(x)


def _scaled(parts: Sequence[Float[np.ndarray, "_ dim"]], dim: int) -> tuple[Rows, list[Float[np.ndarray, "_ dim"]]]:
    """Returns one array of all rows, scaled to a mean square of 1 over languages, with filler, and its parts."""
    scale = float(np.sqrt(np.mean([*map(_mean_square, parts)]))) or 1.0
    ends = np.cumsum([len(part) for part in parts])
    rows = np.zeros((row_bucket(int(ends[-1]), _MOST_ROWS), dim), np.float32)
    scaled = np.split(rows[: ends[-1]], ends[:-1])
    for part, out in zip(parts, scaled, strict=True):
        np.divide(part, np.float32(scale), out=out)
    return rows, scaled


def _mean_square(x: Rows) -> float:
    return float(np.einsum("vd,vd->", x, x, dtype=np.float64)) / x.size


def _train(rows: Rows, sizes: Sequence[int], features: int, active: int, steps: int, seed: int) -> Weights:
    """Trains E and D on batches with about as many embeddings of each language, whose rows follow one another."""
    x = to_device(rows)
    counts = np.array(sizes, np.int32)
    starts = (np.cumsum(counts) - counts).astype(np.int32)
    init, run = _programs(active)
    start, batches = jax.random.split(jax.random.key(seed))
    state = init(start, x.shape[1], features)
    for first in range(0, steps, _STEPS):
        state = jax.block_until_ready(run(state, x, starts, counts, batches, first, min(first + _STEPS, steps), steps))
    return state[0]


@cache
def _programs(active: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The programs that start the training, and that take steps; fits of the same sizes share them."""
    optax = import_extra("optax", "train", "LangSAE")
    adam = optax.scale_by_adam()

    @partial(jax.jit, static_argnums=(1, 2))
    def init(key: Key[Array, ""], dim: int, features: int) -> Any:
        encoder = jax.random.uniform(key, (dim, features), jnp.float32, -(dim**-0.5), dim**-0.5)
        return (encoder, encoder.T), adam.init((encoder, encoder.T))

    @partial(jax.jit, donate_argnums=0)
    def run(
        state: Any,
        x: Float[Array, "row dim"],
        starts: Int[Array, " language"],
        counts: Int[Array, " language"],
        key: Key[Array, ""],
        first: int | Int[Array, ""],
        last: int | Int[Array, ""],
        steps: int | Int[Array, ""],
    ) -> Any:
        def step(number: Int[Array, ""], state: Any) -> Any:
            of_language, of_row = jax.random.split(jax.random.fold_in(key, number))
            language = jax.random.randint(of_language, (_BATCH,), 0, len(counts), jnp.int32)
            batch = x[starts[language] + jax.random.randint(of_row, (_BATCH,), 0, counts[language], jnp.int32)]
            weights, moments = state
            gradient = jax.grad(reconstruction_loss)(weights, batch, active)
            with jax.numpy_dtype_promotion("standard"):  # Adam raises a float to the power of a step
                updates, moments = adam.update(gradient, moments)
                rate = (_LEARNING_RATE * x.shape[1] ** -0.5 * (1 - number / steps)).astype(x.dtype)
            return jax.tree.map(lambda weight, update: weight - rate * update, weights, updates), moments

        return jax.lax.fori_loop(first, last, step, state)

    return init, run


def _measured(weights: Weights, x: Rows, active: int) -> tuple[Float[np.ndarray, " feature"], float]:
    """Returns the share of embeddings that have each feature, and the mean squared error of the reconstruction."""
    padded = pad_rows(x, _BLOCK)  # filler fires no feature
    blocks = [_sums(weights, to_device(block), active) for block in np.split(padded, len(padded) // _BLOCK)]
    fires, lost = (np.sum([np.asarray(of, np.float64) for of in sums], axis=0) for sums in zip(*blocks, strict=True))
    return fires / len(x), float(lost / x.size)


@partial(jax.jit, static_argnames="active")
def _sums(weights: Weights, x: Float[Array, "row dim"], active: int) -> tuple[Int[Array, " feature"], Float[Array, ""]]:
    features = largest(jax.nn.relu(product(x, weights[0])), active)
    return (features > 0).sum(axis=0), jnp.square(product(features, weights[1]) - x).sum()
