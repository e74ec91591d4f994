"""Identifies the language of an embedding, by linear discriminant analysis on the moments.

The detected language has the nearest mean under the covariance that the languages share (Fisher 1936;
Rao 1948). With means mu_l, their pooled within-language covariance S and equal priors, it maximizes::

    score_l(x) = mu_l^T S^-1 x - mu_l^T S^-1 mu_l / 2.

With fewer sentences than dimensions S is singular; it is shrunk towards a multiple of the identity
by the oracle approximating shrinkage estimate (Chen, Wiesel, Eldar and Hero 2010), which needs only
S and the number of sentences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsar_jax.arrays import bucketed, check_floats, check_rows, warn_far_off
from lsar_jax.languages import canonical_keys, own_name
from lsar_jax.moments import Moments, common_source, pool_moments
from lsar_jax.shapes import AnyArray, Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.novelty import Novelty, novelty_of

__all__ = ["NOVEL", "UNKNOWN", "LanguageIdentifier", "discriminant", "fit_identifier", "oas_shrinkage"]

# The default threshold: docs/explanation/transforms.md has the shares of wrong answers.
NOVEL = 4.0
# The code of BCP 47 for a language that is not determined.
UNKNOWN = "und"


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
      languages: codes of the rows, in alphabetical order.
      source: spec of the raw embeddings that it was fitted on, or None for bare arrays.
      novel: tells text in other languages; None if it was read from a file of the first versions.
      threshold: novelty, a ratio, above which the language of a row is unknown.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> rng = np.random.default_rng(0)
      >>> places = 9 * np.eye(4, 64)
      >>> x = {code: rng.normal(size=(200, 64)) + place for code, place in zip(("de", "en", "fr"), places)}
      >>> identifier = lj.transforms.fit_identifier(x)
      >>> identifier(places)  # the last is none of the three
      ['de', 'en', 'fr', 'und']
      >>> identifier.accuracy(x)
      {'de': 100.0, 'en': 100.0, 'fr': 100.0}
      >>> (identifier.novelty(places) > identifier.threshold).tolist()
      [False, False, False, True]
    """

    # Any, because JAX rebuilds the tree with descriptions of arrays too, when it lowers a program.
    center: Any  # Float[AnyArray, " dim"]
    weights: Any  # Float[AnyArray, "language dim"]
    bias: Any  # Float[AnyArray, " language"]
    languages: tuple[str, ...]
    source: EncoderSpec | None = None
    novel: Novelty | None = None
    threshold: float = NOVEL

    @property
    def dim(self) -> int:
        """The width of the embeddings."""
        return self.weights.shape[1]

    def __call__(self, x: Embeddings) -> list[str]:
        """Returns the code of each row's language; ``und``, undetermined, where its novelty is above ``threshold``.

        Raises:
          ValueError: it is not an array of floats, a value is not finite, or the width differs.
        """
        padded = self._padded(x)
        found, unknown = (np.asarray(part)[: len(x)] for part in (_ids(self, padded), _unknown(self, padded)))
        return [UNKNOWN if new else self.languages[row] for row, new in zip(found, unknown, strict=True)]

    def novelty(self, x: Embeddings) -> Float[np.ndarray, " vector"]:
        """Returns the novelty of each row, ``[n]``: about 1 for text like that of the fit, more for other languages.

        Raises:
          ValueError: as for a call; or the identifier was read from a file of the first versions, without ``novel``.
        """
        if self.novel is None:
            raise ValueError("the identifier was saved by a version without novelty; fit it again")
        return np.asarray(_novelty(self, self._padded(x)))[: len(x)]

    def _padded(self, x: Embeddings) -> Float[Array, "padded dim"]:
        check_floats("embeddings", x, least=0)
        if x.shape[1] != self.dim:
            raise ValueError(f"embeddings have shape {x.shape}; the identifier takes [n, {self.dim}]")
        warn_far_off("embeddings", x)
        padded = bucketed(x)
        check_rows("embeddings", x, padded)
        return padded

    def ids(self, x: Float[Array, "vector dim"]) -> Int[Array, " vector"]:
        """Returns the index of each row's language in ``languages``, ``[n]``; pure, for use under ``jit``."""
        product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
        return jnp.argmax(product(x - self.center, jnp.asarray(self.weights).T) + self.bias, axis=1)

    def unknown(self, x: Float[Array, "vector dim"]) -> Bool[Array, " vector"]:
        """Returns whether each row's novelty is above the threshold, ``[n]``; pure, for use under ``jit``."""
        if self.novel is None:
            return jnp.zeros(len(x), bool)
        # Of vectors that are so long that it is NaN, too.
        return ~(_novelty_of(self, x) <= self.threshold)

    def accuracy(self, x: Mapping[str, Embeddings]) -> dict[str, float]:
        """Returns the percentage of each language's rows whose nearest mean is that of their language.

        Raises:
          ValueError: it was not fitted on a language, a language has no rows, or an array is invalid.
        """
        result = {}
        for code, rows in canonical_keys(x).items():
            own_name(code, self.languages, "the identifier")
            if not len(rows):
                raise ValueError(f"{code}: there are no embeddings")
            found = np.asarray(_ids(self, self._padded(rows)))[: len(rows)]
            result[code] = 100 * float(np.mean(found == self.languages.index(code)))
        return result

    def __repr__(self) -> str:
        return f"LanguageIdentifier(dim {self.dim}, {len(self.languages)} languages)"


def oas_shrinkage(covariance: Float[AnyArray, "dim dim"], samples: int | Float[AnyArray, ""]) -> Float[Array, ""]:
    """Returns how far to shrink towards ``trace / dim`` times the identity, from 0 to 1.

    Chen, Wiesel, Eldar and Hero, "Shrinkage Algorithms for MMSE Covariance Estimation", 2010,
    equation 23, without the terms that vanish with the width, as in scikit-learn.

    Args:
      covariance: the sample covariance, ``[dim, dim]``.
      samples: number of vectors that it was computed from.
    """
    dim = covariance.shape[0]
    square = jnp.mean(covariance**2)
    middle = jnp.trace(covariance) / dim
    over = (jnp.asarray(samples, covariance.dtype) + 1) * (square - middle**2 / dim)
    return jnp.where(over > 0, jnp.minimum((square + middle**2) / jnp.where(over > 0, over, 1.0), 1.0), 1.0)


def discriminant(
    means: Float[AnyArray, "language dim"],
    covariance: Float[AnyArray, "dim dim"],
    shrinkage: float | Float[AnyArray, ""],
) -> tuple[Float[Array, "language dim"], Float[Array, " language"]]:
    """Returns the weights and biases of linear discriminant analysis with equal priors.

    Pure: works under ``jit`` and ``vmap``, for example over layers.

    Args:
      means: the means of the languages, ``[language, dim]``.
      covariance: the pooled within-language covariance, ``[dim, dim]``.
      shrinkage: from 0 for none to 1 for a multiple of the identity.
    """
    covariance = jnp.asarray(covariance)
    level = jnp.trace(covariance) / covariance.shape[0]
    shrunk = (1 - shrinkage) * covariance + shrinkage * level * jnp.eye(len(covariance), dtype=covariance.dtype)
    weights = jax.scipy.linalg.solve(shrunk, jnp.asarray(means).T, assume_a="pos").T
    return weights, -0.5 * (weights * means).sum(axis=1)


def fit_identifier(
    x: Mapping[str, Embeddings | Moments],
    *,
    threshold: float = NOVEL,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> LanguageIdentifier:
    """Fits the identifier that ``Transform.with_identifier`` takes to support ``language="auto"``.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]``, to moments with second moments, or
        ``PooledMoments``; at least two languages.
      threshold: novelty above which the language of a row is unknown; ``inf`` for never. See ``novelty.py``.
      source: spec of the encoder that made the embeddings; saved, and checked on use.
      precise: whether to sum embeddings and solve in float64; moments are already summed.

    Returns:
      An identifier of the languages of ``x``.

    Raises:
      ValueError: there are fewer than two languages, an array or code is invalid, widths or encoders differ, moments
        have no second moments, the embeddings do not vary within any language, their covariance is singular in
        float32, or the threshold is not positive.

    Example:
      >>> import numpy as np
      >>> import lsar_jax as lj
      >>> rng = np.random.default_rng(0)
      >>> places = 9 * np.eye(3, 8)
      >>> x = {code: rng.normal(size=(200, 8)) + place for code, place in zip(("de", "en", "fr"), places)}
      >>> center = lj.transforms.fit_center(x).with_identifier(lj.transforms.fit_identifier(x))
      >>> abs(np.round(center(places, "auto"))).max().item()  # each loses the mean of its language
      0.0
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not threshold > 0:
        raise ValueError(f"threshold is {threshold!r}; it must be a number above 0")
    pooled = pool_moments(x, least=2, precise=precise)
    samples = pooled.count - len(pooled)
    level = np.trace(pooled.within) / pooled.dim
    if samples < 1 or not level > 0:
        raise ValueError(f"the embeddings of {', '.join(pooled)} do not vary within a language; give more sentences")
    # The scale does not change which mean is nearest, but squares of small embeddings underflow in float32.
    unit = np.sqrt(level / samples)
    center = pooled.means.mean(axis=0)
    with jax.enable_x64(precise):
        dtype = jnp.float64 if precise else jnp.float32
        means = jnp.asarray((pooled.means - center) / unit, dtype)
        covariance = jnp.asarray(pooled.within / (samples * unit**2), dtype)
        weights, bias = jax.jit(discriminant)(means, covariance, oas_shrinkage(covariance, samples))
        weights, bias = (np.asarray(part, np.float64) for part in (weights, bias))
    if not np.isfinite(weights).all():
        raise ValueError("the covariance within the languages is singular in float32; use precise=True")
    novel = novelty_of(pooled.means - center, weights / unit, float(unit))
    center, weights, bias = (jnp.asarray(part, jnp.float32) for part in (center, weights / unit, bias))
    return LanguageIdentifier(
        center, weights, bias, tuple(pooled), common_source(pooled, source), novel, float(threshold)
    )


def _novelty_of(identifier: LanguageIdentifier, x: Float[Array, "vector dim"]) -> Float[Array, " vector"]:
    assert identifier.novel is not None
    return identifier.novel(x - identifier.center, identifier.ids(x))


_ids = jax.jit(LanguageIdentifier.ids)
_unknown = jax.jit(LanguageIdentifier.unknown)
_novelty = jax.jit(_novelty_of)
