"""Linear mapping: rotate each language onto a target language, fitted on aligned pairs.

The orthogonal Procrustes problem (Schönemann 1966): with rows X in a language and Y of their
translations::

    W = argmin ||X W^T - Y||_F over orthogonal W = U V^T,   Y^T X = U S V^T

is the closed form of the linear mapping of Wu and Dredze, "Do Explicit Alignments Robustly Improve
Multilingual Encoders?", EMNLP 2020, who iterate towards an orthogonal matrix.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from lsar_jax.arrays import in_float32, product
from lsar_jax.checks import check_flags
from lsar_jax.languages import canonical_keys, language_code
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform
from lsar_jax.transforms.base.decompose import on_device
from lsar_jax.transforms.methods.shift import aligned_sides, rows_of_pairs

__all__ = ["fit_linear_map", "linear_maps", "procrustes"]

_BLOCK = 8192


def procrustes(cross: Float[AnyArray, "dim dim"]) -> Float[Any, "dim dim"]:
    """Returns the orthogonal W that best maps x to y, ``y = W x``, from the sum of ``y x^T``, ``[dim, dim]``.

    Pure: works under ``jit`` and ``vmap``; numpy decomposes a numpy array.
    """
    left, _, right = cross.__array_namespace__().linalg.svd(cross, full_matrices=False)
    return product(left, right)


def fit_linear_map(
    pairs: Mapping[str, tuple[Embeddings, Embeddings]],
    target: str = "en",
    *,
    center: bool = False,
    source: EncoderSpec | None = None,
) -> Transform:
    """Fits ``y = W_l x`` with orthogonal W_l, onto the target language's embeddings.

    The transform needs the language of each vector.

    With fewer pairs than dimensions W_l is still orthogonal, but undetermined in the directions
    that no pair covers.

    Args:
      pairs: mapping from language to its embeddings ``[n, dim]`` and its translations'
        into ``target``, row by row.
      target: the language that the others are mapped to; it stays unchanged.
      center: whether to centre both sides first, ``y = W_l (x - mean_l) + mean of the target``; the paper does not.
      source: spec of the embeddings' encoder; saved, and checked on use.

    Raises:
      ValueError: there are no pairs, sides differ in number or width, an array or code is invalid, moments are given,
        or a side holds only zeros.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> english = rng.normal(size=(50, 4))
      >>> german = english @ np.linalg.qr(rng.normal(size=(4, 4)))[0]  # the same, rotated
      >>> align = lj.transforms.fit_linear_map({"de": (german, english)})
      >>> bool(np.allclose(align(german, "de"), english, atol=1e-4))
      True
    """
    check_flags(center=center)
    target = language_code(target)
    sides, moments, targets = aligned_sides(pairs, target, embeddings=True)
    dim = next(iter(moments.values())).dim
    codes = tuple(sorted({*moments, target}))
    matrix, shift, offset = (np.zeros((len(codes), *shape)) for shape in ((dim, dim), (dim,), (dim,)))
    matrix[codes.index(target)] = np.eye(dim)
    for code, (x, y) in sides.items():
        row = codes.index(code)
        if center:
            shift[row], offset[row] = moments[code].mean, targets[code].mean
        cross = _cross(x, y, shift[row], offset[row])
        if not cross.any():
            raise ValueError(f"{code}: one side holds only zeros; there is no rotation to find")
        matrix[row] = procrustes(cross / np.abs(cross).max())
    options = {"center": 1} if center else {}
    fit = replace(Fit.of("linear_map", moments, by_language=True, target=target, **options), languages=codes)
    step = Step.of(matrix=matrix, **({"shift": shift, "offset": offset} if center else {}))
    return Transform((step,), (fit,), source).with_sample(rows_of_pairs(sides, target))


def linear_maps(
    matrices: Mapping[str, Float[AnyArray, "dim dim"]],
    target: str,
    fitted_on: Mapping[str, int],
    *,
    source: EncoderSpec | None = None,
    **parameters: int | float | str,
) -> Transform:
    """Returns the transform ``y = W_l x`` of matrices that were fitted elsewhere, as by ``python -m train.align``.

    ``fitted_on`` is the number of pairs, or links, by language; ``target`` stays unchanged.

    Raises:
      ValueError: there are no matrices, or they are not square or not of one width.
    """
    by_code = canonical_keys(matrices)
    shapes = {np.shape(matrix) for matrix in by_code.values()}
    if len(shapes) != 1 or len(set(*shapes)) != 1:
        raise ValueError(f"the matrices have the shapes {sorted(shapes)}; give square ones of one width")
    [(dim, _)] = shapes
    identity = {language_code(target): np.eye(dim, dtype=np.float32)}
    maps = dict(sorted((identity | by_code).items()))
    counts = tuple(sorted(canonical_keys(fitted_on).items()))
    fit = Fit("linear_map", dim, tuple(maps), counts, (("target", language_code(target)), *parameters.items()))
    step = Step.of(matrix=np.stack([np.asarray(matrix) for matrix in maps.values()]))
    return Transform((step,), (fit,), source)


def _cross(
    x: Embeddings, y: Embeddings, x_mean: Float[np.ndarray, " dim"], y_mean: Float[np.ndarray, " dim"]
) -> Float[np.ndarray, "dim dim"]:
    """Returns the sum of ``(y - y_mean) (x - x_mean)^T``; blocks in float32 on the rows' device, or in float64."""
    to = in_float32 if on_device((x, y)) else partial(np.asarray, dtype=np.float64)
    total = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(x), _BLOCK):
        part, aligned = (to(side[start : start + _BLOCK]) - to(mean) for side, mean in ((x, x_mean), (y, y_mean)))
        total += np.asarray(product(aligned.T, part))
    return total
