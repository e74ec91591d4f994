"""NomicBERT: its experts beside float64 numpy, what its config may say, and proof that the tests can fail."""

import json
import shutil
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import save_file

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from tests import parity, reference
from tests.models.test_planted_mistakes import edit, put

# As nomic-embed-text-v1.5 and -v2-moe have it on disk.
OLD = {
    "model_type": "nomic_bert", "vocab_size": 64, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 64,
    "n_positions": 40, "type_vocab_size": 2, "layer_norm_epsilon": 1e-3, "rotary_emb_base": 100,
    "activation_function": "swiglu", "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "qkv_proj_bias": False, "mlp_fc1_bias": False,
    "mlp_fc2_bias": False, "prenorm": False, "parallel_block": False, "causal": False, "use_rms_norm": False,
    "pad_vocab_size_multiple": 64, "max_trained_positions": 2048, "use_flash_attn": True,
}  # fmt: skip
MIXED = OLD | {
    "n_layer": 4, "n_inner": 24, "type_vocab_size": 1, "activation_function": "gelu", "qkv_proj_bias": True,
    "mlp_fc1_bias": True, "mlp_fc2_bias": True, "use_rms_norm": None, "num_experts": 6, "moe_top_k": 2,
    "moe_every_n_layers": 2, "moe_normalize_expert_weights": False, "num_shared_experts": 0, "pad_token_id": 0,
    "expert_choice_router": False, "ffn_div": 1.0,
}  # fmt: skip
LENGTHS = np.array([12, 1, 30, 17], np.int32)


def drawn(rng):
    """The tensors of four blocks, two of them with six experts, at unit scale."""

    def linear(name, outer, inner):
        weight = rng.standard_normal((outer, inner)) / np.sqrt(inner)
        return {f"{name}.weight": weight, f"{name}.bias": rng.standard_normal(outer) / 2}

    def norm(name):
        return {f"{name}.weight": rng.uniform(0.5, 1.5, 32), f"{name}.bias": rng.standard_normal(32) / 2}

    rows = {"word": 64, "token_type": 1}.items()
    tensors = {f"embeddings.{kind}_embeddings.weight": rng.standard_normal((n, 32)) for kind, n in rows}
    tensors |= norm("emb_ln")
    for number in range(4):
        block = f"encoder.layers.{number}"
        tensors |= linear(f"{block}.attn.Wqkv", 96, 32) | linear(f"{block}.attn.out_proj", 32, 32)
        tensors |= norm(f"{block}.norm1") | norm(f"{block}.norm2")
        if number % 2:
            tensors[f"{block}.mlp.router.layer.weight"] = rng.standard_normal((6, 32)) / np.sqrt(32)
            tensors[f"{block}.mlp.experts.mlp.w1"] = rng.standard_normal((6 * 24, 32)) / np.sqrt(32)
            tensors[f"{block}.mlp.experts.mlp.w2"] = 2 * rng.standard_normal((6 * 24, 32)) / np.sqrt(24)
            tensors[f"{block}.mlp.experts.bias"] = rng.standard_normal(32) / 2
        else:
            tensors |= linear(f"{block}.mlp.fc1", 24, 32) | linear(f"{block}.mlp.fc2", 32, 24)
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def tensors():
    return drawn(np.random.default_rng(5))


@pytest.fixture
def folder(tensors, tmp_path):
    folder = shutil.copytree(parity.GOLDEN / "nomic_bert", tmp_path / "mixed")
    (folder / "config.json").write_text(json.dumps(MIXED))
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def case(tensors):
    """The states by the formulas, ``[layer, batch, length, dim]``; zero for padding."""
    ids = np.random.default_rng(6).integers(0, 64, (len(LENGTHS), 40)).astype(np.int32)
    hidden, sizes = np.zeros((5, *ids.shape, 32)), {"heads": 4, "theta": 100, "epsilon": 1e-3, "experts_chosen": 2}
    for row, length in enumerate(LENGTHS):
        hidden[:, row, :length] = reference.nomic_bert(tensors, ids[row, :length], **sizes)
    return {"ids": ids, "lengths": LENGTHS, "hidden": hidden, "languages": None}


def loaded(folder, **options):
    checkpoint = read_folder(folder, id="mixed")
    return load_weights(checkpoint, **{"blocks": checkpoint.config.blocks, "dtype": "float32"} | options)


def test_states_equal_the_formulas(folder, case):
    model = loaded(folder)
    assert parity.block_errors(model, case).max() <= parity.BLOCK
    assert parity.errors(model, case).max() <= parity.BLOCK
    assert len(parity.all_states(loaded(folder, blocks=2), case["ids"], LENGTHS, None)) == 3


def test_experts_in_bfloat16(folder, case):
    """A rounded state may choose another expert, which few do; a block alone is as exact as others for the rest."""
    model = loaded(folder, dtype="bfloat16")
    below, above = (jnp.asarray(case["hidden"][layer], jnp.bfloat16) for layer in (1, 2))
    mask = parity.AttentionMask.of(jnp.asarray(LENGTHS)[:, None], 40)
    found = np.asarray(model.blocks[1](below, mask), np.float64)
    real = np.arange(40) < LENGTHS[:, None]
    error = np.abs(found - np.asarray(above, np.float64))[real].max(axis=-1) / np.abs(case["hidden"][2]).max()
    assert np.quantile(error, 0.9) <= 0.02


MISTAKES = {
    "one expert": put("experts", lambda feed: replace(feed.experts, chosen=1)),
    "three experts": put("experts", lambda feed: replace(feed.experts, chosen=3)),
    "transposed": edit("second", lambda x: x.reshape(6, 32, 24).swapaxes(1, 2).reshape(-1, 32)),
    "interleaved": edit("second", lambda x: x.reshape(24, 6, 32).swapaxes(0, 1).reshape(-1, 32)),
    "a bias of each expert": edit("bias", lambda x: x * 2),
    "tanh": put("activation", "gelu_new"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_formulas_find_a_planted_mistake(folder, case, mistake):
    model = loaded(folder)
    for block in model.blocks[1::2]:
        MISTAKES[mistake](block.feed, case)
    assert parity.errors(model, case).max() > 10 * parity.BLOCK


@pytest.mark.parametrize("router", [1.0, 0.0], ids=["", "a tie of all"])
def test_gradients_reach_the_chosen_experts_alone(folder, case, router):
    model = loaded(folder, blocks=2)
    model.blocks[1].feed.router.kernel[...] *= router
    graph, state = nnx.split(model)
    ids, lengths = case["ids"][1:2], np.array([[1]], np.int32)

    def total(state):
        *_, last = nnx.merge(graph, state).hidden_states(ids, lengths)
        return jnp.square(last[0, 0]).sum()

    gradient = jax.grad(total)(state)["blocks"][1]["feed"]["second"][...]
    reached = np.abs(np.asarray(gradient)).reshape(6, -1).max(axis=1) > 0
    assert reached.sum() == 2


def test_biases_that_the_config_denies(folder):
    """They would be left out, and the vectors would be others."""
    (folder / "config.json").write_text(json.dumps(OLD))
    with pytest.raises(ValueError, match="unexpected: encoder.layers.0.attn.Wqkv.bias"):
        lj.load_encoder(folder)


def test_no_export_of_experts(folder, tmp_path):
    encoder = lj.load_encoder(folder)
    assert np.isfinite(encoder.encode(["abc", "d"])).all()
    with pytest.raises(ValueError, match="transformers has no NomicBERT with experts"):
        encoder.to_sentence_transformers(tmp_path / "written")
    assert not (tmp_path / "written").exists()
