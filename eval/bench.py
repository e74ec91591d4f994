"""Encoding speed beside sentence-transformers, in one run, with the same weights.

    pip install torch sentence-transformers
    python -m eval bench

The bundled encoder is written as a sentence-transformers folder, so that both engines compute
the same embeddings of the same paragraphs; their largest difference is printed. Two numbers
come first: what this machine's matrix products reach, and what the model needs, which
together give the least time that any engine would take.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eval.encode import times
from eval.results import console, print_table
from lsar_jax import SentenceEncoder, corpora, load_encoder
from lsar_jax.encoders.bundled import open_bundled
from lsar_jax.encoders.checkpoint import BERT_KEYS, Checkpoint

__all__ = ["Bench", "write_sentence_transformers"]


@dataclass(frozen=True)
class Bench:
    """Encodes the UDHR with this library and with sentence-transformers.

    Attributes:
      max_length: tokens at most of a paragraph.
      repeats: timed runs of each; the fastest counts.
      batch_size: of sentence-transformers.
    """

    max_length: int = 128
    repeats: int = 3
    batch_size: int = 32

    def run(self) -> None:
        """Prints the table."""
        sentences = [text for texts in corpora.udhr().values() for text in texts]
        encoder = load_encoder("bundled")
        encoder.warm_up(max_length=self.max_length)
        ours, report = encoder.encode_with_report(sentences, max_length=self.max_length)
        our_seconds = min(
            times(lambda: encoder.encode_with_report(sentences, max_length=self.max_length), self.repeats)
        )
        our_latency = np.median(times(lambda: encoder.encode(sentences[2], max_length=self.max_length), 20))
        with tempfile.TemporaryDirectory() as folder:
            write_sentence_transformers(open_bundled(), Path(folder), self.max_length)
            peer = _sentence_transformer(folder)
            theirs = peer.encode(sentences, batch_size=self.batch_size)
            their_seconds = min(times(lambda: peer.encode(sentences, batch_size=self.batch_size), self.repeats))
            their_latency = np.median(times(lambda: peer.encode(sentences[2]), 20))
        difference = np.linalg.norm(np.asarray(ours) - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
        console.print(f"largest relative difference of an embedding: {difference.max():.1e}")

        rate, needed = matmul_rate(), flops(encoder, report.tokens)
        console.print(f"matrix products reach {rate / 1e9:.0f} GFLOP/s, the tokens need {needed / 1e9:.0f} GFLOP")
        rows: list[list[str | float]] = [
            [name, len(sentences) / seconds, report.tokens / seconds, 100 * needed / rate / seconds, 1000 * latency]
            for name, seconds, latency in (
                ("lsar_jax", our_seconds, our_latency),
                ("sentence-transformers", their_seconds, their_latency),
            )
        ]
        columns = ["", "sentences/s", "tokens/s", "% of the products' rate", "ms for one paragraph"]
        print_table(f"{len(sentences)} UDHR paragraphs, all blocks, float32, warm", columns, rows)


def flops(encoder: SentenceEncoder, tokens: int) -> float:
    """Returns what ``tokens`` cost in the kernels of the blocks, attention scores left out (2 a product)."""
    kernels = [leaf.size for path, leaf in jax.tree.leaves_with_path(encoder.model) if "kernel" in str(path)]
    return 2.0 * sum(kernels) * tokens


def matmul_rate() -> float:
    """Returns FLOP/s of a large float32 product on the default device."""
    size = 2048
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    x = jnp.ones((size, size))
    product(x).block_until_ready()
    return 2 * size**3 / min(times(lambda: product(x).block_until_ready(), 10))


def write_sentence_transformers(checkpoint: Checkpoint, folder: Path, max_length: int) -> None:
    """Writes a BERT checkpoint and a mean pooling as a folder that sentence-transformers loads."""
    from safetensors.numpy import save_file

    sizes = checkpoint.config
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": sizes.vocabulary,
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.blocks,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.intermediate,
        "max_position_embeddings": sizes.positions,
        "type_vocab_size": sizes.token_types,
        "layer_norm_eps": sizes.layer_norm_epsilon,
        "hidden_act": sizes.activation,
    }
    tensors = {
        BERT_KEYS[leaf].format(block): np.ascontiguousarray(checkpoint.tensors[name.format(block)].read())
        for leaf, name in checkpoint.keys.items()
        for block in (range(sizes.blocks) if "{}" in name else (0,))
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    checkpoint.tokenizer.backend.save(str(folder / "tokenizer.json"))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "1_Pooling").mkdir()
    pad = checkpoint.tokenizer.backend.id_to_token(checkpoint.tokenizer.pad_id)
    for name, value in {
        "config.json": config,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad},
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": max_length},
        "1_Pooling/config.json": {"word_embedding_dimension": sizes.hidden, "pooling_mode_mean_tokens": True},
    }.items():
        (folder / name).write_text(json.dumps(value))


def _sentence_transformer(folder: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError("the peer is not installed: pip install torch sentence-transformers") from error
    return SentenceTransformer(folder)
