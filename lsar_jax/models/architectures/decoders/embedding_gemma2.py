"""EmbeddingGemma 2: the blocks of Gemma 3 with an input of their own (transformers, ``embedding_gemma2``).

It differs from Gemma 3 in that norms are relative to 0, values are normalised too, scores are not scaled, and the heads
of full blocks are wider. A third sublayer of each block gates a projection of the word embeddings, as the per-layer
inputs of Gemma 3n do. The final projection of each token, which is linear, is applied to the pooled embedding, so that
all layers have one width.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from lsar_jax.models.architectures import base
from lsar_jax.models.architectures.decoders import gemma3, llama
from lsar_jax.models.attention import AttentionMask
from lsar_jax.models.blocks import PreNormBlock, normed, residual_sum
from lsar_jax.models.dropout import Dropout, independent
from lsar_jax.models.encoder import Encoder, check_heads
from lsar_jax.models.parts import ACTIVATIONS, GatedFeedForward, LayerFactory, RMSNorm, unit_rms
from lsar_jax.models.self_attention import SelfAttention
from lsar_jax.shapes import Hidden

__all__ = ["EMBEDDING_GEMMA2", "EMBEDDING_GEMMA2_TEXT", "EmbeddingGemma2Config"]

_ACTIVATION = "gelu_pytorch_tanh"
_SIZES = llama.SIZES | {"window": "sliding_window", "gate": "hidden_size_per_layer_input"}
# What the config may say of a block alone.
_HEADS = {"groups": "num_key_value_heads", "width": "head_dim"}
_INPUTS, _PROJECTION = "ple.per_layer_model_projection.weight", "embedding_projection.weight"
_BLOCK = gemma3.BLOCK | {
    "gate": "layers.{}.ple_block.per_layer_input_gate",
    "out": "layers.{}.ple_block.per_layer_projection",
    "out_norm": "layers.{}.ple_block.post_per_layer_input_norm",
}


@dataclass(frozen=True)
class EmbeddingGemma2Config(gemma3.Gemma3Config):
    """Sizes of EmbeddingGemma 2, beside Gemma 3's.

    Attributes:
      block_heads: number of key and value heads, and width of a head, of each block.
      gate: width of a block's own input.
    """

    _: KW_ONLY
    block_heads: tuple[tuple[int, int], ...]
    gate: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for groups, width in self.block_heads:
            check_heads(self.heads, groups, width)


class _Attention(SelfAttention):
    """Self-attention whose values are normalised too, without a weight."""

    def __init__(self, config: EmbeddingGemma2Config, factory: LayerFactory, number: int) -> None:
        attention = gemma3.attention(config, config.kinds[number], *config.block_heads[number])
        super().__init__(factory, config.hidden, attention, partial(RMSNorm, epsilon=config.epsilon))
        self.epsilon = config.epsilon

    def _heads(self, x: Hidden) -> tuple[Array, Array, Array]:
        query, key, value = super()._heads(x)
        return query, key, unit_rms(value, self.epsilon).astype(value.dtype)


class _Inputs(nnx.Module):
    """``norm(W_k e / sqrt(hidden))`` of the word embeddings e, for block k."""

    def __init__(self, config: EmbeddingGemma2Config, factory: LayerFactory) -> None:
        self.width = config.gate
        self.factor = config.hidden**-0.5
        # Of all blocks that the checkpoint has, whether they are built or not.
        self.projection = factory.linear(config.hidden, len(config.kinds) * config.gate, bias=False)
        self.norm = RMSNorm(config.gate, config.epsilon)

    def __call__(self, first: Hidden, number: int) -> Float[Array, "batch length gate"]:
        """Returns the input of the block after ``number`` others, given layer 0."""
        # The inputs of all blocks together would be several times the size of a feed-forward layer's.
        kernel = self.projection.kernel[...][:, number * self.width : (number + 1) * self.width]
        product = self.projection.dot_general(first, kernel.astype(first.dtype), (((2,), (0,)), ((), ())))
        return normed(self.norm, product * self.factor)


class _Block(PreNormBlock):
    """A block of Gemma 3, then ``x = scalar * (x + norm(out(activation(gate(x)) * input)))``."""

    def __init__(self, config: EmbeddingGemma2Config, factory: LayerFactory, number: int) -> None:
        norm = partial(RMSNorm, config.hidden, config.epsilon)
        feed = GatedFeedForward(factory, config.hidden, config.intermediate, _ACTIVATION)
        attention = _Attention(config, factory, number)
        super().__init__(norm(), attention, norm(), feed, attended_norm=norm(), fed_norm=norm())
        self.gate = factory.linear(config.hidden, config.gate, bias=False)
        self.out = factory.linear(config.gate, config.hidden, bias=False)
        self.out_norm = norm()
        self.scalar = nnx.Param(jnp.zeros(1, jnp.float32))

    def __call__(self, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None, given: Any = None) -> Hidden:
        """Returns the next hidden states; ``given`` is the block's own input, ``[batch, length, gate]``."""
        within, added = independent(dropout, 2)
        x = super().__call__(x, mask, within)
        change = normed(self.out_norm, self.out(ACTIVATIONS[_ACTIVATION](self.gate(x)) * given))
        return (self.scalar[...][0] * residual_sum(x, change, added)).astype(x.dtype)


def _build(config: EmbeddingGemma2Config, factory: LayerFactory) -> Encoder:
    return Encoder(
        config, gemma3.embeddings(config, factory), [_Block(config, factory, k) for k in range(config.blocks)],
        RMSNorm(config.hidden, config.epsilon), inputs=_Inputs(config, factory),
    )  # fmt: skip


def _read_sizes(config: Mapping[str, Any]) -> EmbeddingGemma2Config:
    base.require(config, hidden_activation=_ACTIVATION, attention_bias=False)
    sizes = base.whole_sizes(config, _SIZES)
    kinds = base.layer_kinds(config, sizes["blocks"], "sliding_window_pattern", 6)
    # The last block is a full one, whatever the config says.
    kinds = (*kinds[:-1], "full_attention")
    return EmbeddingGemma2Config(
        **sizes,
        rotary=base.rotary(config, kind="full_attention"),
        epsilon=base.number(config, "rms_norm_eps", 1e-6),
        causal=False,
        kinds=kinds,
        sliding=base.rotary(config, kind="sliding_attention"),
        scores=1,
        block_heads=_block_heads(config, kinds),
    )


def _block_heads(config: Mapping[str, Any], kinds: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    full = {"head_dim": config.get("global_head_dim", 512)}
    full["num_key_value_heads"] = config.get("num_global_key_value_heads", 1)
    given = config.get("per_layer_config", {k: full for k, kind in enumerate(kinds) if kind == "full_attention"})
    known = set(_HEADS.values())
    if not isinstance(given, Mapping) or not all(
        str(number).isdecimal() and isinstance(sizes, Mapping) and sizes.keys() <= known
        for number, sizes in given.items()
    ):
        raise ValueError(f"per_layer_config is {given!r} in config.json; it must map blocks to {' and '.join(known)}")
    # A number is written with as many digits as the largest.
    own = {int(number): sizes for number, sizes in given.items()}
    each = [base.whole_sizes({**config, **own.get(number, {})}, _HEADS) for number in range(len(kinds))]
    return tuple((sizes["groups"], sizes["width"]) for sizes in each)


def _export_options(sizes: EmbeddingGemma2Config, blocks: int) -> dict[str, Any]:
    if sizes.kinds[:blocks][-1:] != ("full_attention",):
        raise ValueError(
            f"block {blocks} attends to a window, and transformers lets the last block of EmbeddingGemma 2 attend to "
            "the whole sentence; choose another layer"
        )
    return {
        "embedding_dim": sizes.hidden,
        "rms_norm_eps": sizes.epsilon,
        **base.kind_options(sizes, blocks),
        "per_layer_config": {
            str(number): {"head_dim": width, "num_key_value_heads": groups}
            for number, (groups, width) in enumerate(sizes.block_heads[:blocks])
        },
    }


def _export_tensors(tensors: dict[str, np.ndarray], sizes: EmbeddingGemma2Config, blocks: int) -> dict[str, np.ndarray]:
    # The projection of each token leaves it as it is: ours is a layer after the pooling.
    identity = np.eye(sizes.hidden, dtype=np.float32)
    return tensors | {_INPUTS: tensors[_INPUTS][: blocks * sizes.gate], _PROJECTION: identity}


EMBEDDING_GEMMA2_TEXT = base.Architecture(
    "embedding_gemma2_text",
    _read_sizes,
    _build,
    llama.keys(_BLOCK)
    | {"blocks.{}.scalar": "layers.{}.layer_scalar", "inputs.projection.kernel": _INPUTS}
    | base.weight_and_bias("inputs.norm", "ple.per_layer_projection_norm", bias=False),
    # The final projection, and what reads images and sound.
    unused=r"(embedding_projection|vision_tower|audio_tower|embed_vision|embed_audio)\..*",
    prefixes=("model.", "language_model."),
    projection=_PROJECTION,
    sizes=_SIZES,
    exported=("EmbeddingGemma2TextModel", "embedding_gemma2_text"),
    export_options=_export_options,
    export_tensors=_export_tensors,
)
EMBEDDING_GEMMA2 = replace(
    EMBEDDING_GEMMA2_TEXT,
    model_type="embedding_gemma2",
    read_config=lambda config: _read_sizes(gemma3.text_config(config)),
)
