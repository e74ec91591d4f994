"""Identifies the language of an embedding, by linear discriminant analysis on the moments.

The detected language has the nearest mean under the covariance that the languages share (Fisher 1936;
Rao 1948). With means mu_l, their pooled within-language covariance S and equal priors, it maximizes::

    score_l(x) = mu_l^T S^-1 x - mu_l^T S^-1 mu_l / 2.

With fewer sentences than dimensions S is singular; it is shrunk towards a multiple of the identity
by the oracle approximating shrinkage estimate (Chen, Wiesel, Eldar and Hero 2010), which needs only
S and the number of sentences.

Whether it is one of the known languages at all, ``novelty.py`` says.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.arrays import (
    bucketed,
    check_floats,
    check_rows,
    check_width,
    product,
    same_width,
    to_device,
    warn_far_off,
)
from lsar_jax.checks import as_float, errors_of
from lsar_jax.languages import canonical_keys, own_name
from lsar_jax.moments import common_source, pool_moments
from lsar_jax.moments.by_language import LanguageData
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec, same_source
from lsar_jax.transforms.base.decompose import decompose
from lsar_jax.transforms.novelty import NOVEL, Novelty, novelty_of

__all__ = ["NEAREST_TAKEN", "UNKNOWN", "LanguageIdentifier", "discriminant", "fit_identifier", "oas_shrinkage"]

# The code of BCP 47 for a language that is not determined.
UNKNOWN = "und"
_NONE = "are in none of the languages that the identifier knows, for example row %d; they are taken for the nearest one"
NEAREST_TAKEN = f"%d of %d vectors%s {_NONE}"


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["center", "weights", "bias", "novel"],
    meta_fields=["languages", "source", "threshold"],
)
@dataclass(frozen=True, eq=False)
class LanguageIdentifier:
    """Identifies the language of each embedding: ``identifier(x)``.

    Attributes:
      center: vector that is subtracted first, ``[dim]``.
      weights: ``[language, dim]``.
      bias: ``[language]``.
      novel: tells text in other languages.
      languages: codes of the rows, in alphabetical order.
      source: spec of the raw embeddings that it was fitted on, or None for bare arrays.
      threshold: novelty, a ratio, above which the language of a row is unknown.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> places = 9 * np.eye(4, 64)
      >>> x = {code: rng.normal(size=(200, 64)) + place for code, place in zip(("de", "en", "fr"), places)}
      >>> lj.transforms.fit_identifier(x)(places)  # the last is none of the three
      ['de', 'en', 'fr', 'und']
    """

    # Any, because JAX rebuilds the tree with descriptions of arrays too, when it lowers a program.
    center: Any  # Float[AnyArray, " dim"]
    weights: Any  # Float[AnyArray, "language dim"]
    bias: Any  # Float[AnyArray, " language"]
    novel: Novelty
    languages: tuple[str, ...]
    source: EncoderSpec | None = None
    threshold: float = NOVEL

    def arrays(self) -> dict[str, Any]:
        """The arrays by name, as a file has them."""
        return {"center": self.center, "weights": self.weights, "bias": self.bias, **self.novel._asdict()}

    def shapes(self, dim: int) -> dict[str, list[int]]:
        """The shapes that its arrays must have for embeddings of this width."""
        rows, directions = len(self.languages), self.novel.axes.shape[-1]
        shapes = {"center": [dim], "weights": [rows, dim], "bias": [rows], "axes": [dim, directions], "unit": [1]}
        return shapes | {"places": [rows, directions], "means": [rows, dim]}

    @property
    def dim(self) -> int:
        """The width of the embeddings."""
        return self.weights.shape[1]

    def check_for(self, transform: str, dim: int, source: EncoderSpec | None, languages: Collection[str]) -> None:
        """Raises ValueError if it cannot choose the languages of a transform; see ``Transform.with_identifier``."""
        same_width("the parts", {"the identifier": self.dim, "the transform": dim})
        same_source("the parts", {"the transform": source, "the identifier": self.source})
        if unknown := sorted(set(self.languages) - set(languages)):
            raise ValueError(f"the identifier may detect {', '.join(unknown)}, which {transform} does not know")

    def __call__(self, x: Embeddings) -> list[str]:
        """Returns the code of each row's language; ``und``, undetermined, where its novelty is above ``threshold``.

        Raises:
          ValueError: it is not an array of floats, a value is not finite, or the width differs.
        """
        ids, novelty = self._found(x)
        # The novelty of vectors that are so long that it is NaN is above the threshold too.
        known = novelty <= self.threshold
        return [self.languages[row] if is_known else UNKNOWN for row, is_known in zip(ids, known, strict=True)]

    def novelty(self, x: Embeddings) -> Float[np.ndarray, " vector"]:
        """Returns the novelty of each row, ``[n]``: about 1 for text as in the fit, more for other languages.

        Raises:
          ValueError: as for a call.
        """
        return self._found(x)[1]

    def _found(self, x: Embeddings) -> tuple[Int[np.ndarray, " vector"], Float[np.ndarray, " vector"]]:
        check_width(x, self.dim, "the identifier")
        warn_far_off("embeddings", x)
        padded = bucketed(x)
        check_rows("embeddings", x, padded)
        ids, novelty = map(np.asarray, _detected(self, padded))
        return ids[: len(x)], novelty[: len(x)]

    def ids(self, x: Float[Array, "vector dim"]) -> Int[Array, " vector"]:
        """Returns the index of each row's language in ``languages``, ``[n]``; pure, for use under ``jit``."""
        return nearest_mean(x, self.center, self.weights, self.bias)

    def unknown(self, x: Float[Array, "vector dim"]) -> Bool[Array, " vector"]:
        """Returns whether each row's novelty is above the threshold, ``[n]``; pure, for use under ``jit``."""
        return ~(self.novel(x - self.center[None], self.ids(x)) <= self.threshold)

    def accuracy(self, x: Mapping[str, Embeddings]) -> dict[str, float]:
        """Returns the percentage of each language's rows whose nearest mean is their language's.

        Raises:
          ValueError: it was not fitted on a language, a language has no rows, or an array is invalid.
        """
        result = {}
        for code, rows in canonical_keys(x).items():
            own_name(code, self.languages, "the identifier")
            check_floats(code, rows)
            result[code] = 100 * float(np.mean(self._found(rows)[0] == self.languages.index(code)))
        return result

    def __repr__(self) -> str:
        return f"LanguageIdentifier(dim {self.dim}, {len(self.languages)} languages)"


def nearest_mean(
    x: Float[AnyArray, "vector dim"],
    center: Float[AnyArray, " dim"],
    weights: Float[AnyArray, "language dim"],
    bias: Float[AnyArray, " language"],
) -> Int[Array, " vector"]:
    """Returns the number of the language with the highest score for each row, ``[n]``; pure, for use under ``jit``."""
    return jnp.argmax(product(jnp.asarray(x) - center[None], jnp.asarray(weights).T) + bias[None], axis=1)


def oas_shrinkage(covariance: Float[AnyArray, "dim dim"], samples: int) -> Float[Any, ""]:
    """Returns how far to shrink a covariance of ``samples`` vectors to ``trace / dim`` times the identity, from 0 to 1.

    Chen, Wiesel, Eldar and Hero, "Shrinkage Algorithms for MMSE Covariance Estimation", 2010,
    equation 23, without the terms that vanish with the width, as in scikit-learn.
    """
    xp, dim = covariance.__array_namespace__(), covariance.shape[0]
    square, middle = (covariance**2).mean(), covariance.trace() / dim
    over = (samples + 1.0) * (square - middle**2 / dim)
    return xp.where(over > 0, xp.minimum((square + middle**2) / xp.where(over > 0, over, 1.0), 1.0), 1.0)


def discriminant(
    means: Float[AnyArray, "language dim"],
    covariance: Float[AnyArray, "dim dim"],
    shrinkage: float | Float[AnyArray, ""],
) -> tuple[Float[Any, "language dim"], Float[Any, " language"]]:
    """Returns the weights and biases of linear discriminant analysis with equal priors.

    ``covariance`` is that within the languages. Pure: works under ``jit`` and ``vmap``; numpy solves for numpy arrays.
    """
    xp, dim = covariance.__array_namespace__(), covariance.shape[0]
    level = xp.trace(covariance) / dim
    shrunk = (1 - shrinkage) * covariance + shrinkage * level * xp.eye(dim, dtype=covariance.dtype)
    solve = np.linalg.solve if xp is np else partial(jax.scipy.linalg.solve, assume_a="pos")
    weights = solve(shrunk, means.T).T
    return weights, -0.5 * (weights * means).sum(axis=1)


def fit_identifier(
    x: LanguageData,
    *,
    threshold: float = NOVEL,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> LanguageIdentifier:
    """Fits the identifier that ``Transform.with_identifier`` takes to support ``language="auto"``.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, to moments with second moments, or
        ``PooledMoments``; at least two languages.
      threshold: novelty above which the language of a row is unknown; ``inf`` for never.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, moments
        have no second moments, the covariance within the languages is singular, or the threshold is not positive.

    Example:
      >>> x = {code: np.random.default_rng(0).normal(size=(200, 8)) + 9 * i for i, code in enumerate(("de", "en"))}
      >>> center = lj.transforms.fit_center(x).with_identifier(lj.transforms.fit_identifier(x))
      >>> bool(np.allclose(center(x["en"], "auto"), center(x["en"], "en"), atol=1e-5))
      True
    """
    if not as_float(threshold) > 0:
        raise ValueError(f"threshold is {threshold!r:.80}; it must be a number above 0")
    pooled = pool_moments(x, least=2, precise=precise)
    samples = pooled.count - len(pooled)
    level = np.trace(pooled.within) / pooled.dim
    if samples < 1 or not level > 0:
        raise ValueError(f"the embeddings of {', '.join(pooled)} do not vary within a language; give more sentences")
    # The scale does not change which mean is nearest, but squares of small embeddings underflow in float32.
    unit, center, source = np.sqrt(level / samples), pooled.means.mean(axis=0), common_source(pooled, source)
    covariance = pooled.within / (samples * unit**2)
    given = (pooled.means - center) / unit, covariance, oas_shrinkage(covariance, samples)
    singular = "the covariance within the languages is singular; leave out constant dimensions"
    with errors_of(singular, np.linalg.LinAlgError):
        weights, bias = decompose(x, discriminant, *given, precise=precise)
    novel = novelty_of(pooled.means - center, weights / unit, float(unit))
    center, weights, bias = map(to_device, (center, weights / unit, bias))
    return LanguageIdentifier(center, weights, bias, novel, tuple(pooled), source, float(threshold))


@jax.jit
def _detected(
    identifier: LanguageIdentifier, x: Float[Array, "vector dim"]
) -> tuple[Int[Array, " vector"], Float[Array, " vector"]]:
    ids = identifier.ids(x)
    return ids, identifier.novel(x - identifier.center[None], ids)
