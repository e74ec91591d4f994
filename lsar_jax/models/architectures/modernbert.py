"""ModernBERT: mmBERT, granite-embedding r2 (Warner et al., "Smarter, Better, Faster, Longer", ACL 2025).

LayerNorm without a bias before each sublayer, except before the first, whose input is normalised already; rotary
positions; a gated feed-forward layer. Every third block attends to the whole sentence, the others to a window on each
side, with a base of the rotary positions of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from lsar_jax.models.architectures import base
from lsar_jax.models.blocks import PreNormBlock
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import GatedFeedForward, LayerFactory
from lsar_jax.models.rotary import Rotary
from lsar_jax.models.self_attention import AttentionConfig, SelfAttention

__all__ = ["MODERNBERT", "ModernBertConfig"]

_BLOCK = {
    "attention_norm": "layers.{}.attn_norm",
    **base.layer_names("attention", "layers.{}.attn", inputs="Wqkv", out="Wo"),
    "feed_norm": "layers.{}.mlp_norm",
    **base.layer_names("feed", "layers.{}.mlp", both="Wi", down="Wo"),
}
_BIASES = ("attention_bias", "mlp_bias", "norm_bias")


@dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """Sizes of ModernBERT, whose ``rotary`` is for full blocks.

    Attributes:
      kinds: kind of each block, ``full_attention`` or ``sliding_attention``.
      window: how many positions before it, and after it, a token attends to in a sliding block.
      sliding: rotary positions of the sliding blocks.
      attention_bias: whether the linear layers of attention have a bias.
      mlp_bias: whether those in a feed-forward layer have one.
      norm_bias: whether the norms have one.
    """

    kinds: tuple[str, ...]
    window: int
    sliding: Rotary
    attention_bias: bool
    mlp_bias: bool
    norm_bias: bool


def _build(config: ModernBertConfig, factory: LayerFactory) -> Encoder:
    norm = partial(factory.layer_norm, config.hidden, config.epsilon, bias=config.norm_bias)

    def block(number: int) -> PreNormBlock:
        full = config.kinds[number] == "full_attention"
        attention = AttentionConfig(
            config.heads, bias=config.attention_bias, fused=True, rotary=config.rotary if full else config.sliding,
            window=None if full else config.window,
        )  # fmt: skip
        return PreNormBlock(
            norm() if number else None,
            SelfAttention(factory, config.hidden, attention),
            norm(),
            GatedFeedForward(
                factory, config.hidden, config.intermediate, config.activation, fused="gate_up", bias=config.mlp_bias
            ),
        )

    embeddings = TokenEmbeddings(factory, config, norm=norm())
    return Encoder(config, embeddings, [block(number) for number in range(config.blocks)], norm())


def _read_sizes(config: Mapping[str, Any]) -> ModernBertConfig:
    # The window is of both sides together, without the token itself.
    sizes = base.whole_sizes(config, base.SIZES | {"both_sides": "local_attention"})
    window = sizes.pop("both_sides") // 2
    base.require(config, sliding_window=window)  # transformers would take it
    return ModernBertConfig(
        **sizes,
        kinds=base.layer_kinds(config, sizes["blocks"], "global_attn_every_n_layers", 3, first=True),
        window=window,
        rotary=base.rotary(config, "global_rope_theta", "full_attention"),
        sliding=base.rotary(config, "local_rope_theta", "sliding_attention", alike=True),
        epsilon=base.number(config, "norm_eps", 1e-5),
        activation=base.activation(config, "hidden_activation"),
        **{name: bool(config.get(name)) for name in _BIASES},
    )


def _export_options(sizes: ModernBertConfig, blocks: int) -> dict[str, Any]:
    return {
        **base.kind_options(sizes, blocks),
        "local_attention": 2 * sizes.window,
        "norm_eps": sizes.epsilon,
        "hidden_activation": sizes.activation,
        **{name: getattr(sizes, name) for name in _BIASES},
    }


MODERNBERT = base.Architecture(
    "modernbert",
    _read_sizes,
    _build,
    {"embeddings.word.embedding": "embeddings.tok_embeddings.weight"}
    | base.weight_and_bias("embeddings.norm", "embeddings.norm")
    | base.weight_and_bias("norm", "final_norm")
    | base.block_keys(_BLOCK),
    # The heads of language models and classifiers.
    unused=r"(head|decoder|classifier)\..*",
    prefixes=("model.",),
    sizes=base.SIZES,
    exported=("ModernBertModel", "modernbert"),
    export_options=_export_options,
)
