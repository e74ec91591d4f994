"""Fitting time compared with numpy and scikit-learn, in the same run.

    python -m eval fitbench

The data are 37 languages with 10,000 random embeddings each, of width 768: language means in a subspace, a decaying
spectrum around them, a shared offset, and two outlier dimensions. Fitting from embeddings means computing moments and
then fitting from them; the two steps are timed separately. numpy computes in float32, the dtype of the embeddings, with
``mean``, matrix products, ``eigh``, ``svd`` and ``solve``; its answers are compared with ours. scikit-learn's PCA is
timed for the whitenings.

Two lower bounds on the time are shown too: the number of operations divided by the rate of a large matrix product
(2 n d^2 operations for a second moment, of which numpy computes only half, because it is symmetric; 9 d^3 for all
eigenvectors), and the bytes of the embeddings, each read once, divided by the speed of numpy's copy.
"""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Float
from sklearn.decomposition import PCA

from eval.data.tatoeba import XTREME_36
from eval.speed.encoding import matmul_rate
from eval.speed.timing import times
from lsar_jax import Moments, transforms
from lsar_jax.cli.console import console, print_table
from lsar_jax.transforms.methods import METHODS

__all__ = ["FitBench", "Timing", "random_embeddings"]

T = TypeVar("T")
Answer = tuple[np.ndarray, ...]
Covariance = Float[np.ndarray, "*language dim dim"]

_EPS = 1e-3  # whitening's eps, as a fraction of the mean eigenvalue


class Timing(NamedTuple):
    """Times of a method in seconds, from embeddings and from moments, and how much numpy's answer differs from ours."""

    method: str
    whole: float
    numpy_whole: float
    sklearn_whole: float | None
    operations: float
    bytes: float
    fit: float
    numpy_fit: float
    fit_operations: float
    compiling: float
    difference: float


class Stats(NamedTuple):
    """The statistics that numpy fits from: means, covariances if needed, and the number of sentences per language."""

    means: Float[np.ndarray, "language dim"]
    covariances: Any  # Float[np.ndarray, "language dim dim"], or None
    n: int

    def total(self) -> Float[np.ndarray, "dim dim"]:
        """The covariance of all embeddings."""
        off, rows = self.means - self.means.mean(axis=0), len(self.means) * self.n
        return (self.covariances.sum(axis=0) * (self.n - 1) + self.n * off.T @ off) / np.float32(rows - 1)


@dataclass(frozen=True)
class FitBench:
    """Times the fit of every method that starts from moments.

    Attributes:
      languages: number of languages, 2 to 37.
      sentences: number of sentences per language.
      dim: width of the embeddings, at least the number of languages.
      repeats: number of timed runs; the fastest counts.
      seed: seed of the embeddings.
    """

    languages: int = 37
    sentences: int = 10_000
    dim: int = 768
    repeats: int = 2
    seed: int = 0

    def run(self) -> list[Timing]:
        """Times the fits and prints two tables: from embeddings and from moments."""
        for option, least, most in (
            ("languages", 2, 37), ("sentences", 2, 10**9), ("dim", self.languages, 10**5), ("repeats", 1, 100)
        ):  # fmt: skip
            if not least <= getattr(self, option) <= most:
                raise ValueError(f"--{option} is {getattr(self, option)}; it must be {least} to {most}")
        x = random_embeddings(self.languages, self.sentences, self.dim, self.seed)
        rate, speed = matmul_rate(), _copy_speed()
        console.print(
            f"{x.nbytes / 1e9:.2f} GB of embeddings on {jax.devices()[0].device_kind}; "
            f"matrix products reach {rate / 1e9:.0f} GFLOP/s, a copy {speed / 1e9:.1f} GB/s read and written"
        )
        codes = sorted((*XTREME_36, "en"))[: self.languages]
        moments, stats = {}, {}
        for second in (False, True):
            moments[second] = self._timed(partial(_moments, codes, x, second), compiles=True)
            stats[second] = self._timed(partial(_stats, x, second))
            console.print(
                f"moments{' including the second' * second}: lsar_jax {moments[second][1]:.2f} s "
                f"(plus {moments[second][2]:.1f} s to compile), numpy {stats[second][1]:.2f} s"
            )
        timings: list[Timing] = []
        for name, peer in _PEERS.items():
            fit, second = _ours(name)
            ours, seconds, compiling = self._timed(partial(fit, moments[second][0]), compiles=True)
            theirs, peer_seconds, _ = self._timed(partial(peer.numpy, stats[second][0]))
            sklearn = self._timed(partial(peer.sklearn, x))[1] if peer.sklearn else None
            summing = (2 * self.dim if second else 1) * x.size / rate
            fitting = peer.operations(self.languages, self.dim) / rate
            timings.append(
                Timing(
                    *(name, seconds + moments[second][1], peer_seconds + stats[second][1], sklearn),
                    *(summing + fitting, x.nbytes / speed, seconds, peer_seconds, fitting, compiling),
                    _difference(_answer(ours), theirs),
                )
            )
        self._print(timings)
        return timings

    def _timed(self, call: Callable[[], T], compiles: bool = False) -> tuple[T, float, float]:
        """Returns the answer, the seconds of the fastest run, and the extra seconds of the first run."""
        started = time.perf_counter()
        answer = jax.block_until_ready(call())
        first = time.perf_counter() - started
        fastest = min(
            [first] * (not compiles) + times(lambda: jax.block_until_ready(call()), self.repeats - (not compiles))
        )
        return answer, fastest, max(first - fastest, 0.0)

    def _print(self, timings: list[Timing]) -> None:
        title = f"{self.languages} languages, {self.sentences} sentences each, width {self.dim}: seconds from"
        columns = ["lsar_jax", "numpy", "sklearn", "numpy / lsar_jax", "by operations", "by bytes"]
        rows = [[t.method, *map(_text, (*t[1:4], t.numpy_whole / t.whole, *t[4:6]))] for t in timings]
        print_table(f"{title} embeddings", ["", *columns], rows)
        columns = ["lsar_jax", "numpy", "numpy / lsar_jax", "by operations", "compiling", "answers differ by"]
        rows = [[t.method, *map(_text, (*t[6:8], t.numpy_fit / t.fit, *t[8:]))] for t in timings]
        print_table(f"{title} moments", ["", *columns], rows)
        console.print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB")


def random_embeddings(
    languages: int, sentences: int, dim: int, seed: int
) -> Float[np.ndarray, "language sentence dim"]:
    """Returns random float32 embeddings; only the language means are computed in float64."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    mix = (rotation / np.sqrt(np.arange(1.0, dim + 1))[:, None]).astype(np.float32)
    span = rng.standard_normal((languages - 1, dim)) / np.sqrt(dim * np.arange(1.0, languages)[:, None])
    offset = 0.1 * rng.standard_normal(dim)
    offset[:2] += 3
    x = np.empty((languages, sentences, dim), np.float32)
    for rows in x:
        np.matmul(rng.standard_normal(rows.shape, dtype=np.float32), mix, out=rows)
        rows += (offset + rng.standard_normal(languages - 1) @ span).astype(np.float32)
    return x


def _moments(codes: list[str], x: Float[np.ndarray, "language sentence dim"], second: bool) -> dict[str, Moments]:
    return {code: Moments.from_embeddings(rows, second_moment=second) for code, rows in zip(codes, x, strict=True)}


def _stats(x: Float[np.ndarray, "language sentence dim"], second: bool) -> Stats:
    means, n = np.stack([rows.mean(axis=0) for rows in x]), x.shape[1]
    centred = (rows - mean for rows, mean in zip(x, means, strict=True))
    return Stats(means, np.stack([off.T @ off / np.float32(n - 1) for off in centred]) if second else None, n)


def _copy_speed() -> float:
    """Returns the bytes per second that a large copy reads and writes."""
    x = np.ones(1 << 26, np.float32)
    out = np.ones_like(x)
    return 2 * x.nbytes / min(times(lambda: np.copyto(out, x), 5))


def _zca(covariance: Covariance) -> Covariance:
    values, vectors = np.linalg.eigh(covariance)
    return _zca_of(values, np.swapaxes(vectors, -1, -2))


def _zca_of(values: Float[np.ndarray, "*language dim"], rows: Covariance) -> Covariance:
    """Returns the ZCA whitening for the given eigenvalues and for the eigenvectors in ``rows``."""
    values = np.maximum(values, 0) + _EPS * values.mean(axis=-1, keepdims=True)
    return np.swapaxes(rows, -1, -2) @ (rows / np.sqrt(values)[..., None])


def _pca(x: Float[np.ndarray, "sentence dim"]) -> Float[np.ndarray, "dim dim"]:
    fitted = PCA(svd_solver="covariance_eigh").fit(x)
    return _zca_of(fitted.explained_variance_, fitted.components_)


def _numpy_lir(s: Stats) -> Answer:
    second = s.covariances * ((s.n - 1) / s.n) + s.means[:, :, None] * s.means[:, None]
    basis = np.linalg.eigh(second)[1][..., -1:]
    return basis, basis


def _span(means: Float[np.ndarray, "language dim"]) -> Float[np.ndarray, "dim rank"]:
    return np.linalg.svd(means - means.mean(axis=0), full_matrices=False)[2][: len(means) - 1].T


def _numpy_outliers(s: Stats) -> Answer:
    v = s.means.mean(axis=0)
    return (1.0 - (np.abs(v) > v.mean() + 3 * v.std(ddof=1)),)


def _numpy_leace(s: Stats) -> Answer:
    span = _span(s.means)
    values, vectors = np.linalg.eigh(s.total())
    solved = (vectors / values) @ (vectors.T @ span)
    return np.linalg.solve(span.T @ solved, solved.T).T, span


def _numpy_identifier(s: Stats) -> Answer:
    shared, off = s.covariances.mean(axis=0), s.means - s.means.mean(axis=0)
    dim, samples = len(shared), len(off) * (s.n - 1)
    level, square = np.trace(shared) / dim, (shared**2).mean()
    shrinkage = min((square + level**2) / ((samples + 1) * (square - level**2 / dim)), 1)
    weights = np.linalg.solve((1 - shrinkage) * shared + shrinkage * level * np.eye(dim, dtype=np.float32), off.T).T
    return (np.column_stack([weights, -0.5 * (weights * off).sum(axis=1)]),)


class Peer(NamedTuple):
    """Other implementations of a method.

    Attributes:
      numpy: fit from numpy's statistics.
      sklearn: fit from embeddings; None if scikit-learn lacks the method.
      operations: number of operations of the fit, for n languages of width d.
    """

    numpy: Callable[[Stats], Answer]
    sklearn: Callable[[np.ndarray], Any] | None
    operations: Callable[[int, int], int]


_PEERS = {
    "center": Peer(lambda s: (s.means.copy(),), None, lambda n, d: 0),
    "outliers": Peer(_numpy_outliers, None, lambda n, d: n * d),
    "lsar": Peer(lambda s: (_span(s.means),) * 2, None, lambda n, d: 6 * d * n**2),
    "lir": Peer(_numpy_lir, None, lambda n, d: 9 * n * d**3),
    "whitening": Peer(lambda s: (_zca(s.total()),), lambda x: _pca(x.reshape(-1, x.shape[2])), lambda n, d: 11 * d**3),
    "language-whitening": Peer(
        lambda s: (_zca(s.covariances),), lambda x: [_pca(rows) for rows in x], lambda n, d: 11 * n * d**3
    ),
    "leace": Peer(_numpy_leace, None, lambda n, d: 9 * d**3 + 4 * n * d**2),
    "identifier": Peer(_numpy_identifier, None, lambda n, d: d**3 // 3 + 2 * n * d**2),
}


def _ours(name: str) -> tuple[Callable[..., Any], bool]:
    """Returns our fit, and whether it needs second moments; the identifier is not in ``METHODS``."""
    if name == "identifier":
        return transforms.fit_identifier, True
    return METHODS[name], METHODS[name].needs != "means"


def _answer(fitted: Any) -> Answer:
    """Returns our fit in the form of numpy's: one array, or two of which the product is compared.

    The signs of the two arrays are arbitrary, but those of the product are not.
    """
    if isinstance(fitted, transforms.LanguageIdentifier):
        return (np.column_stack([fitted.weights, fitted.bias]),)
    shift, scale, matrix, basis, dual = (
        None if part is None else np.asarray(part)
        for part in (getattr(fitted.steps[0], name) for name in ("shift", "scale", "matrix", "basis", "dual"))
    )
    if basis is not None:
        return basis, basis if dual is None else dual
    return (next(part for part in (matrix, scale, shift) if part is not None),)


def _difference(ours: Answer, theirs: Answer) -> float:
    a, b = (x[0] if len(x) == 1 else x[0] @ np.swapaxes(x[1], -1, -2) for x in (ours, theirs))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def _text(number: float | None) -> str:
    return "" if number is None else f"{number:.2g}"
