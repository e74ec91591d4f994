"""An encoder without a model, for tests of what uses one: a text's vector is the sum of its words', drawn by a hash."""

import zlib
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np

from lsar_jax import EncoderSpec, SentenceEncoder
from lsar_jax.mesh import data_mesh

__all__ = ["FakeEncoder"]

BLOCKS = 3


class FakeEncoder(SentenceEncoder):
    """What evaluations use of an encoder; ``load`` stands for ``load_encoder``."""

    dim = 32
    projection = tokenizer = None
    uses_language = False
    applied = frozenset()

    def __init__(self, layer=BLOCKS):
        self.spec = EncoderSpec("fake", "sha256:0", layer, "mean", "float32")
        self.mesh = data_mesh(jax.devices()[:1])
        self.model = SimpleNamespace(config=SimpleNamespace(widths=(self.dim,) * (BLOCKS + 1), blocks=BLOCKS))

    @classmethod
    def load(cls, name, *, layer=None, **options):
        """Returns the encoder up to a layer; of the options, the pooling and the dtype change only its spec."""
        if layer is not None and layer > BLOCKS:
            raise ValueError(f"layer is {layer}; it must be a whole number from 0 to {BLOCKS}")
        made = cls(BLOCKS if layer is None else layer)
        made.spec = replace(made.spec, **{key: options[key] for key in ("pooling", "dtype") if options.get(key)})
        return made

    def dim_of(self, layer):
        """Returns the width of all layers."""
        return self.dim

    def encode(self, sentences, *, layers=None, **_):
        """Returns ``[sentence, dim]``, or ``[layer, sentence, dim]`` of several layers."""
        x = np.stack([[self._vector(text, layer) for text in sentences] for layer in layers or (self.spec.layer,)])
        return x.reshape(len(x), len(sentences), self.dim) if layers else x[0]

    def encode_with_report(self, sentences, *, layers, **_):
        """Returns the embeddings, and a report without any work."""
        words = sum(len(text.split()) for text in sentences)
        report = SimpleNamespace(sentences=len(sentences), tokens=words, seconds=1.0, truncated=0, decomposed=0)
        return self.encode(list(sentences), layers=tuple(layers)), report

    def _vector(self, text, layer):
        # All texts share an offset; the order of the words matters a little.
        words = [(2.0, ""), *((1.0, word) for word in text.split())]
        words += [(0.3, f"{place} {word}") for place, word in enumerate(text.split())]
        seeds = [(weight, zlib.crc32(f"{layer} {word}".encode())) for weight, word in words]
        drawn = [weight * np.random.default_rng(seed).normal(size=self.dim) for weight, seed in seeds]
        return np.sum(drawn, axis=0).astype(np.float32)
