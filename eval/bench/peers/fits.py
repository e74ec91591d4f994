"""Fits beside numpy and scikit-learn.

The embeddings are random: a decaying spectrum around the means of the languages, which have two outlier dimensions.
Sums and fits are timed, numpy's in float32, the dtype of the embeddings; scikit-learn's PCA is timed for
the whitenings. The answer is the relative difference from ours. The bound is the larger of two times: the
operations at the rate of a large matrix product (2 n d^2 for a second moment, although numpy computes only one half,
because it is symmetric; 9 d^3 for all eigenvectors), and the bytes of the embeddings,
each read once, at the speed of numpy's copy.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.decomposition import PCA

from eval.bench.peers.timing import HERE, Timing, copy_rate, fastest, product_rate
from eval.data.tatoeba import XTREME_36
from lsar_jax import Moments
from lsar_jax.transforms.methods import METHODS

__all__ = ["fits"]

# An answer: one array, or two whose product is compared, as their signs are arbitrary.
Answer = tuple[np.ndarray, ...]
Covariance = Float[np.ndarray, "*language dim dim"]
Sample = Float[np.ndarray, "language sentence dim"]

_EPS = 1e-3  # whitening's eps, as a fraction of the mean eigenvalue


class Statistics(NamedTuple):
    """Means, covariances if needed, and the number of sentences of each language."""

    means: Float[np.ndarray, "language dim"]
    covariances: Any  # [language, dim, dim], or None
    n: int

    @property
    def offsets(self) -> Float[np.ndarray, "language dim"]:
        """The means around their mean."""
        return self.means - self.means.mean(axis=0)

    @property
    def total(self) -> Float[np.ndarray, "dim dim"]:
        """The covariance of all embeddings."""
        scatter = self.covariances.sum(axis=0) * (self.n - 1) + self.n * self.offsets.T @ self.offsets
        return scatter / np.float32(len(self.means) * self.n - 1)

    @property
    def span(self) -> Float[np.ndarray, "dim rank"]:
        """The directions of the means."""
        return np.linalg.svd(self.offsets, full_matrices=False)[2][: len(self.means) - 1].T


def fits(languages: int = 37, rows: int = 10_000, dim: int = 768, repeats: int = 2) -> Iterator[Timing]:
    """Times fits that start from moments of 2 to 37 languages, no more than ``dim``."""
    x = _random_embeddings(languages, rows, dim)
    codes = sorted((*XTREME_36, "en"))[:languages]
    rate, speed = product_rate(), copy_rate()
    sums = {
        second: fastest({HERE: partial(_moments, codes, x, second), "numpy": partial(_statistics, x, second)}, repeats)
        for second in (False, True)
    }
    for method, (numpy_fit, sklearn_fit, operations) in _PEERS.items():
        second = METHODS[method].needs != "means"
        summing, inputs = sums[second]
        fit: Callable[..., Any] = METHODS[method]
        calls = {HERE: partial(fit, inputs[HERE]), "numpy": partial(numpy_fit, inputs["numpy"])}
        fitting, results = fastest(calls, repeats)
        whole = {version: summing[version] + fitting[version] for version in calls}
        if sklearn_fit is not None:
            seconds, answer = fastest({"scikit-learn": partial(sklearn_fit, x)}, repeats)
            whole |= seconds
            results |= answer
        ours = _arrays(results.pop(HERE))
        answers = {version: f"differs by {_difference(ours, theirs):.1e}" for version, theirs in results.items()}
        products = (2 * dim if second else 1) * x.size + operations(languages, dim)
        bound = max(products / rate, x.nbytes / speed)
        work = f"{languages} x {rows} embeddings"
        for version, value in whole.items():
            yield Timing(method, version, value, work, 100 * bound / value, answers.get(version, ""))


def _random_embeddings(languages: int, sentences: int, dim: int) -> Sample:
    rng = np.random.default_rng(0)
    means = (0.1 + rng.standard_normal((languages, dim)) / np.sqrt(dim)).astype(np.float32)
    means[:, -2:] += 3
    x = rng.standard_normal((languages, sentences, dim), np.float32)
    # In place, because the published sizes take a gigabyte.
    x /= np.sqrt(np.arange(1, dim + 1, dtype=np.float32))
    x += means[:, None]
    return x


def _moments(codes: list[str], x: Sample, second: bool) -> dict[str, Moments]:
    return {code: Moments.from_embeddings(rows, second_moment=second) for code, rows in zip(codes, x, strict=True)}


def _statistics(x: Sample, second: bool) -> Statistics:
    means, n = np.stack([rows.mean(axis=0) for rows in x]), x.shape[1]
    centred = (rows - mean for rows, mean in zip(x, means, strict=True))
    return Statistics(means, np.stack([rows.T @ rows / np.float32(n - 1) for rows in centred]) if second else None, n)


def _zca(covariance: Covariance) -> Answer:
    values, vectors = np.linalg.eigh(covariance)
    return (_whitening(values, np.swapaxes(vectors, -1, -2)),)


def _whitening(values: Float[np.ndarray, "*language dim"], rows: Covariance) -> Covariance:
    """The ZCA whitening for the given eigenvalues and for the eigenvectors in ``rows``."""
    values = np.maximum(values, 0) + _EPS * values.mean(axis=-1, keepdims=True)
    return np.swapaxes(rows, -1, -2) @ (rows / np.sqrt(values)[..., None])


def _pca(x: Float[np.ndarray, "sentence dim"]) -> Float[np.ndarray, "dim dim"]:
    fitted = PCA(svd_solver="covariance_eigh").fit(x)
    return _whitening(fitted.explained_variance_, fitted.components_)


def _lir(s: Statistics) -> Answer:
    second = s.covariances * ((s.n - 1) / s.n) + s.means[:, :, None] * s.means[:, None]
    basis = np.linalg.eigh(second)[1][..., -1:]
    return basis, basis


# numpy's fit from its statistics; scikit-learn's from embeddings, if it has the method; and the operations of the fit,
# for n languages of width d.
Peer = tuple[Callable[[Statistics], Answer], Callable[[Sample], Answer] | None, Callable[[int, int], int]]
_PEERS: dict[str, Peer] = {
    "center": (lambda s: (s.means.copy(),), None, lambda n, d: 0),
    "lsar": (lambda s: (s.span,) * 2, None, lambda n, d: 6 * d * n**2),
    "lir": (_lir, None, lambda n, d: 2 * n * d**2),
    "whitening": (
        lambda s: _zca(s.total), lambda x: (_pca(x.reshape(-1, x.shape[2])),), lambda n, d: 11 * d**3
    ),
    "language-whitening": (
        lambda s: _zca(s.covariances), lambda x: (np.stack(list(map(_pca, x))),), lambda n, d: 11 * n * d**3
    ),
}  # fmt: skip


def _arrays(fitted: Any) -> Answer:
    """Our fit in the form of numpy's."""
    step = fitted.steps[0]
    if step.basis is not None:
        return np.asarray(step.basis), np.asarray(step.basis if step.dual is None else step.dual)
    return (np.asarray(step.shift if step.matrix is None else step.matrix),)


def _difference(ours: Answer, theirs: Answer) -> float:
    a, b = (x[0] if len(x) == 1 else x[0] @ np.swapaxes(x[1], -1, -2) for x in (ours, theirs))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))
