"""sentence-transformers folders: what follows the blocks is done as their authors meant it."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from tests.parity import GOLDEN, TEXTS

NAMES = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize"}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDEN / "labse", tmp_path / "labse")


def write_modules(folder, kinds):
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": NAMES.get(kind, "9_Other")} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))


def move_transformer(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).rename(folder / "0_Transformer" / name)


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_labse_comes_out_as_sentence_transformers_has_it():
    encoder = lj.load_encoder(GOLDEN / "labse")
    assert encoder.spec.pooling == "cls+dense+normalize"
    assert encoder.dim == 24
    ours, theirs = encoder.encode(TEXTS), np.load(GOLDEN / "labse" / "golden.npy")
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (["Transformer", "Pooling"], "cls"),
        (["Transformer", "Pooling", "Normalize"], "cls+normalize"),
        (["Transformer", "Pooling", "Dense"], "cls+dense"),
        (["Transformer", "Pooling", "Normalize", "Dense"], "cls+normalize+dense"),
    ],
)
def test_each_module_counts_in_its_order(folder, kinds, name):
    write_modules(folder, kinds)
    encoder = lj.load_encoder(folder)
    assert encoder.spec.pooling == name
    x = lj.load_encoder(folder, pooling="cls").encode(TEXTS)
    dense = load_file(folder / "2_Dense" / "model.safetensors")
    for kind in kinds[2:]:
        if kind == "Dense":
            x = np.tanh(x @ dense["linear.weight"].T + dense["linear.bias"])
        else:
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), x, atol=1e-6)


def test_what_follows_belongs_to_the_last_block(folder):
    inner = lj.load_encoder(folder, layer=2)
    assert (inner.spec.pooling, inner.dim) == ("cls", 32)
    with pytest.raises(
        ValueError, match=r"'cls\+dense\+normalize' belongs to the last block, 3, but this is layer 2; use layer=3"
    ):
        lj.load_encoder(folder, layer=2, pooling="cls+dense+normalize")
    with pytest.raises(ValueError, match="the pooler belongs to the last block, 3, .* use layer=3"):
        lj.load_encoder(folder, layer=2, pooling="pooler")
    whole = lj.load_encoder(folder, pooling="cls+dense+normalize")
    with pytest.raises(
        ValueError,
        match=r"'cls\+dense\+normalize' belongs to layer 3, .* load the encoder with pooling='cls'",
    ):
        whole.encode(TEXTS, layers=(2, 3))
    assert whole.encode(TEXTS, layers=(3,)).shape == (1, len(TEXTS), 24)


def test_the_pooler_of_an_architecture_without_one():
    with pytest.raises(ValueError, match="xlm has no pooler; choose pooling='cls'"):
        lj.load_encoder(GOLDEN / "xlm", pooling="pooler")


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (
            ["Transformer", "Pooling", "WordWeights"],
            "the module 'WordWeights' is not supported; supported modules are Transformer",
        ),
        (["Transformer", "LSTM", "Pooling"], "the module 'LSTM' is not supported"),
        (["Transformer", "Dense", "Pooling"], "Transformer -> Dense -> Pooling is not Transformer -> Pooling, then"),
        (["Pooling"], "Pooling is not Transformer -> Pooling"),
        (["Transformer"], "Transformer is not Transformer -> Pooling"),
        (["Transformer", "Pooling", "Pooling"], "is not Transformer -> Pooling"),
    ],
)
def test_a_pipeline_that_is_not_known(folder, kinds, message):
    write_modules(folder, kinds)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)
    # Its blocks may be used by whoever says so.
    assert lj.load_encoder(folder, pooling="mean").spec.pooling == "mean"


def test_code_of_the_checkpoint_is_never_run(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "modeling_custom.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "modeling_custom.py").write_text("raise SystemExit('run')")
    with pytest.raises(ValueError, match="the module 'modeling_custom.Dense' is not supported"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling_mode": "lasttoken"}, "the pooling lasttoken is not supported"),
        ({"pooling_mode": ["mean", "cls"]}, "the pooling mean and cls is not supported"),
        ({"include_prompt": False}, "include_prompt is False; only true is supported"),
    ],
)
def test_a_pooling_that_is_not_known(folder, changes, message):
    edit(folder / "1_Pooling" / "config.json", **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_the_flags_of_older_versions(folder):
    write_modules(folder, ["Transformer", "Pooling"])
    flags = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    assert lj.load_encoder(folder).spec.pooling == "max"


def test_states_that_are_not_the_last_hidden_ones(folder):
    edit(folder / "sentence_bert_config.json", modality_config={"text": {"method_output_name": "pooler_output"}})
    with pytest.raises(ValueError, match="it pools 'pooler_output'; only 'last_hidden_state' is supported"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"activation_function": "torch.nn.modules.activation.Mish"},
            "Dense activation 'torch.nn.modules.activation.Mish' is not one of",
        ),
        ({"activation_function": "os.system"}, "the Dense activation 'os.system' is not one of"),
        ({"use_residual": True}, "use_residual is True; only False is supported"),
        ({"module_input_name": "token_embeddings"}, "module_input_name is 'token_embeddings'"),
        ({"in_features": 31}, "the weights have shapes .* by the config they should be"),
        ({"bias": False}, "the weights have shapes .* by the config they should be"),
    ],
)
def test_a_dense_that_is_not_understood(folder, changes, message):
    edit(folder / "2_Dense" / "config.json", **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_a_dense_without_bias_or_activation(folder):
    write_modules(folder, ["Transformer", "Pooling", "Dense"])
    edit(folder / "2_Dense" / "config.json", bias=False, activation_function="torch.nn.modules.linear.Identity")
    path = folder / "2_Dense" / "model.safetensors"
    weight = load_file(path)["linear.weight"]
    save_file({"linear.weight": weight}, path)
    expected = lj.load_encoder(folder, pooling="cls").encode(TEXTS) @ weight.T
    np.testing.assert_allclose(lj.load_encoder(folder).encode(TEXTS), expected, atol=1e-5)


def test_a_dense_that_is_a_pickle(folder):
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="pytorch_model.bin is a pickle.*lsar-jax convert .*labse NEW_FOLDER"):
        lj.load_encoder(folder)


@pytest.mark.parametrize("path", ["../other", "/etc", "1_Pooling/../../other"])
def test_a_path_that_leaves_the_folder(folder, path):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="modules.json names a path outside its folder"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"idx": 0}]', "is not a list of modules"),
        ("[1]", "is not a list of modules"),
        ("{}", "holds a JSON dict, expected a list"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_modules_that_are_damaged(folder, text, message):
    (folder / "modules.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_the_length_limit(folder):
    assert lj.load_encoder(folder).encode_with_report("a" * 30)[1].tokens == 20
    edit(folder / "sentence_bert_config.json", max_seq_length=10)
    assert lj.load_encoder(folder).encode_with_report("a" * 30)[1].tokens == 10


def test_the_transformer_in_a_folder_of_its_own(folder):
    expected = lj.load_encoder(folder).encode(TEXTS)
    move_transformer(folder)
    encoder = lj.load_encoder(folder)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    edit(folder / "0_Transformer" / "config.json", layer_norm_eps=1e-6)
    assert not lj.load_encoder(folder).spec.same_space(encoder.spec)


def test_lower_case(folder):
    edit(folder / "sentence_bert_config.json", do_lower_case=True)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    encoder = lj.load_encoder(folder)
    np.testing.assert_array_equal(encoder.encode("AbC"), encoder.encode("abc"))


def test_prompts_of_the_checkpoint(folder):
    path = folder / "config_sentence_transformers.json"
    edit(path, prompts={"query": "q ", "passage": "p "}, default_prompt_name="query")
    encoder = lj.load_encoder(folder)
    assert encoder.prompts == {"query": "q ", "passage": "p "}
    np.testing.assert_array_equal(encoder.encode("abc"), encoder.encode("q abc", prompt=""))
    np.testing.assert_array_equal(
        encoder.encode("abc", prompt=encoder.prompts["passage"]), encoder.encode("p abc", prompt="")
    )
    edit(path, default_prompt_name="none")
    with pytest.raises(ValueError, match="default_prompt_name is 'none'; the prompts are query, passage"):
        lj.load_encoder(folder)
    edit(path, prompts={"query": 1})
    with pytest.raises(ValueError, match="it must map names to strings"):
        lj.load_encoder(folder)


def test_widths_that_do_not_follow_each_other(folder):
    edit(folder / "2_Dense" / "config.json", in_features=16)
    path = folder / "2_Dense" / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"linear.weight": np.ascontiguousarray(tensors["linear.weight"][:, :16])}, path)
    with pytest.raises(ValueError, match="a dense layer of labse takes width 16, but its input has width 32"):
        lj.load_encoder(folder)


def test_a_tokenizer_file_that_pads_and_cuts(folder):
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["padding"] = {
        "strategy": {"Fixed": 32},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    settings["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(settings))
    encoder = lj.load_encoder(folder, pooling="mean_no_special")
    assert encoder.tokenizer.specials == (1, 1)
    expected = lj.load_encoder(GOLDEN / "labse", pooling="mean_no_special").encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)


def test_a_limit_without_room_for_text(folder):
    edit(folder / "sentence_bert_config.json", max_seq_length=2)
    with pytest.raises(ValueError, match="takes 2 tokens, but the special tokens alone are 2"):
        lj.load_encoder(folder)


def test_the_first_versions_had_a_config_of_their_own(folder):
    # A version at the root, the transformer in its folder.
    expected = lj.load_encoder(folder).encode(TEXTS)
    move_transformer(folder)
    (folder / "config.json").write_text('{"__version__": "0.2.6"}')
    np.testing.assert_array_equal(lj.load_encoder(folder).encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("1_Pooling", {"embedding_dimension": 99}, "the Pooling takes width 99, but the blocks output width 32"),
        ("1_Pooling", {"pooling_mode": {}}, "the pooling .* is not supported"),
        ("3_Normalize", {"module_input_name": "token_embeddings"}, "module_input_name is 'token_embeddings'; only"),
        (".", {"model_type": ["bert"]}, "the checkpoint is of type .'bert'.; known types are"),
        (".", {"hidden_act": ["gelu"]}, "hidden_act .'gelu'. is not one of"),
    ],
)
def test_what_contradicts_itself(folder, part, changes, message):
    edit(folder / part / "config.json", **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


@pytest.mark.parametrize("modality", [[1], {"text": 5}, None])
def test_a_modality_of_another_form_is_not_text_that_we_know(folder, modality):
    edit(folder / "sentence_bert_config.json", modality_config=modality)
    assert lj.load_encoder(folder).spec.pooling == "cls+dense+normalize"


def test_prompts_are_known_without_the_pipeline(folder):
    edit(folder / "config_sentence_transformers.json", prompts={"query": "q "}, default_prompt_name="query")
    write_modules(folder, ["Transformer", "Pooling", "WordWeights"])
    assert lj.load_encoder(folder, pooling="mean").prompt == "q "


def test_the_length_goes_before_the_tokenizers_own(folder):
    # The tokenizer says 20, the positions are 40.
    edit(folder / "sentence_bert_config.json", max_seq_length=30)
    assert lj.load_encoder(folder).tokenizer.max_length == 30
    edit(folder / "sentence_bert_config.json", max_seq_length=99)
    assert lj.load_encoder(folder).tokenizer.max_length == 40
