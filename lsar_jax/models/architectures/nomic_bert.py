"""NomicBERT: nomic-embed-text v1, v1.5 and v2-moe (Nussbaum et al., 2024; Nussbaum and Duderstadt, 2025).

BERT's order of layers with rotary positions. Version 1 has gated feed-forward layers and no biases but in
LayerNorm. Version 2 has plain ones with biases, and in every second block a mixture of experts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from lsar_jax.checks import whole_number
from lsar_jax.models.architectures import base, bert, gte
from lsar_jax.models.encoder import Encoder, EncoderConfig
from lsar_jax.models.parts import ACTIVATIONS, FeedForward, GatedFeedForward, LayerFactory
from lsar_jax.models.product import summed_in_float32
from lsar_jax.models.self_attention import AttentionConfig
from lsar_jax.shapes import Hidden

__all__ = ["NOMIC_BERT", "TABLES", "ExpertFeedForward", "Experts", "NomicBertConfig"]

# Names in configs that transformers wrote, by those in configs that nomic's own code wrote.
_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "rotary_emb_base": "rope_theta",
}
TABLES = gte.TABLES | base.weight_and_bias("embeddings.norm", "emb_ln")
_BLOCK = {
    **base.layer_names("attention", "encoder.layers.{}.attn", inputs="Wqkv", out="out_proj"),
    "attention_norm": "encoder.layers.{}.norm1",
    **base.layer_names("feed", "encoder.layers.{}.mlp", gate="gate_proj", up="up_proj", down="down_proj"),
    "feed_norm": "encoder.layers.{}.norm2",
}
_EXPERTS = {
    "blocks.{}.feed.router.kernel": "encoder.layers.{}.mlp.router.layer.weight",
    "blocks.{}.feed.first.kernel": "encoder.layers.{}.mlp.experts.mlp.w1",
    "blocks.{}.feed.second": "encoder.layers.{}.mlp.experts.mlp.w2",
    "blocks.{}.feed.bias": "encoder.layers.{}.mlp.experts.bias",
}
# The names of feed-forward layers on disk, of which the gated ones and the plain ones differ, and ours of both.
_ON_DISK = re.compile(r"\.mlp\.(fc11|fc12|fc1|fc2)\.")
_LAYERS = {"fc11": "up_proj", "fc12": "gate_proj", "fc1": "up_proj", "fc2": "down_proj"}


@dataclass(frozen=True)
class Experts:
    """The mixture of experts of a model.

    Attributes:
      count: number of experts in a block.
      chosen: number of experts that a token takes.
      every: blocks 1, 1 + every, ..., counted from 0, have experts.
    """

    count: int
    chosen: int
    every: int

    def __post_init__(self) -> None:
        whole_number("num_experts", self.count, 1, 256, "the sizes of encoders")
        whole_number("moe_top_k", self.chosen, 1, self.count, "the number of experts")
        whole_number("moe_every_n_layers", self.every, 2, 256, "blocks without experts come first")


@dataclass(frozen=True)
class NomicBertConfig(EncoderConfig):
    """Sizes of NomicBERT.

    Attributes:
      gated: whether feed-forward layers are gated, and layers have no biases.
      experts: the mixture of experts, if any.
    """

    gated: bool = True
    experts: Experts | None = None


class ExpertFeedForward(nnx.Module):
    """``bias + sum_e p_e activation(x first_e) second_e`` over the likeliest experts e, ``p = softmax(router(x))``.

    The probabilities of the experts that are chosen are not scaled to a sum of 1 (Nussbaum and Duderstadt, 2025). Every
    expert is computed for every token, which needs no sorting of tokens. Where 2 of 8 are chosen, this is 4 times the
    products that the layer needs, and 2.5 times the products of all linear layers of nomic-embed-text-v2-moe; what is
    between its two products takes 8 times the memory of a plain feed-forward layer.

    Rounding decides between experts whose probabilities are almost equal, and so may change a vector by 1e-3.

    Args:
      factory: makes the layers.
      hidden: width of a hidden state.
      inner: width inside an expert.
      activation: one of ``ACTIVATIONS``.
      experts: the number of experts, and of those chosen.
    """

    def __init__(self, factory: LayerFactory, hidden: int, inner: int, activation: str, experts: Experts) -> None:
        self.activation = activation
        self.experts = experts
        self.router = factory.linear(hidden, experts.count, bias=False)
        # Of all experts side by side; the second is stored as it is multiplied, unlike the weight of a linear layer.
        self.first = factory.linear(hidden, experts.count * inner, bias=False)
        self.second = nnx.Param(jnp.zeros((experts.count * inner, hidden), factory.param_dtype))
        self.bias = nnx.Param(jnp.zeros(hidden, factory.param_dtype))

    def __call__(self, x: Hidden) -> Hidden:
        """Returns what the layer adds to the hidden states."""
        # In float32, because a rounded score may choose another expert.
        router = jnp.asarray(self.router.kernel[...], jnp.float32)
        scores = jnp.matmul(x.astype(jnp.float32), router, precision=jax.lax.Precision.HIGHEST)
        shares = jax.nn.softmax(scores)
        # By their places: as many on a tie, too.
        places = jax.lax.top_k(shares, self.experts.chosen)[1]
        shares *= jax.nn.one_hot(places, self.experts.count, dtype=shares.dtype).sum(axis=-2)
        inner = ACTIVATIONS[self.activation](self.first(x)).astype(jnp.float32)
        mixed = inner.reshape(*shares.shape, -1) * shares[..., None]
        product = summed_in_float32(mixed.reshape(inner.shape).astype(x.dtype), jnp.asarray(self.second[...], x.dtype))
        return product + jnp.asarray(self.bias[...], x.dtype)[None, None]


def _build(config: NomicBertConfig, factory: LayerFactory) -> Encoder:
    attention = AttentionConfig(config.heads, bias=not config.gated, fused=True, rotary=config.rotary)
    sizes = factory, config.hidden, config.intermediate, config.activation

    def feed(number: int) -> nnx.Module:
        if config.experts is not None and number % config.experts.every == 1:
            return ExpertFeedForward(*sizes, config.experts)
        return GatedFeedForward(*sizes) if config.gated else FeedForward(*sizes)

    return bert.build(config, factory, attention, feed)


def _complete(config: dict[str, Any], tensors: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the config with the names of transformers, and the tensors with one name for each of our layers."""
    given = {name: value for name, value in config.items() if value is not None}
    config = {_NAMES.get(name, name): value for name, value in given.items()} | given
    return config, {_ON_DISK.sub(lambda found: f".mlp.{_LAYERS[found[1]]}.", name): x for name, x in tensors.items()}


def _read_sizes(config: Mapping[str, Any]) -> NomicBertConfig:
    base.require(
        config, prenorm=False, parallel_block=False, causal=False, use_rms_norm=False, rotary_emb_fraction=1.0,
        rotary_emb_interleaved=False, rotary_emb_scale_base=None, rotary_scaling_factor=None, num_shared_experts=0,
        expert_choice_router=False, moe_normalize_expert_weights=False, ffn_div=1.0,
    )  # fmt: skip
    sizes = base.whole_sizes(config, gte.SIZES)
    # transformers writes the activation of the gate; nomic's own code that of the layer, which may be a gated one.
    layer, experts = config.get("activation_function", "swiglu"), None
    gated = layer == "swiglu"
    base.require(config, qkv_proj_bias=not gated, mlp_fc1_bias=not gated, mlp_fc2_bias=not gated)
    if config.get("num_experts", 0):
        base.require({"activation_function": layer}, activation_function="gelu")
        experts = Experts(config["num_experts"], config.get("moe_top_k", 1), config.get("moe_every_n_layers", 0))
    return NomicBertConfig(
        **sizes,
        rotary=base.rotary(config),
        epsilon=base.number(config, "layer_norm_eps", 1e-12),
        activation=base.activation(config, *(("hidden_act", "silu") if gated else ("activation_function", "gelu"))),
        gated=gated,
        experts=experts,
    )


def _export_options(sizes: NomicBertConfig, blocks: int) -> dict[str, Any]:
    if not sizes.gated:
        raise ValueError("transformers has no NomicBERT with experts, or with feed-forward layers that are not gated")
    return {}


NOMIC_BERT = replace(
    gte.GTE,
    model_type="nomic_bert",
    read_config=_read_sizes,
    build=_build,
    keys=TABLES | base.block_keys(_BLOCK) | _EXPERTS,
    unused=r"(pooler|cls|classifier)\..*",
    prefixes=("bert.", "nomic_bert."),
    pooling="mean",
    complete=_complete,
    exported=("NomicBertModel", "nomic_bert"),
    export_options=_export_options,
)
