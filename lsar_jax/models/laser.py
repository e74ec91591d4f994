"""LASER's sentence encoder: a stack of bidirectional LSTMs, in Flax NNX.

Artetxe and Schwenk, "Massively Multilingual Sentence Embeddings for Zero-Shot Cross-Lingual Transfer and Beyond", TACL
2019 (section 3: five layers of 512 units per direction over BPE embeddings of width 320; the sentence embedding is the
max over the top layer's states). LASER2 (Heffernan et al., "Bitext Mining Using Distilled Sentence Representations",
Findings of EMNLP 2022) is the same network over SentencePiece.

The LSTM is the same as torch's: gates in the order input, forget, cell, output, and two biases.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Bool, Float

from lsar_jax.models.encoder import check_sizes
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.segments import positions_of, segments_of
from lsar_jax.shapes import Hidden, Lengths, SegmentLanguages, TokenIds

__all__ = ["Laser", "LaserConfig"]


@dataclass(frozen=True)
class LaserConfig:
    """Sizes of a LASER encoder.

    Attributes:
      vocabulary: rows of the token embeddings.
      embedding: width of a token embedding.
      hidden: units per direction; a state has twice as many.
      blocks: number of bidirectional layers.
      longest: maximum number of tokens in a sentence, including ``</s>``; the network itself has no limit.
    """

    vocabulary: int
    embedding: int
    hidden: int
    blocks: int
    longest: int = 2048

    def __post_init__(self) -> None:
        check_sizes(self)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of layers 0, 1, ..."""
        return (self.embedding, *(2 * self.hidden for _ in range(self.blocks)))


class Laser(nnx.Module):
    """A LASER encoder: maps token ids to the states of every bidirectional layer.

    Products are in ``dtype``, the cell is float32; parameters are zero until they are filled from a checkpoint.
    """

    def __init__(self, config: LaserConfig, factory: LayerFactory) -> None:
        self.config = config
        self.dtype = factory.dtype
        self.embeddings = factory.table(config.vocabulary, config.embedding)
        self.blocks = nnx.List([BiLSTM(width, config.hidden, factory) for width in config.widths[:-1]])

    def hidden_states(
        self, ids: TokenIds, lengths: Lengths, languages: SegmentLanguages | None = None
    ) -> Iterator[Hidden]:
        """Yields layer 0 (the embeddings), then the states of layers 1, 2, ...; ``languages`` is not used."""
        x = self.embeddings.embedding[...][ids].astype(self.dtype)
        yield x
        for block in self.blocks:
            x = block(x, lengths)
            yield x


class BiLSTM(nnx.Module):
    """One bidirectional layer: the concatenated states of a forward and a backward LSTM."""

    def __init__(self, inner: int, hidden: int, factory: LayerFactory) -> None:
        self.forward = LSTM(inner, hidden, factory)
        self.backward = LSTM(inner, hidden, factory)

    def __call__(self, x: Hidden, lengths: Lengths) -> Float[jax.Array, "batch length state"]:
        # The backward direction starts with the padding, from where nothing is carried into a sentence.
        segments = segments_of(lengths, x.shape[1])
        first = positions_of(lengths, x.shape[1]) == 0
        last = jnp.pad(segments[:, :-1] != segments[:, 1:], ((0, 0), (0, 1)), constant_values=True)
        # One scan for both directions takes half the steps, with products of twice the rows.
        inputs = jnp.stack([self.forward.inputs(x), self.backward.inputs(x)[:, ::-1]])
        kernels = jnp.stack([self.forward.recurrent[...], self.backward.recurrent[...]]).astype(x.dtype)
        left, right = _scan(inputs, jnp.stack([first, last[:, ::-1]]), kernels)
        return jnp.concatenate([left, right[:, ::-1]], axis=-1)


class LSTM(nnx.Module):
    """The parameters of one direction, and the part of its computation that is not recurrent."""

    def __init__(self, inner: int, hidden: int, factory: LayerFactory) -> None:
        self.dtype = factory.dtype
        self.kernel = nnx.Param(jnp.zeros((inner, 4 * hidden), factory.param_dtype))
        self.recurrent = nnx.Param(jnp.zeros((hidden, 4 * hidden), factory.param_dtype))
        self.bias = nnx.Param(jnp.zeros(4 * hidden, factory.param_dtype))
        self.recurrent_bias = nnx.Param(jnp.zeros(4 * hidden, factory.param_dtype))

    def inputs(self, x: Hidden) -> Float[jax.Array, "batch length gates"]:
        """Computes what the input adds to the gates, in float32, with one product for all steps."""
        product = jnp.matmul(x, self.kernel[...].astype(self.dtype), preferred_element_type=jnp.float32)
        return product + sum(bias[...].astype(jnp.float32)[None, None] for bias in (self.bias, self.recurrent_bias))


def _scan(
    inputs: Float[jax.Array, "2 batch length gates"],
    fresh: Bool[jax.Array, "2 batch length"],
    kernels: Float[jax.Array, "2 hidden gates"],
) -> Float[jax.Array, "2 batch length hidden"]:
    """Returns the states of both directions; where ``fresh``, a sentence begins, and nothing is carried on."""
    directions, rows, _, gates = inputs.shape
    start = jnp.zeros((directions, rows, gates // 4), jnp.float32)

    def step(carry: tuple[jax.Array, jax.Array], given: Any) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        inputs, fresh = given
        cell, state = (jnp.where(fresh[..., None], 0, part) for part in carry)
        share = jnp.matmul(state.astype(kernels.dtype), kernels, preferred_element_type=jnp.float32)
        enter, forget, new, leave = jnp.split(inputs + share, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        state = jax.nn.sigmoid(leave) * jnp.tanh(cell)
        return (cell, state), state.astype(kernels.dtype)

    _, states = jax.lax.scan(step, (start, start), (inputs.transpose(2, 0, 1, 3), fresh.transpose(2, 0, 1)))
    return states.transpose(1, 2, 0, 3)
