"""Adapters, merged: the weights beside float64 numpy, the folders that PEFT and others write, and what is refused."""

import json
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from tests import parity
from tests.rewriting import edit_json

QUERY, UP = "encoder.layer.1.attention.self.query", "encoder.layer.0.intermediate.dense"
SIZES = {
    f"{module}.lora_{part}.weight": (rows, 4) if part == "B" else (4, 32)
    for module, rows in ((QUERY, 32), (UP, 64))
    for part in "AB"
}
CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 6, "bias": "none", "init_lora_weights": True, "megatron_core": "x"}


@pytest.fixture
def base(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "base")


def write(place, base, seed=0, sizes=(), **options):
    """Writes an adapter of two layers, or of tensors of these ``sizes`` too; returns its tensors."""
    edit_json(place / "adapter_config.json", **CONFIG | {"base_model_name_or_path": str(base)} | options)
    rng, sizes = np.random.default_rng(seed), SIZES | dict(sizes)
    tensors = {name: rng.uniform(0.2, 1, size).astype(np.float32) for name, size in sizes.items()}
    save_file({f"base_model.model.{name}": x for name, x in tensors.items()}, place / "adapter_model.safetensors")
    return tensors


# Options, sizes of further tensors, and the factor of each of the two modules by hand.
VARIANTS = [
    ({}, {}, (1.5, 1.5)),
    ({"use_rslora": True, "fan_in_fan_out": True}, {}, (3, 3)),
    (
        {"rank_pattern": {"layer.1.*query": 2}, "alpha_pattern": {"^encoder.layer.0.intermediate.dense": 8}},
        {f"{QUERY}.lora_A.weight": (2, 32), f"{QUERY}.lora_B.weight": (32, 2)}, (3, 2),
    ),
    ({"use_rslora": True, "alpha_pattern": {"query": 5, "dense": 1}}, {}, (2.5, 0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("options", "sizes", "factors"), VARIANTS)
def test_weights_are_merged(base, tmp_path, options, sizes, factors):
    x = {name: np.float64(value) for name, value in write(tmp_path / "adapter", base, 0, sizes, **options).items()}
    expected = load_file(base / "model.safetensors")
    for module, factor in zip((QUERY, UP), factors, strict=True):
        change = factor * x[f"{module}.lora_B.weight"] @ x[f"{module}.lora_A.weight"]
        expected[f"{module}.weight"] = expected[f"{module}.weight"] + change
    check(read_folder(tmp_path / "adapter", id="adapter"), expected)


def check(checkpoint, expected):
    assert checkpoint.tensors.keys() == expected.keys()
    for name, value in expected.items():
        found = checkpoint.tensors[name].rows(0, len(value))
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5, err_msg=name)


def test_several_adapters_beneath_their_base(base, tmp_path):
    for seed, name in enumerate(("retrieval", "text-matching")):
        write(base / "adapters" / name, "elsewhere", seed)
    for adapter in (None, "x"):
        with pytest.raises(ValueError, match=f"adapter {adapter!r} is not one of retrieval, text-matching"):
            lj.load_encoder(base, adapter=adapter)
    first, second = (lj.load_encoder(base, adapter=name) for name in ("retrieval", "text-matching"))
    x = first.encode(["abc"])
    assert np.abs(x - second.encode(["abc"])).max() > 0.1
    assert not first.spec.same_space(second.spec)
    low = lj.load_encoder(base, adapter="retrieval", layer=2).encode(["abc"])
    np.testing.assert_allclose(low, first.encode(["abc"], layers=[2])[0], rtol=1e-6, atol=1e-6)
    first.to_sentence_transformers(tmp_path / "export")
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "export").encode(["abc"]), x)


@pytest.mark.parametrize("pipeline", [False, True])
def test_the_base_elsewhere(tmp_path, pipeline):
    """PEFT writes the default adapter into the folder and others beneath; sentence-transformers, beside its modules."""
    base, folder, revisions = parity.GOLDEN / "labse", tmp_path / "adapter", set()
    if pipeline:
        shutil.copytree(base, folder)
        for name in ("config.json", "model.safetensors"):
            (folder / name).unlink()
        modules = json.loads((folder / "modules.json").read_text())
        (folder / "modules.json").write_text(json.dumps(modules[:-1]))
    query = load_file(base / "model.safetensors")[f"{QUERY}.weight"]
    adapters = {seed: write(folder / name, base, seed) for seed, name in enumerate(("", "other"))}
    for name, seed in ((None, 0), ("default", 0), ("other", 1)):
        encoder = lj.load_encoder(folder, adapter=name)
        assert encoder.spec.pooling == ("cls+dense" if pipeline else "cls+dense+normalize")
        x = query + 1.5 * adapters[seed][f"{QUERY}.lora_B.weight"] @ adapters[seed][f"{QUERY}.lora_A.weight"]
        np.testing.assert_allclose(encoder.model.blocks[1].attention.query.kernel[...], x.T, rtol=1e-6, atol=1e-6)
        revisions.add(encoder.spec.revision)
    assert len(revisions) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "adapter_config.json: peft_type is 'IA3'; supported is 'LORA'"),
        ({"peft_type": ...}, "peft_type is None"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'; supported is True, None, 'gaussian'"),
        ({"layer_replication": [[0, 2]]}, r"layer_replication is \[\[0, 2\]\]; supported is None"),
        ({"trainable_token_indices": [3]}, "trainable_token_indices"),
        ({"unheard_of": 0.5}, "unheard_of is 0.5; supported is None. Merge the adapter with PEFT"),
        ({"use_dora": True}, "use_dora is True; supported is None. Merge the adapter with PEFT"),
        ({"lora_bias": True}, "lora_bias is True"),
        ({"bias": "all"}, "bias is 'all'; supported is 'none'"),
        ({"modules_to_save": ["dense"]}, r"modules_to_save is \['dense'\]"),
        ({"lora_alpha": ...}, "lora_alpha is None; it must be a positive"),
        ({"r": 8}, f"r of {UP} is 8, and its tensors have 4"),
        ({"base_model_name_or_path": "a/b/gone"}, "base_model_name_or_path is .*: there is no folder a/b/gone"),
    ],
)
def test_adapters_that_are_refused(base, tmp_path, change, message):
    write(tmp_path / "adapter", base)
    edit_json(tmp_path / "adapter/adapter_config.json", **change)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        lj.load_encoder(tmp_path / "adapter")


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("decoder.layer.9.q_proj.lora_B.weight", (32, 4), "changes modules that the checkpoint lacks: decoder"),
        ("classifier.lora_B.weight", (2, 4), None),
        ("head.weight", (2, 32), "head.weight is not a weight of LoRA"),
        (f"{UP}.lora_embedding_A", (4, 32), "lora_embedding_A is not a weight of LoRA"),
        (f"{QUERY}.lora_B.weight", (31, 4), f"the adapter of {QUERY} has shapes .*; its weight is .32, 32."),
    ],
)
def test_tensors_of_an_adapter(base, tmp_path, name, shape, message):
    write(tmp_path / "adapter", base, 0, {name: shape})
    with nullcontext() if message is None else pytest.raises(ValueError, match=message):
        lj.load_encoder(tmp_path / "adapter")


def test_the_tasks_of_jina_embeddings_v3(tmp_path, rng):
    folder = shutil.copytree(parity.GOLDEN / "jina-v3", tmp_path / "jina")
    tensors, expected = {}, load_file(folder / "model.safetensors")
    for name, x in list(expected.items()):
        module, (rows, *_) = name.removesuffix(".weight"), x.shape
        if x.ndim == 1:
            tensors[f"roberta.{name}"] = x
            continue
        down, up = rng.standard_normal((2, 4, x.shape[1])), rng.standard_normal((2, rows, 4))
        expected[name] = x + 0.25 * up[1] @ down[1]
        pair = (up, down) if "embeddings" in module else (down, up)
        parts = {"original": x, "0.lora_A": pair[0], "0.lora_B": pair[1]}
        stem = f"roberta.{module}.parametrizations.weight"
        tensors |= {f"{stem}.{part}": np.float32(value) for part, value in parts.items()}
    save_file(tensors, folder / "model.safetensors")
    code = {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"}
    rotary = {"position_embedding_type": "rotary", "rotary_emb_base": 100.0, "rope_parameters": ..., "auto_map": code}
    lora = {"lora_adaptations": ["separation", "text-matching"], "lora_rank": 4, "lora_alpha": 1}
    edit_json(folder / "config.json", model_type="xlm-roberta", **rotary, **lora)
    with pytest.raises(ValueError, match="jina: adapter None is not one of separation, text-matching"):
        read_folder(folder, id="jina")
    found = read_folder(folder, id="jina", adapter="text-matching")
    check(found, expected)
    assert found.revision != read_folder(folder, id="jina", adapter="separation").revision
    edit_json(folder / "config.json", lora_adaptations=["separation", "text-matching", "x"])
    with pytest.raises(ValueError, match="2 adapters; lora_adaptations names another number"):
        read_folder(folder, id="jina", adapter="x")


@pytest.mark.parametrize(("name", "changes"), [("qwen3", {}), ("eurobert", {"is_decoder": False})])
def test_jina_embeddings_v5(tmp_path, name, changes):
    folder = shutil.copytree(parity.GOLDEN / name, tmp_path / "jina")
    code = {"AutoModel": "modeling_jina_embeddings_v5.JinaEmbeddingsV5Model"}
    edit_json(folder / "config.json", model_type="jina_embeddings_v5", task_names=["x"], auto_map=code, **changes)
    (folder / "modules.json").write_text('[{"path": "", "type": "custom_st.Transformer", "kwargs": ["task"]}]')
    encoder = lj.load_encoder(folder)
    assert encoder.spec.pooling == "last+normalize"
    expected = lj.load_encoder(parity.GOLDEN / name, pooling="last").encode(["abc"], normalize=True)
    np.testing.assert_allclose(encoder.encode(["abc"]), expected, atol=1e-6)
    edit_json(folder / "config.json", task_names=...)
    with pytest.raises(ValueError, match="custom_st.Transformer is not supported"):
        lj.load_encoder(folder)
