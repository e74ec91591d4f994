"""bfloat16 beside float32: the vectors of every layer, and what retrieval loses.

    python -m eval precision

Cosines are of vectors minus the mean of all vectors of their layer: most of a raw embedding is
what all sentences share, and would hide the error.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from eval.results import Result
from eval.tasks.tatoeba import Tatoeba
from eval.tasks.udhr import Udhr
from lsar_jax import corpora
from train.console import console, print_table
from train.embeddings import encode_all, open_encoder

__all__ = ["Precision", "centred_cosines"]


@dataclass(frozen=True)
class Precision:
    """Encodes in both dtypes and compares vectors, UDHR and Tatoeba.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      pooling: by default the checkpoint's own.
      layers: of the retrieval; the vectors of all layers are compared.
      max_length: tokens at most of a sentence.
      data: the folder of Tatoeba's files; without it only the UDHR is tested.
      out: folder for the JSON lines and figures.
    """

    encoder: str = "bundled"
    pooling: str | None = None
    layers: tuple[int, ...] = (8, 12)
    max_length: int = 128
    data: Path = Path("data/tatoeba")
    out: Path = Path("results/precision")

    def run(self) -> None:
        """Prints a table of the vectors and one of the scores."""
        texts = {code: paragraphs for code, paragraphs in corpora.udhr().items()}
        every = tuple(range(max(self.layers) + 1))
        x = []
        for dtype in ("float32", "bfloat16"):
            encoder = open_encoder(self.encoder, every, None, self.pooling, dtype)
            parts, _ = encode_all(encoder, texts, every, self.max_length, {code: code for code in texts})
            x.append(np.concatenate(list(parts.values()), axis=1))
        rows: list[list[str | float]] = []
        for layer in every:
            cosines = centred_cosines(x[0][layer], x[1][layer])
            rows.append([str(layer), f"{cosines.mean():.6f}", f"{cosines.min():.6f}"])
        print_table("bfloat16 against float32, centred cosine", ["layer", "mean", "least"], rows)

        full, half = self._scores("float32"), self._scores("bfloat16")
        rows = [[key, value, half[key], f"{half[key] - value:+.2f}"] for key, value in full.items()]
        print_table("what retrieval loses, in percent", ["", "float32", "bfloat16", "difference"], rows)

    def _scores(self, dtype: str) -> dict[str, float]:
        options: dict[str, Any] = {"encoder": self.encoder, "pooling": self.pooling, "layers": self.layers}
        options |= {"max_length": self.max_length, "dtype": dtype, "transforms": ("original", "lsar")}
        results = Udhr(**options, ranks=(), out=self.out / dtype / "udhr").run()
        if self.data.is_dir():
            tatoeba = Tatoeba(**options, data=self.data, out=self.out / dtype / "tatoeba").run()
            results += [result for result in tatoeba if " mean " in result.metric]
        else:
            console.print(f"there is no {self.data}: Tatoeba is left out")
        return {_key(result): result.value for result in results}


def centred_cosines(
    x: Float[np.ndarray, "vector dim"], y: Float[np.ndarray, "vector dim"]
) -> Float[np.ndarray, " vector"]:
    """Returns the cosine of each pair of rows, each side minus its own mean, in float64."""
    x, y = (side - side.mean(axis=0) for side in (x.astype(np.float64), y.astype(np.float64)))
    return (x * y).sum(axis=1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))


def _key(result: Result) -> str:
    return f"{result.task} {result.metric}, layer {result.layer}, {result.transform}"
