"""LSAR's Algorithm 1 as it is printed, and what its pseudo-inverse does in float32.

    python -m eval algorithm1

``lsar_jax`` finds the subspace by one SVD of the centred means; Algorithm 1 of Xie et al. 2022
goes through a pseudo-inverse of M', whose rank is r + 1. In exact arithmetic both span the
same space. With r + 1 < L, though, M' has vanishing singular values; where rounding lifts
them over the pseudo-inverse's cutoff (1e-15 of the largest by default in numpy, in float32
always) they are inverted, mu comes out near zero, and the "subspace" takes in the direction of
the overall mean. That direction is anisotropy, and removing it helps retrieval, but it is
not the method. The table shows both, so that published numbers can be understood.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from eval.tasks.udhr import into_english, pool_precision
from lsar_jax import corpora
from lsar_jax.transforms import fit_lsar
from train.console import print_table
from train.embeddings import encode_all, open_encoder

__all__ = ["Algorithm1", "algorithm1"]


@dataclass(frozen=True)
class Algorithm1:
    """LSAR's subspace by one SVD and by the printed Algorithm 1, on the UDHR task.

    Attributes:
      encoder: bundled, a folder, or a Hub id.
      layers: hidden-state layers.
      ranks: dimensions removed.
      max_length: tokens at most of a paragraph.
    """

    encoder: str = "bundled"
    layers: tuple[int, ...] = (8, 12)
    ranks: tuple[int, ...] = (20, 39)
    max_length: int = 128

    def run(self) -> None:
        """Encodes and prints the table."""
        encoder = open_encoder(self.encoder, self.layers, None, None)
        texts = corpora.udhr()
        embeddings, _ = encode_all(encoder, texts, self.layers, self.max_length, {code: code for code in texts})
        rows: list[list[str | float]] = []
        for index, layer in enumerate(self.layers):
            fit, test = (
                {code: x[index, corpora.UDHR_PARTS[part]] for code, x in embeddings.items()} for part in ("fit", "test")
            )
            means = np.stack([x.mean(axis=0, dtype=np.float64) for x in fit.values()], axis=1)
            for rank in self.ranks:
                ours = fit_lsar(fit, rank, source=replace(encoder.spec, layer=layer))
                bases = {
                    "one SVD (lsar_jax)": np.asarray(ours.steps[0].basis),
                    "Algorithm 1, float64": algorithm1(means, rank),
                    "Algorithm 1, float32": algorithm1(means.astype(np.float32), rank),
                }
                for name, basis in bases.items():
                    moved = {code: x - (x @ basis) @ basis.T for code, x in test.items()}
                    scores = pool_precision(moved).mean, into_english(moved).mean
                    rows.append([f"layer {layer}, rank {rank}: {name}", *scores])
        print_table("LSAR's subspace, in percent", ["", "mAP", "accuracy into en"], rows)


def algorithm1(means: Float[np.ndarray, "dim language"], rank: int) -> Float[np.ndarray, "dim rank"]:
    """Returns M_s by the printed steps, in the dtype of ``means``.

    Step 1 divides by the number of languages; the printed 1/d is a slip.

    Args:
      means: M, a column a language.
      rank: r.
    """
    overall = means.mean(axis=1, keepdims=True)
    left, values, right = np.linalg.svd(means - overall, full_matrices=False)
    approximation = overall + (left[:, :rank] * values[:rank]) @ right[:rank]
    v = np.linalg.pinv(approximation, rcond=1e-15).T @ np.ones(means.shape[1], means.dtype)
    mu = v / (v @ v)
    left, _, _ = np.linalg.svd(approximation - mu[:, None], full_matrices=False)
    return left[:, :rank]
