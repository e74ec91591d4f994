"""LSAR's Algorithm 1 as printed, and the effect of its pseudo-inverse in float32.

    python -m eval algorithm1

``lsar_jax`` computes the subspace with one SVD of the centred means; Algorithm 1 of Xie et al. 2022 uses a
pseudo-inverse of M', whose rank is r + 1. In exact arithmetic, both give the same subspace. If r + 1 < L, however, some
singular values of M' are zero. When rounding lifts them above the pseudo-inverse's cutoff (by default 1e-15 of the
largest one in numpy), as it always does in float32, they are inverted, mu becomes almost zero, and the subspace
includes the direction of the overall mean. That direction makes the embeddings anisotropic: removing it helps
retrieval, but is not part of the method. The table shows both variants, to help interpret published numbers.
"""

from dataclasses import dataclass, replace

import numpy as np

from eval.tasks.udhr import into_english, pool_precision
from lsar_jax import corpora
from lsar_jax.cli.console import print_table
from lsar_jax.cli.embed import encode_all, open_encoder
from lsar_jax.transforms import fit_lsar, published_subspace

__all__ = ["Algorithm1"]


@dataclass(frozen=True)
class Algorithm1:
    """Compares LSAR's subspace from one SVD and from the printed Algorithm 1 on the UDHR task.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      layers: hidden-state layers to test.
      ranks: numbers of dimensions to remove.
      max_length: maximum number of tokens per paragraph.
    """

    encoder: str = "bundled"
    layers: tuple[int, ...] = (8, 12)
    ranks: tuple[int, ...] = (20, 39)
    max_length: int = 128

    def run(self) -> None:
        """Encodes the UDHR and prints the table."""
        encoder = open_encoder(self.encoder, self.layers, None, None)
        texts = corpora.udhr()
        embeddings = encode_all(encoder, texts, self.layers, self.max_length, {code: code for code in texts})
        rows: list[list[str | float]] = []
        for index, layer in enumerate(self.layers):
            fit, test = (
                {code: x[index, corpora.UDHR_PARTS[part]] for code, x in embeddings.items()} for part in ("fit", "test")
            )
            means = np.stack([x.mean(axis=0, dtype=np.float64) for x in fit.values()])
            for rank in self.ranks:
                ours = fit_lsar(fit, rank, source=replace(encoder.spec, layer=layer))
                bases = {
                    "one SVD (lsar_jax)": np.asarray(ours.steps[0].basis),
                    "Algorithm 1, float64": published_subspace(means, rank),
                    "Algorithm 1, float32": published_subspace(means.astype(np.float32), rank),
                }
                for name, basis in bases.items():
                    moved = {code: x - (x @ basis) @ basis.T for code, x in test.items()}
                    scores = pool_precision(moved).mean, into_english(moved).mean
                    rows.append([f"layer {layer}, rank {rank}: {name}", *scores])
        print_table("LSAR's subspace, in percent", ["", "mAP", "accuracy into en"], rows)
