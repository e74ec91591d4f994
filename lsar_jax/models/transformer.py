"""The post-LayerNorm transformer encoder of BERT, XLM-R and XLM, in Flax NNX.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019; Conneau et al., "Unsupervised
Cross-lingual Representation Learning at Scale", ACL 2020 (XLM-R); Conneau and Lample, "Cross-lingual Language Model
Pretraining", NeurIPS 2019 (XLM). All three use the block of Vaswani et al., "Attention Is All You Need", NIPS 2017
(section 3.1: the LayerNorm follows the residual sum) and differ only in the input embeddings: XLM-R counts positions
from its padding id, and XLM adds a language embedding where BERT adds a segment embedding.

Sums, attention weights and LayerNorm are computed in float32 whatever the compute dtype is. The model has no random
state; it is a plain pytree that can be passed through ``jax.jit``. Training passes the ``Dropout`` of each step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from lsar_jax.checks import whole_number
from lsar_jax.models.attention import AttentionMask, PerHead, attend
from lsar_jax.models.product import summed_in_float32
from lsar_jax.models.segments import positions_of
from lsar_jax.shapes import Hidden, Lengths, SegmentLanguages, TokenIds

__all__ = ["ACTIVATIONS", "RNGS", "Dropout", "Transformer", "TransformerConfig", "check_sizes", "sinusoids"]

# BERT uses the exact GELU; the tanh approximation differs from it by up to 5e-4.
ACTIVATIONS = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_pytorch_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "relu": jax.nn.relu,
}


# No random initialisation: every weight comes from a checkpoint. The counter of nnx.Rngs would make tracing 24 blocks
# take a second.
_ZEROS = nnx.initializers.zeros_init()
RNGS: Any = SimpleNamespace(params=partial(jax.random.key, 0))

# The other sizes are those of arrays. A damaged config beyond these limits could run for hours before failing.
_MOST = {"vocabulary": 1 << 24, "blocks": 1 << 8, "positions": 1 << 20}


def check_sizes(config: Any) -> None:
    """Raises ValueError if a size of a config is not one that an encoder may have."""
    for name, size in vars(config).items():
        if isinstance(size, int) and name != "first_position":
            least = 0 if name in ("blocks", "token_types", "languages") else 1
            whole_number(name, size, least, _MOST.get(name, 1 << 18), "the sizes of encoders")


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a transformer encoder.

    Attributes:
      vocabulary: rows of the word embeddings.
      hidden: width of a hidden state.
      blocks: number of blocks to build, which may be fewer than the checkpoint has.
      heads: number of attention heads, each ``hidden // heads`` wide.
      intermediate: width of the feed-forward layer.
      positions: rows of the position embeddings.
      token_types: rows of the segment embeddings.
      languages: rows of the language embeddings, which some of XLM's models have.
      first_position: position row of the first token; in XLM-R, one past its padding id.
      layer_norm_epsilon: constant added to the variance in LayerNorm.
      activation: activation of the feed-forward layer, one of ``ACTIVATIONS``.
    """

    vocabulary: int
    hidden: int
    blocks: int
    heads: int
    intermediate: int
    positions: int
    token_types: int = 0
    languages: int = 0
    first_position: int = 0
    layer_norm_epsilon: float = 1e-12
    activation: str = "gelu"

    def __post_init__(self) -> None:
        check_sizes(self)
        whole_number("first_position", self.first_position, 0, self.positions - 1, "the rows of the positions")
        if self.hidden % self.heads:
            raise ValueError(f"hidden size {self.hidden} is not divisible by {self.heads} heads")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r} is not one of {', '.join(ACTIVATIONS)}")

    @property
    def longest(self) -> int:
        """The maximum number of tokens in a sentence, including special tokens."""
        return self.positions - self.first_position

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of layers 0, 1, ..."""
        return (self.hidden,) * (self.blocks + 1)


@partial(jax.tree_util.register_dataclass, data_fields=["key"], meta_fields=["hidden", "attention"])
@dataclass(frozen=True)
class Dropout:
    """What a training pass zeroes at random, as BERT does (Srivastava et al., JMLR 2014).

    Attributes:
      key: a random key.
      hidden: share of the entries of the embeddings and of what each sublayer adds, before its residual sum.
      attention: share of the attention weights. Any other value than 0 rules out cuDNN's attention.
    """

    key: Any
    hidden: float = 0.1
    attention: float = 0.1


class Transformer(nnx.Module):
    """Maps token ids to the hidden states of every block.

    Args:
      config: sizes of the encoder.
      dtype: compute dtype, float32 or bfloat16.
      param_dtype: dtype of the parameters, except those of LayerNorm, which are float32. They are zero until they are
        filled from a checkpoint.
      attention: its kind, as in ``attend``; with ``cudnn``, the vector of a position is also kept together in memory.
    """

    def __init__(
        self, config: TransformerConfig, *, dtype: jnp.dtype, param_dtype: jnp.dtype, attention: str = "xla"
    ) -> None:
        self.config = config
        self.dtype = dtype
        self.embeddings = TokenEmbeddings(config, dtype=dtype, param_dtype=param_dtype)
        self.blocks = nnx.List(
            [Block(config, dtype=dtype, param_dtype=param_dtype, attention=attention) for _ in range(config.blocks)]
        )

    def hidden_states(
        self,
        ids: TokenIds,
        lengths: Lengths,
        languages: SegmentLanguages | None = None,
        *,
        types: TokenIds | None = None,
        words: Hidden | None = None,
        dropout: Dropout | None = None,
        remat: bool = False,
    ) -> Iterator[Hidden]:
        """Yields layer 0 (the embedding output), then the outputs of blocks 1, 2, ...

        Callers should pool each layer as it is yielded, so that only one ``[batch, length, dim]`` state is alive at a
        time. Padding has states too, which mean nothing.

        Args:
          ids: token ids, ``[batch, length]``; those of padding do not affect others.
          lengths: number of tokens of each sentence in a row, including special tokens, ``[batch, segment]``. They
            follow each other from the first position on, and do not see each other.
          languages: row of each sentence's language in the model's table, ``[batch, segment]``, if the config has
            ``languages``.
          types: BERT's segment of each token, ``[batch, length]``; by default 0 for all. Ignored by models without.
          words: the word embedding of each token, ``[batch, length, dim]``, instead of the table, which then gets no
            gradient.
          dropout: what to zero at random, in training.
          remat: whether to compute the blocks again for the gradient rather than keep what is inside them, which
            takes less memory and runs each block forward twice.
        """
        if words is not None and words.shape != (*ids.shape, self.config.hidden):
            raise ValueError(f"words have shape {words.shape}; it must be {(*ids.shape, self.config.hidden)}")
        first, *others = _independent(dropout, len(self.blocks) + 1)
        mask = AttentionMask.of(lengths, ids.shape[1])
        x = _drop(self.embeddings(ids, mask, languages, types, words), first)
        yield x
        run = jax.checkpoint(_run_block) if remat else _run_block
        for block, zeros in zip(self.blocks, others, strict=True):
            x = run(block, x, mask, zeros)
            yield x


class TokenEmbeddings(nnx.Module):
    """The sum of word, position, segment and language embeddings, normalised."""

    def __init__(self, config: TransformerConfig, *, dtype: jnp.dtype, param_dtype: jnp.dtype) -> None:
        def table(rows: int) -> nnx.Embed:
            return nnx.Embed(rows, config.hidden, param_dtype=param_dtype, embedding_init=_ZEROS, rngs=RNGS)

        self.dtype = dtype
        self.first_position = config.first_position
        self.word = table(config.vocabulary)
        self.position = table(config.positions)
        self.token_type = table(config.token_types) if config.token_types else None
        self.language = table(config.languages) if config.languages else None
        self.norm = _layer_norm(config)

    def __call__(
        self,
        ids: TokenIds,
        mask: AttentionMask,
        languages: SegmentLanguages | None,
        types: TokenIds | None,
        words: Hidden | None,
    ) -> Hidden:
        # Rows are gathered before the cast: nnx.Embed would cast the whole table first.
        x = (self.word.embedding[...][ids] if words is None else words).astype(jnp.float32)
        positions = self.first_position + positions_of(mask.lengths, ids.shape[1])
        x += self.position.embedding[...][positions].astype(jnp.float32)
        if self.token_type is not None:
            # Single sentences have tokens of type 0 only.
            x += self.token_type.embedding[...][0 if types is None else types].astype(jnp.float32)
        if self.language is not None:
            assert languages is not None, "the model needs the language of each sentence"
            # Padding takes the language of the last place for a sentence.
            segments = jnp.minimum(mask.segments, languages.shape[1] - 1)
            x += self.language.embedding[...][jnp.take_along_axis(languages, segments, 1)].astype(jnp.float32)
        return self.norm(x).astype(self.dtype)


class Block(nnx.Module):
    """Self-attention and a feed-forward layer, each followed by a residual sum and LayerNorm."""

    def __init__(
        self, config: TransformerConfig, *, dtype: jnp.dtype, param_dtype: jnp.dtype, attention: str = "xla"
    ) -> None:
        product = summed_in_float32 if dtype == jnp.bfloat16 else jax.lax.dot_general

        def linear(inner: int, outer: int) -> nnx.Linear:
            return nnx.Linear(
                inner, outer, dtype=dtype, param_dtype=param_dtype, kernel_init=_ZEROS, dot_general=product, rngs=RNGS
            )

        hidden = config.hidden
        self.heads = config.heads
        self.activation = config.activation
        self.dtype = dtype
        self.attention = attention
        self.query = linear(hidden, hidden)
        self.key = linear(hidden, hidden)
        self.value = linear(hidden, hidden)
        self.attention_out = linear(hidden, hidden)
        self.attention_norm = _layer_norm(config)
        self.feed_in = linear(hidden, config.intermediate)
        self.feed_out = linear(config.intermediate, hidden)
        self.norm = _layer_norm(config)

    def __call__(self, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None) -> Hidden:
        weights, attended, fed = _independent(dropout, 3)
        x = self._written(_add_and_norm(self.attention_norm, x, _drop(self.attend(x, mask, weights), attended)))
        change = self.feed_out(self._activated(self.feed_in(x)))
        return self._written(_add_and_norm(self.norm, x, _drop(change, fed)))

    def _written(self, x: Hidden) -> Hidden:
        """Returns x; on an NVIDIA GPU, written with each position's vector together, in its dtype."""
        # XLA's GPU compiler would choose [batch, dim, length] because of the mean over the length at the end, which
        # splits each LayerNorm into five kernels, and would keep a float32 copy beside the rounded one. A constraint
        # on the layout would do the same on one GPU, but gathers the whole batch on several.
        if self.attention != "cudnn":
            return x
        return jax.lax.optimization_barrier(x.reshape(-1, x.shape[-1])).reshape(x.shape)

    def _alone(self, x: Hidden, layer: nnx.Linear) -> Hidden:
        """Returns x; on an NVIDIA GPU, for the product of this layer alone."""
        # XLA's GPU compiler would join two products of the same input, and then add the bias of each in a kernel that
        # copies its half of the result. The bias is in the barrier because equal barriers would be joined.
        if self.attention != "cudnn" or layer.bias is None:
            return x
        return jax.lax.optimization_barrier((x, layer.bias[...]))[0]

    def _activated(self, x: Hidden) -> Hidden:
        """Returns the activation of x; on an NVIDIA GPU in bfloat16, of the exact GELU its tanh approximation."""
        # cuBLAS computes it within the product before, so that the layer is written once and not twice. It differs by
        # at most 5e-4; bfloat16 rounds a number of 0.13 as far.
        fast = self.attention == "cudnn" and self.dtype == jnp.bfloat16 and self.activation == "gelu"
        return ACTIVATIONS["gelu_new" if fast else self.activation](x)

    def attend(self, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None) -> Hidden:
        split = (*x.shape[:2], self.heads, -1)
        query, key, value = (f(self._alone(x, f)).reshape(split) for f in (self.query, self.key, self.value))
        if dropout is not None and dropout.attention:
            mixed = _attention(query, key, value, mask, dropout)
        else:
            mixed = attend(self.attention, query, key, value, mask)
        return self.attention_out(mixed.reshape(x.shape))


@jax.jit
def _run_block(block: Block, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None) -> Hidden:
    # Blocks of the same sizes are traced only once. XLA inlines the call, so the compiled program does not change.
    return block(x, mask, dropout)


def _independent(dropout: Dropout | None, count: int) -> list[Dropout | None]:
    """Returns independent dropouts of the same shares."""
    if dropout is None:
        return [None] * count
    return [replace(dropout, key=key) for key in jax.random.split(dropout.key, count)]


def _drop(x: Hidden, dropout: Dropout | None) -> Hidden:
    return x if dropout is None else _zeroed(x, dropout.hidden, dropout.key)


def _zeroed(x: Array, share: float, key: Array) -> Array:
    """Zeroes a random share of the entries, and scales the others so that the mean stays the same."""
    if not share:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - share, x.shape), x / (1 - share), 0).astype(x.dtype)


def _attention(query: PerHead, key: PerHead, value: PerHead, mask: AttentionMask, dropout: Dropout) -> PerHead:
    """Attends with dropout of the weights, which jax's own attention does not offer."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=jnp.float32)
    scores = jnp.where(mask.allowed()[:, None], scores * query.shape[-1] ** -0.5, -jnp.inf)
    weights = _zeroed(jax.nn.softmax(scores), dropout.attention, dropout.key).astype(value.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def sinusoids(positions: int, dim: int) -> np.ndarray:
    """Returns fixed position embeddings, ``[positions, dim]`` float32 (Vaswani et al., section 3.5)."""
    angles = np.arange(positions)[:, None] / 10_000.0 ** (2 * (np.arange(dim) // 2) / dim)[None, :]
    return np.where(np.arange(dim) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)


def _layer_norm(config: TransformerConfig) -> nnx.LayerNorm:
    # The fast variance E[x^2] - E[x]^2 loses precision if the mean is large, as with outlier dimensions.
    return nnx.LayerNorm(config.hidden, epsilon=config.layer_norm_epsilon, use_fast_variance=False, rngs=RNGS)


def _add_and_norm(norm: nnx.LayerNorm, x: Hidden, change: Hidden) -> Hidden:
    return norm(x.astype(jnp.float32) + change.astype(jnp.float32)).astype(x.dtype)
