"""Encoding speed compared with sentence-transformers, in the same run and with the same weights.

    pip install torch sentence-transformers
    python -m eval bench

The bundled encoder is exported to a sentence-transformers folder, so that both libraries compute the same embeddings
of the same paragraphs; the largest difference between the two is printed. The rate of this machine's matrix products
and the number of operations that the model needs are printed too; together they give a lower bound on the time that any
library would take.
"""

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from eval.speed.timing import times
from lsar_jax import SentenceEncoder, corpora, load_encoder
from train.console import console, print_table

__all__ = ["Bench"]


@dataclass(frozen=True)
class Bench:
    """Encodes the UDHR with this library and with sentence-transformers.

    Attributes:
      max_length: maximum number of tokens per paragraph.
      repeats: number of timed runs of each library; the fastest counts.
      batch_size: batch size of sentence-transformers.
      dtype: dtype in which both libraries compute, float32 or bfloat16.
    """

    max_length: int = 128
    repeats: int = 3
    batch_size: int = 32
    dtype: Literal["float32", "bfloat16"] = "float32"

    def run(self) -> None:
        """Times both libraries and prints the table."""
        sentences = [text for texts in corpora.udhr().values() for text in texts]
        encoder = load_encoder("bundled", dtype=self.dtype)
        encoder.warm_up(max_length=self.max_length)
        ours, report = encoder.encode_with_report(sentences, max_length=self.max_length)
        our_seconds = min(
            times(lambda: encoder.encode_with_report(sentences, max_length=self.max_length), self.repeats)
        )
        our_latency = np.median(times(lambda: encoder.encode(sentences[2], max_length=self.max_length), 20))
        with tempfile.TemporaryDirectory() as folder:
            encoder.to_sentence_transformers(f"{folder}/bundled")
            peer = _sentence_transformer(f"{folder}/bundled", self.max_length, self.dtype)
            theirs = peer.encode(sentences, batch_size=self.batch_size)
            their_seconds = min(times(lambda: peer.encode(sentences, batch_size=self.batch_size), self.repeats))
            their_latency = np.median(times(lambda: peer.encode(sentences[2]), 20))
        difference = np.linalg.norm(np.asarray(ours) - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
        console.print(f"largest relative difference of an embedding: {difference.max():.1e}")

        rate, needed = matmul_rate(self.dtype), flops(encoder, report.tokens)
        console.print(f"matrix products reach {rate / 1e9:.0f} GFLOP/s; the tokens need {needed / 1e9:.0f} GFLOP")
        rows: list[list[str | float]] = [
            [name, len(sentences) / seconds, report.tokens / seconds, 100 * needed / rate / seconds, 1000 * latency]
            for name, seconds, latency in (
                ("lsar_jax", our_seconds, our_latency),
                ("sentence-transformers", their_seconds, their_latency),
            )
        ]
        columns = ["", "sentences/s", "tokens/s", "% of measured peak rate", "ms for one paragraph"]
        print_table(f"{len(sentences)} UDHR paragraphs, all blocks, {self.dtype}, warm", columns, rows)


def flops(encoder: SentenceEncoder, tokens: int) -> float:
    """Returns the number of floating-point operations that the kernels of the blocks need for ``tokens`` tokens.

    A multiplication and its addition count as two operations; attention scores are not counted.
    """
    kernels = [leaf.size for path, leaf in jax.tree.leaves_with_path(encoder.model) if "kernel" in str(path)]
    return 2.0 * sum(kernels) * tokens


def matmul_rate(dtype: str = "float32") -> float:
    """Returns the FLOP/s of a large matrix product on the default device, summed in float32."""
    size = 2048
    highest = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32)
    product = jax.jit(lambda x: highest(x, x))
    x = jnp.ones((size, size), dtype)
    product(x).block_until_ready()
    return 2 * size**3 / min(times(lambda: product(x).block_until_ready(), 10))


def _sentence_transformer(folder: str, max_length: int, dtype: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError("sentence-transformers is not installed: pip install torch sentence-transformers") from error
    peer = SentenceTransformer(folder, model_kwargs={"dtype": dtype})
    console.print(f"sentence-transformers runs on {peer.device}, lsar_jax on {jax.devices()}")
    peer.max_seq_length = max_length
    return peer
