"""The post-LayerNorm transformer encoder of BERT, in Flax NNX.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019, on the
block of Vaswani et al., "Attention Is All You Need", NIPS 2017 (section 3.1: the LayerNorm
follows the residual sum). The module covers every checkpoint of that architecture: mBERT,
LaBSE's backbone, multilingual-e5-small.

Attention weights and LayerNorm are computed in float32 whatever the compute dtype is.
The model holds no random state: it is a plain pytree that goes through ``jax.jit``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from lsar_jax.shapes import Hidden, Lengths, TokenIds

__all__ = ["ACTIVATIONS", "Transformer", "TransformerConfig"]

# The exact GELU is BERT's; the tanh form differs from it by up to 5e-4 and is another function.
ACTIVATIONS = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_pytorch_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "relu": jax.nn.relu,
}


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of one encoder.

    ``blocks`` is how many are built, which may be fewer than the checkpoint has;
    ``positions`` is the longest sequence, special tokens included.
    """

    vocabulary: int
    hidden: int
    blocks: int
    heads: int
    intermediate: int
    positions: int
    token_types: int
    layer_norm_epsilon: float = 1e-12
    activation: str = "gelu"

    def __post_init__(self) -> None:
        for name in ("vocabulary", "hidden", "heads", "intermediate", "positions", "token_types"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.blocks < 0:
            raise ValueError(f"blocks is {self.blocks}; it must be at least 0")
        if self.hidden % self.heads:
            raise ValueError(f"hidden size {self.hidden} is not divisible by {self.heads} heads")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r} is not one of {sorted(ACTIVATIONS)}")


class Transformer(nnx.Module):
    """Token ids in, the hidden states of every block out."""

    def __init__(self, config: TransformerConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        self.config = config
        self.dim = config.hidden
        self.dtype = dtype
        self.embeddings = TokenEmbeddings(config, dtype=dtype, rngs=rngs)
        self.blocks = nnx.List([Block(config, dtype=dtype, rngs=rngs) for _ in range(config.blocks)])

    def hidden_states(self, ids: TokenIds, lengths: Lengths) -> Iterator[Hidden]:
        """Yields layer 0 (the embedding output), then the output of block 1, 2, ...

        Args:
          ids: token ids, ``[batch, length]``; what stands past a row's length is not read.
          lengths: tokens in each row, special tokens counted, ``[batch]``.

        A caller pools each layer as it comes, so that no more than one ``[batch, length,
        dim]`` state is alive. Rows past ``lengths`` hold numbers without meaning.
        """
        x = self.embeddings(ids)
        yield x
        for block in self.blocks:
            x = block(x, lengths)
            yield x


class TokenEmbeddings(nnx.Module):
    """Word + position + token-type embeddings, normalised."""

    def __init__(self, config: TransformerConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        self.dtype = dtype
        self.word = nnx.Embed(config.vocabulary, config.hidden, rngs=rngs)
        self.position = nnx.Embed(config.positions, config.hidden, rngs=rngs)
        self.token_type = nnx.Embed(config.token_types, config.hidden, rngs=rngs)
        self.norm = _layer_norm(config, rngs)

    def __call__(self, ids: TokenIds) -> Hidden:
        # Rows are gathered before the cast: nnx.Embed would cast the whole table first.
        word = self.word.embedding[...][ids].astype(self.dtype)
        position = self.position.embedding[...][: ids.shape[1]].astype(self.dtype)
        # Single sentences only: every token is of type 0.
        token_type = self.token_type.embedding[...][0].astype(self.dtype)
        return _normalise(self.norm, word + position[None, :, :] + token_type[None, None, :])


class Block(nnx.Module):
    """Self-attention and a feed-forward layer, each followed by residual sum and LayerNorm."""

    def __init__(self, config: TransformerConfig, *, dtype: jnp.dtype, rngs: nnx.Rngs) -> None:
        hidden = config.hidden
        self.heads = config.heads
        self.activation = config.activation
        self.query = nnx.Linear(hidden, hidden, dtype=dtype, rngs=rngs)
        self.key = nnx.Linear(hidden, hidden, dtype=dtype, rngs=rngs)
        self.value = nnx.Linear(hidden, hidden, dtype=dtype, rngs=rngs)
        self.attention_out = nnx.Linear(hidden, hidden, dtype=dtype, rngs=rngs)
        self.attention_norm = _layer_norm(config, rngs)
        self.feed_in = nnx.Linear(hidden, config.intermediate, dtype=dtype, rngs=rngs)
        self.feed_out = nnx.Linear(config.intermediate, hidden, dtype=dtype, rngs=rngs)
        self.norm = _layer_norm(config, rngs)

    def __call__(self, x: Hidden, lengths: Lengths) -> Hidden:
        x = _normalise(self.attention_norm, x + self.attend(x, lengths))
        return _normalise(self.norm, x + self.feed_out(ACTIVATIONS[self.activation](self.feed_in(x))))

    def attend(self, x: Hidden, lengths: Lengths) -> Hidden:
        split = (*x.shape[:2], self.heads, -1)
        query, key, value = (f(x).reshape(split) for f in (self.query, self.key, self.value))
        # In bfloat16 jax's own attention mixes dtypes, which strict promotion refuses.
        with jax.numpy_dtype_promotion("standard"):
            mixed = jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)
        return self.attention_out(mixed.reshape(x.shape))


def _layer_norm(config: TransformerConfig, rngs: nnx.Rngs) -> nnx.LayerNorm:
    # The fast variance E[x^2] - E[x]^2 loses digits where a mean is large, as outlier
    # dimensions make it.
    return nnx.LayerNorm(config.hidden, epsilon=config.layer_norm_epsilon, use_fast_variance=False, rngs=rngs)


def _normalise(norm: nnx.LayerNorm, x: Hidden) -> Hidden:
    return norm(x.astype(jnp.float32)).astype(x.dtype)
