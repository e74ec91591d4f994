"""Configs by architecture: changes of the golden ones that change no size, or some, and those that are refused."""

import json
import math
import shutil

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from lsar_jax.models.architectures import ARCHITECTURES
from lsar_jax.models.architectures.nomic_bert import Experts
from lsar_jax.models.rotary import Rotary
from tests import parity
from tests.models.test_gte import OLD as GTE
from tests.models.test_nomic_bert import MIXED
from tests.models.test_nomic_bert import OLD as NOMIC_BERT
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json

LINEAR = {"rope_scaling": {"type": "linear", "factor": 2.0}}
YARN = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}}
YARNED = {"factor": 4.0, "kind": "yarn", "slow": 1.0, "fast": 32.0, "original": 8.0, "length": 0.1 * math.log(4) + 1}
LLAMA3 = {"rope_scaling": {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 1.5,
    "original_max_position_embeddings": 10,
}}  # fmt: skip
MINISTRAL3 = {"rope_type": "yarn", "rope_theta": 10.0, "factor": 8.0, "original_max_position_embeddings": 5}
FULL, SLIDING = "full_attention", "sliding_attention"
# As configs were written before version 5 of transformers; ... leaves a field out.
ROPE = {"rope_parameters": ..., "rope_theta": 100.0, "rope_scaling": None}
MODERNBERT = {"layer_types": ..., "rope_parameters": ..., "global_rope_theta": 1000.0, "local_rope_theta": 30.0}
GEMMA3 = {
    "layer_types": ..., "rope_parameters": ..., "_sliding_window_pattern": ..., "sliding_window_pattern": 2,
    "rope_theta": 1000.0, "rope_local_base_freq": 10.0, "rope_scaling": None,
}  # fmt: skip
SAME = [
    ("qwen3", ROPE),
    ("eurobert", ROPE),
    ("llama", ROPE | LLAMA3 | {"rope_theta": 10.0}),
    ("llama", {"head_dim": None, "mlp_bias": ..., "pretraining_tp": 1}),
    ("qwen2", {"head_dim": 8, "layer_types": ..., "sliding_window": 5, "max_window_layers": 1}),
    ("modernbert", MODERNBERT),
    ("modernbert", MODERNBERT | {"global_attn_every_n_layers": 3, "reference_compile": None, "repad_logits": False}),
    ("gte", GTE),
    ("gte", GTE | {"model_type": "gte"}),
    ("nomic_bert", NOMIC_BERT),
    # The names of transformers count.
    ("nomic_bert", {"n_head": 2, "layer_norm_epsilon": 0.1}),
    ("jina-v3", {"position_embedding_type": "rotary", "rotary_emb_base": 100.0, "rope_parameters": ...}),
    ("gemma3", GEMMA3),
    ("gemma3-causal", GEMMA3 | {"rope_scaling": {"factor": 2.0, "rope_type": "linear"}}),
    # The first files have some of these, and not the others.
    ("m2m-100", dict.fromkeys(("scale_embedding", "activation_function", "pad_token_id", "is_encoder_decoder"), ...)),
    ("m2m-100", {"num_hidden_layers": 3, "torch_dtype": "float32", "_name_or_path": "x", "normalize_before": True}),
    # Blocks are numbered with as many digits as the last, and their sizes may be left to defaults.
    ("embedding-gemma2", {"per_layer_config": {"002": {"head_dim": 24, "num_key_value_heads": 1}}}),
    ("embedding-gemma2", {
        "per_layer_config": ..., "layer_types": ..., "sliding_window_pattern": 3, "global_head_dim": 24,
    }),
]  # fmt: skip
SIZES = [
    ("qwen3", {}, {"groups": 2, "rotary": Rotary(100.0), "epsilon": 1e-3, "causal": True}),
    ("qwen3", ROPE | LINEAR, {"rotary": Rotary(100.0, 2.0)}),
    ("qwen3", {"head_dim": ...}, {"width": 128}),
    ("qwen3", {"is_causal": ...}, {"causal": True}),
    ("qwen3", {"is_causal": False}, {"causal": False}),
    ("qwen3", {"is_causal": False, "use_bidirectional_attention": True}, {"causal": False}),
    ("qwen3", ROPE | YARN, {"rotary": Rotary(100.0, **YARNED)}),
    ("qwen3", {"num_key_value_heads": None}, {"groups": 4}),
    ("llama", {"num_key_value_heads": ...}, {"groups": 4, "causal": True}),
    ("ministral3", {}, {"rotary": Rotary(
        10.0, 8.0, "yarn", 0.25, 1.0, 5.0, (1 + 0.05 * math.log(8)) / (1 + 0.2 * math.log(8)), 0.5
    )}),
    ("eurobert", {}, {"groups": 2, "rotary": Rotary(100.0), "epsilon": 1e-3, "causal": False}),
    ("eurobert", {"num_key_value_heads": None, "head_dim": None}, {"groups": 4, "width": 8}),
    ("modernbert", {}, {"kinds": (FULL, SLIDING, SLIDING, FULL), "window": 4, "sliding": Rotary(30.0)}),
    ("modernbert", MODERNBERT | {"global_attn_every_n_layers": 1}, {"kinds": (FULL,) * 4, "rotary": Rotary(1000.0)}),
    ("modernbert", MODERNBERT | YARN, {"rotary": Rotary(1000.0, **YARNED), "sliding": Rotary(30.0, **YARNED)}),
    ("gte", {}, {"rotary": Rotary(160.0, 8 ** (2 / 8))}),
    # arctic-embed-m-v2 does not scale.
    ("gte", GTE | {"rope_scaling": None, "rope_theta": 160000}, {"rotary": Rotary(160000.0)}),
    ("nomic_bert", {}, {"rotary": Rotary(100.0), "activation": "silu", "gated": True, "experts": None}),
    ("nomic_bert", MIXED, {"activation": "gelu", "gated": False, "experts": Experts(6, 2, 2)}),
    ("m2m-100", {}, {"scale": math.sqrt(32)}),
    ("m2m-100", {"scale_embedding": False}, {"scale": 1.0}),
    ("gemma2", {}, {"kinds": (SLIDING, FULL, SLIDING), "window": 3, "scores": 24, "cap": 2.0, "rotary": Rotary(100.0)}),
    ("gemma2", {"attn_logit_softcapping": None, "layer_types": ...}, {"cap": None, "kinds": (SLIDING, FULL, SLIDING)}),
    ("gemma3", {}, {"kinds": (SLIDING, FULL, SLIDING), "window": 3, "causal": False, "scores": 24}),
    ("gemma3-causal", {}, {"window": 3, "causal": True, "rotary": Rotary(1000.0, 2.0), "sliding": Rotary(10.0)}),
    ("embedding-gemma2", {}, {
        "kinds": (SLIDING, SLIDING, FULL), "block_heads": ((2, 16), (2, 16), (1, 24)), "window": 3, "gate": 20,
        "scores": 1, "causal": False, "rotary": Rotary(1000.0), "sliding": Rotary(10.0),
    }),
    ("embedding-gemma2", {"per_layer_config": ..., "layer_types": ..., "sliding_window_pattern": 6}, {
        "kinds": (SLIDING, SLIDING, FULL), "block_heads": ((2, 16), (2, 16), (1, 512)),
    }),
]  # fmt: skip
QWEN = [
    ({"rope_parameters": None}, "rope_theta in config.json is None; it must be a positive, finite number"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "factor of rope_scaling in config.json is None"),
    ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "'longrope' is not one of default, linear, ll"),
    (ROPE | {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5 in config.json; only 1 is supported"),
    (LINEAR, "rope_scaling is .* in config.json; only None is supported"),
    ({"hidden_act": "mish"}, "hidden_act 'mish' is not one of gelu, "),
    ({"num_key_value_heads": 3}, "4 heads of width .* do not fit; expected multiples of 3 and"),
    ({"head_dim": 5}, "4 heads of width 5 do not fit; .* and 2"),
]
REFUSED = {
    "bert": [
        ({"hidden_act": "mish"}, "hidden_act 'mish' is not one of gelu"),
        ({"hidden_size": "wide"}, "config.json lacks whole numbers for hidden_size"),
        ({"position_embedding_type": "relative"}, "position_embedding_type is 'relative' in config.json"),
        ({"num_hidden_layers": 10**9}, "blocks is 1000000000; it must be a whole number from 0 to 256"),
        ({"layer_norm_eps": 0}, "layer_norm_eps in config.json is 0; it must be a positive"),
    ],
    "distilbert": [({"hidden_size": 16}, "hidden_size is 16 in config.json; only 32 is supported")],
    "xlm-roberta": [({"pad_token_id": 50}, "first_position is 51; it must be a whole number from 0 to")],
    "qwen3": [
        *QWEN,
        ({"attention_bias": True}, "attention_bias is True in config.json; only False is supported"),
        ({"layer_types": ["sliding_attention"] * 3}, "layer_types is .*; only .'full_attention', "),
        ({"is_causal": ..., "use_bidirectional_attention": True}, "without is_causal: false"),
    ],
    "qwen2": [
        *QWEN,
        ({"use_sliding_window": True}, "use_sliding_window is True in config.json; only False is supported"),
        ({"num_key_value_heads": ...}, "4 heads of width 8 do not fit; expected multiples of 32"),
    ],
    "llama": [
        *QWEN,
        (ROPE | {"rope_scaling": {**LLAMA3["rope_scaling"], "high_freq_factor": 0.5}}, "low_freq_.* by is 0.0"),
    ],
    "ministral3": [
        ({"sliding_window": 4}, "sliding_window is 4 in config.json; only None is supported"),
        ({"rope_parameters": MINISTRAL3}, "llama_4_scaling_beta of rope_scaling in config.json is None"),
    ],
    "eurobert": [*QWEN, ({"mlp_bias": True}, "mlp_bias is True in config.json; only False is supported")],
    "modernbert": [
        ({"layer_types": ["full_attention"] * 3}, "expected 4 of full_attention, sliding_attention"),
        ({"layer_types": None, "global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0; it must be"),
        ({"local_attention": -1}, "window is -1; it must be a whole number"),
        ({"sliding_window": 2}, "sliding_window is 2 in config.json; only 4 is supported"),
        ({"rope_parameters": None, "global_rope_theta": 1e4}, "local_rope_theta of sliding_attention in .* is None"),
        (LINEAR, "rope_scaling is {.* in config.json; only None is supported"),
    ],
    "gemma2": [
        ({"attn_logit_softcapping": 0}, "attn_logit_softcapping in config.json is 0; it must be a positive"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention is True in config.json; only False"),
        ({"is_causal": False}, "is_causal is False in config.json; only True"),
    ],
    "gemma3": [
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0"),
        ({"layer_types": None, "sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        ({"rope_parameters": None, "rope_scaling": {"rope_type": "dynamic"}}, "rope_type 'dynamic' is not one of"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, "of full_attention in .* is None"),
        ({"use_bidirectional_attention": False, "is_causal": False}, "is_causal is False in config.json; only True"),
        ({"is_causal": False}, "is_causal is False in config.json; only True"),
        ({"layer_types": None, "_sliding_window_pattern": 2}, "_sliding_window_pattern is 2 in config.json; only 6"),
    ],
    "embedding-gemma2": [
        ({"per_layer_config": {"0": {"intermediate_size": 8}}}, "per_layer_config is .*; it must map blocks to"),
        ({"per_layer_config": {"0": {"num_key_value_heads": 3}}}, "4 heads of width 16 do not fit"),
    ],
    "gte": [
        ({"pack_qkv": False}, "pack_qkv is False in config.json; only True is supported"),
        ({"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.5}}, "mixed_b is 0.5 in config.json; only None"),
        ({"rope_scaling": {"type": "ntk", "factor": 0}}, "factor of rope_scaling in config.json is 0"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic' is not one of default, linear"),
    ],
    "jina-v3": [({"use_reg_tokens": True}, "use_reg_tokens is True in config.json; only False is supported")],
    "nomic_bert": [
        ({"prenorm": True}, "prenorm is True in config.json; only False is supported"),
        ({"activation_function": "swiglu"}, "qkv_proj_bias is True in config.json; only False is supported"),
        ({"activation_function": "geglu"}, "activation_function is 'geglu' in config.json; only 'gelu' is supported"),
        ({"activation_function": "geglu", "num_experts": 0}, "'geglu' is not one of gelu"),
        ({"moe_top_k": 7}, "moe_top_k is 7; it must be a whole number from 1 to 6"),
        ({"moe_every_n_layers": 1}, "moe_every_n_layers is 1; it must be a whole number from 2"),
        ({"num_experts": -1}, "num_experts is -1; it must be a whole number from 1"),
    ],
    "m2m-100": [
        ({"d_model": 33}, "heads of width .* do not fit"),
        ({"num_hidden_layers": 1}, "num_hidden_layers is 1 in config.json; only 3 is supported"),
        ({"pad_token_id": None}, "pad_token_id in config.json is None; it must be a whole number"),
    ],
    "xlm": [
        ({"causal": True}, "causal is True in config.json; only False is supported"),
        ({"n_langs": "three"}, "n_langs in config.json is 'three'"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes", "message"), [(name, *case) for name, cases in REFUSED.items() for case in cases]
)
def test_configs_that_are_refused(name, changes, message):
    base = {"gte": GTE, "nomic_bert": MIXED}.get(name, {})
    sizes(name, base)
    with pytest.raises(ValueError, match=message):
        sizes(name, base | changes)


def sizes(name, changes):
    """The sizes of a golden config with changes; one that names its model type is a whole config."""
    config = json.loads((GOLDEN / name / "config.json").read_text())
    config = changes if "model_type" in changes else config | changes
    architecture = ARCHITECTURES[config["model_type"]]
    given = {key: value for key, value in config.items() if value is not ...}
    return architecture.read_config(architecture.complete(given, {})[0])


@pytest.mark.parametrize(("name", "changes"), SAME)
def test_other_spellings(name, changes):
    assert sizes(name, changes) == sizes(name, {})


@pytest.mark.parametrize(("name", "changes", "expected"), SIZES)
def test_sizes(name, changes, expected):
    found = sizes(name, changes)
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize("name", ["gemma3", "embedding-gemma2"])
def test_a_model_of_text_and_images_has_a_text_model(name):
    config = json.loads((GOLDEN / name / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"].removesuffix("_text")]
    assert architecture.read_config({"text_config": config}) == sizes(name, {})
    with pytest.raises(ValueError, match="text_config is None"):
        architecture.read_config({})


def test_a_window_that_was_halved_by_saving(caplog):
    assert sizes("gemma3", {"sliding_window": 512}).window == 256
    assert not caplog.messages
    for window in (257, 129):
        sizes("gemma3", {"sliding_window": window})
        assert f"sliding_window is {window} in config.json; transformers 4.56" in caplog.messages[-1]


COMPUTED = [
    *(("bert", {"hidden_act": name}) for name in ("swish", "quick_gelu", "gelu_fast")),
    *((name, {"hidden_act": "gelu"}) for name in ("qwen3", "eurobert")),
    ("modernbert", {"attention_bias": True, "mlp_bias": True}),
    ("modernbert", {"norm_bias": True, "hidden_activation": "quick_gelu"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes"), COMPUTED)
def test_options_are_computed_as_in_torch(name, changes, tmp_path, rng):
    torch = need("torch")
    folder, case = shutil.copytree(GOLDEN / name, tmp_path / name), parity.golden(name)
    edit_json(folder / "config.json", **changes)
    model = need("transformers").AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    for weight in model.parameters():
        weight.data += torch.tensor(rng.normal(0, 0.1, weight.shape), dtype=weight.dtype)
    model.save_pretrained(folder)
    theirs = parity.hidden_states(model, case["ids"], case["lengths"])[0]
    ours = parity.all_states(
        load_weights(read_folder(folder, id=name), blocks=len(theirs) - 1, dtype="float32"), case["ids"],
        case["lengths"], None,
    )  # fmt: skip
    real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one[real], other[real], atol=parity.MODEL * np.abs(other).max())
    encoder = lj.load_encoder(folder, pooling="mean")
    encoder.to_sentence_transformers(tmp_path / "written")
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "written").encode(TEXTS), encoder.encode(TEXTS))
