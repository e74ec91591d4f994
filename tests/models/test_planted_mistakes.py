"""Parity with torch fails for every mistake that is likely in an architecture.

A mistake changes a model, and may return other lengths of the sentences; or it is a dict of changes of the config.
"""

from dataclasses import replace
from operator import attrgetter

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from lsar_jax.models.encoder import sinusoids
from lsar_jax.models.rotary import Rotary
from tests import parity


def put(path, value):
    """Sets an attribute to a value, or to a function of the module."""

    def change(module, case):
        *way, name = path.split(".")
        owner = attrgetter(".".join(way))(module) if way else module
        setattr(owner, name, value(module) if callable(value) else value)

    return change


def edit(path, function):
    """Replaces a weight by a function of it."""

    def change(module, case):
        leaf = attrgetter(path)(module)
        leaf[...] = function(leaf[...])

    return change


def exchange(one, other):
    def change(module, case):
        first, second = attrgetter(one)(module), attrgetter(other)(module)
        put(one, lambda _: second)(module, case)
        put(other, lambda _: first)(module, case)

    return change


def attention(**values):
    """Changes options of attention."""
    return lambda block, case: parity.set_attention(block, **values)


def other_direction(block, case):
    parity.set_attention(block, causal=not block.attention.config.causal)


def turned(**values):
    """Changes options of the rotary positions."""
    return each(
        lambda block, case: parity.set_attention(block, rotary=replace(block.attention.config.rotary, **values))
    )


def bases_exchanged(model, case):
    for block in model.blocks:
        full = block.attention.config.window is None
        parity.set_attention(block, rotary=model.config.sliding if full else model.config.rotary)


def norm_in_the_first_block(model, case):
    model.blocks[0].attention_norm = nnx.data(model.blocks[1].attention_norm)


def each(*changes, blocks=slice(None)):
    def mistake(model, case):
        for block in list(model.blocks)[blocks]:
            for change in changes:
                change(block, case)

    return mistake


def all_tokens(model, case):
    return np.full_like(case["lengths"], case["ids"].shape[1])


def one_language(model, case):
    case["languages"] = np.zeros_like(case["languages"])


def planes_of_neighbours(block, case):
    """Turns dimensions 2 i and 2 i + 1 of a head together, as GPT-J does."""
    for layer in (block.attention.query, block.attention.key):
        kernel = layer.kernel[...].reshape(32, -1, block.attention.width // 2, 2)
        layer.kernel[...] = kernel.swapaxes(2, 3).reshape(layer.kernel.shape)


def heads_by_turns(block, case):
    """Gives key head h to the query heads h, h + 2, ... rather than to 2 h and 2 h + 1."""
    for layer, axis in ((block.attention.query, 1), (block.attention.out, 0)):
        kernel = jnp.moveaxis(layer.kernel[...], axis, 0)
        turned = kernel.reshape(2, 2, block.attention.width, 32).swapaxes(0, 1).reshape(kernel.shape)
        layer.kernel[...] = jnp.moveaxis(turned, 0, axis)


def keys_and_values(kernel):
    query, key, value = jnp.split(kernel, 3, axis=1)
    return jnp.concatenate([query, value, key], axis=1)


# tanh's GELU differs by 5e-4 at most, epsilon by what the variance leaves: the least of the mistakes.
TANH_GELU, EXACT_GELU = (each(put("feed.activation", name)) for name in ("gelu_new", "gelu"))
EPSILON = {"epsilon": each(put("feed_norm.epsilon", 1e-12))}
PADDING = {"padding": all_tokens}
HALVES = {"other half of the gate": each(exchange("feed.gate", "feed.up"))}
NO_TYPE = {"token type": edit("embeddings.token_type.embedding", jnp.zeros_like)}
BERT = (
    PADDING
    | EPSILON
    | NO_TYPE
    | {
        "position": edit("embeddings.position.embedding", lambda table: jnp.roll(table, -1, axis=0)),
        "activation": each(put("feed.activation", "relu")),
        "norm of embeddings": edit("embeddings.norm.scale", jnp.ones_like),
        "tanh": TANH_GELU,
    }
)
LASER = PADDING | {
    "directions": each(exchange("forward", "backward")),
    "gates": each(edit("forward.kernel", lambda x: jnp.roll(x, x.shape[-1] // 4, axis=-1))),
    "bias": each(edit("backward.recurrent_bias", jnp.zeros_like)),
}
QWEN = EPSILON | HALVES | {
    "direction": each(other_direction),
    "theta": each(attention(rotary=Rotary(10_000.0))),
    "planes": each(planes_of_neighbours),
    "order of heads": each(heads_by_turns),
    "offset": each(put("attention_norm.offset", 1.0)),
}  # fmt: skip
WINDOWS = {
    "window of 2": {"window": 2}, "window of 4": {"window": 4}, "rotary": {"rotary": Rotary(10.0)},
    "sliding": {"sliding": Rotary(1000.0)}, "scores": {"scores": 16},
}  # fmt: skip
GEMMA = HALVES | WINDOWS | {
    "two kinds": {"kinds": ("full_attention", "sliding_attention", "full_attention")},
    "one kind": {"kinds": ("full_attention",) * 3},
    "epsilon": {"epsilon": 1e-6},
    "offset": each(*(put(f"{name}_norm.offset", 0.0) for name in ("attention", "attended", "feed", "fed"))),
    "gelu": EXACT_GELU,
    "scale": put("embeddings.scale", 1.0),
}  # fmt: skip
MISTAKES = {
    "bert": BERT,
    # What an architecture has in common with one above is planted in that one.
    "xlm-roberta": {"first position": put("embeddings.first_position", 0)},
    "xlm": {"language": edit("embeddings.language.embedding", jnp.zeros_like), "languages": one_language},
    "xlm-sinusoidal": {"position": BERT["position"]},
    "distilbert": {"tanh": TANH_GELU},
    "laser1": LASER,
    "laser2": {"gates": LASER["gates"]},
    "eurobert": {"theta": QWEN["theta"]},
    "qwen3": QWEN | {
        "norms of heads": each(put("attention.query_norm", None), put("attention.key_norm", None)),
        "norms exchanged": each(exchange("attention.query_norm", "attention.key_norm")),
        # The root of hidden / heads, which is less than the width of a head.
        "scale": each(attention(scale=(32 / 4) ** -0.5)),
    },
    "qwen3-both": {"direction": QWEN["direction"]},
    "llama": {
        "scaling": turned(kind="linear"),
        "no scaling": turned(factor=1.0),
        "other turns": turned(fast=4.0),
        "positions before": turned(original=40.0),
    },
    "qwen2": {
        "bias": each(edit("attention.query.bias", jnp.zeros_like)),
        "bias of values": each(edit("attention.value.bias", jnp.zeros_like)),
    },
    "ministral3": {
        "turns": turned(slow=1.0, fast=32.0),
        "length": turned(length=1.0),
        "growth": turned(beta=0.0),
    },
    "modernbert": EPSILON | PADDING | {
        "other half of the gate": each(put("feed.fused", "up_gate")),
        "wider window": each(attention(window=5), blocks=slice(1, 2)),
        "narrower window": each(attention(window=3), blocks=slice(2, 3)),
        "direction": each(attention(causal=True), blocks=slice(1, 2)),
        "no window": each(attention(window=None)),
        "one base": each(attention(rotary=Rotary(1000.0))),
        "bases": bases_exchanged,
        "first norm": norm_in_the_first_block,
        "final norm": put("norm", None),
        "norm of embeddings": put("embeddings.norm", None),
        "tanh": TANH_GELU,
        "keys and values": each(edit("attention.inputs.kernel", keys_and_values)),
    },
    "gte": NO_TYPE | {
        "other half of the gate": each(put("feed.fused", "gate_up")),
        "base": each(attention(rotary=Rotary(20.0, 8 ** (2 / 8)))),
        "scaling": each(attention(rotary=Rotary(160.0))),
        "linear scaling": each(attention(rotary=Rotary(20.0, 8.0))),
        "bias": each(edit("attention.inputs.bias", jnp.zeros_like), blocks=slice(1, 2)),
        "norms exchanged": each(exchange("attention_norm", "feed_norm")),
        "order": each(*(edit(f"attention.inputs.{x}", lambda x: jnp.roll(x, 32, -1)) for x in ("kernel", "bias"))),
    },
    "nomic_bert": EPSILON | PADDING | HALVES | {
        "gelu": EXACT_GELU,
        "base": each(attention(rotary=Rotary(1000.0))),
        "token type": edit("embeddings.token_type.embedding", lambda table: table[::-1]),
    },
    "jina-v3": {"base": each(attention(rotary=Rotary(1000.0))), "tanh": TANH_GELU},
    "gemma2": {
        "no limit": {"cap": None}, "limit": {"cap": 3.0}, "window": {"window": 2}, "scores": {"scores": 16},
        "direction": {"causal": False}, "kinds": {"kinds": ("full_attention", "sliding_attention", "full_attention")},
    },
    "gemma3": GEMMA | {"direction": {"causal": True}},
    "gemma3-causal": {"direction": {"causal": False}, "scaling": {"rotary": Rotary(1000.0)}},
    "embedding-gemma2": HALVES | {
        "window of 2": {"window": 2},
        "offset": each(put("out_norm.offset", 1.0)),
        "inputs of the next block": edit("inputs.projection.kernel", lambda kernel: jnp.roll(kernel, -20, axis=1)),
        "offset of inputs": put("inputs.norm.offset", 1.0),
        "scalars": each(edit("scalar", jnp.ones_like)),
        "values": each(put("attention.epsilon", 1e6)),
    },
    "m2m-100": {
        "scale": put("embeddings.scale", 1.0),
        "interleaved": edit("embeddings.position.embedding", lambda table: jnp.asarray(sinusoids(*table.shape))),
        "first position": put("embeddings.first_position", 0),
        "final norm": put("norm", None),
        "activation": EXACT_GELU,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake"), [(name, mistake) for name, given in MISTAKES.items() for mistake in given]
)
def test_parity_fails_for_a_planted_mistake(name, mistake):
    change, case, lengths = MISTAKES[name][mistake], parity.golden(name), None
    if isinstance(change, dict):
        checkpoint = read_folder(parity.GOLDEN / name, id=name)
        config = replace(checkpoint.config, **change)
        model = load_weights(replace(checkpoint, config=config), blocks=config.blocks, dtype="float32")
    else:
        model = parity.load(name)
        lengths = change(model, case)
    # Ten times what a block is allowed, and more than the whole model is.
    assert parity.errors(model, case, lengths).max() > max(10 * parity.BLOCK, parity.MODEL)


def test_every_architecture_has_mistakes():
    assert set(MISTAKES) == set(parity.ARCHITECTURES)
