"""bfloat16 compared with float32: the vectors at every layer, and the loss in retrieval.

    python -m eval precision

Vectors are centred by the mean of their layer before taking cosines: most of a raw embedding is shared by all
sentences, which would hide the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from eval.metrics import paired_cosine
from eval.results import Result
from eval.run_record import check_record
from eval.tasks.tatoeba import Tatoeba
from eval.tasks.udhr import Udhr
from lsar_jax import corpora
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import encode_all, open_encoder

__all__ = ["Precision", "centred_cosines"]


@dataclass(frozen=True)
class Precision:
    """Encodes in both dtypes, and compares the vectors and the scores on the UDHR and Tatoeba.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      pooling: mean, mean_no_special, cls, max or pooler; by default, the checkpoint's own.
      layers: layers to test retrieval on; vectors are compared at every layer up to the highest of them.
      max_length: maximum number of tokens per sentence.
      data: folder of Tatoeba's files; if it does not exist, only the UDHR is tested.
      out: folder for the JSON lines and figures.
      overwrite: replace results in the folder that are from other options.
    """

    encoder: str = "bundled"
    pooling: str | None = None
    layers: tuple[int, ...] = (8, 12)
    max_length: int = 128
    data: Path = Path("data/tatoeba")
    out: Path = Path("results/precision")
    overwrite: bool = False

    def run(self) -> None:
        """Prints a table for the vectors and one for the scores."""
        tasks = {dtype: self._tasks(dtype) for dtype in ("float32", "bfloat16")}
        for task in (task for several in tasks.values() for task in several):
            check_record(task)
        if not self.data.is_dir():
            console.print(f"skipping Tatoeba: {self.data} does not exist")
        texts = {code: paragraphs for code, paragraphs in corpora.udhr().items()}
        every = tuple(range(max(self.layers) + 1))
        x = []
        for dtype in ("float32", "bfloat16"):
            encoder = open_encoder(self.encoder, every, None, self.pooling, dtype)
            parts = encode_all(encoder, texts, every, self.max_length, {code: code for code in texts})
            x.append(np.concatenate(list(parts.values()), axis=1))
        rows: list[list[str | float]] = []
        for layer in every:
            cosines = centred_cosines(x[0][layer], x[1][layer])
            rows.append([str(layer), f"{cosines.mean():.6f}", f"{cosines.min():.6f}"])
        print_table("Centred cosine of bfloat16 and float32", ["layer", "mean", "minimum"], rows)

        full, half = (self._scores(several) for several in tasks.values())
        rows = [[key, value, half[key], f"{half[key] - value:+.2f}"] for key, value in full.items()]
        print_table("Retrieval, in percent", ["", "float32", "bfloat16", "difference"], rows)

    def _tasks(self, dtype: str) -> list[Udhr | Tatoeba]:
        options: dict[str, Any] = {"encoder": self.encoder, "pooling": self.pooling, "layers": self.layers}
        options |= {
            "max_length": self.max_length,
            "dtype": dtype,
            "transforms": ("original", "lsar"),
            "overwrite": self.overwrite,
        }
        tasks: list[Udhr | Tatoeba] = [Udhr(**options, ranks=(), out=self.out / dtype / "udhr")]
        if self.data.is_dir():
            tasks.append(Tatoeba(**options, data=self.data, out=self.out / dtype / "tatoeba"))
        return tasks

    def _scores(self, tasks: Sequence[Udhr | Tatoeba]) -> dict[str, float]:
        results = [(task, result) for task in tasks for result in task.run()]
        # Of Tatoeba, the means over its languages.
        return {_key(r): r.value for task, r in results if isinstance(task, Udhr) or " mean " in r.metric}


def centred_cosines(
    x: Float[np.ndarray, "vector dim"], y: Float[np.ndarray, "vector dim"]
) -> Float[np.ndarray, " vector"]:
    """Returns the cosine of each pair of rows in float64, after centring each side by its own mean."""
    x, y = (side - side.mean(axis=0) for side in (x.astype(np.float64), y.astype(np.float64)))
    return paired_cosine(x, y)


def _key(result: Result) -> str:
    return f"{result.task} {result.metric}, layer {result.layer}, {result.transform}"
