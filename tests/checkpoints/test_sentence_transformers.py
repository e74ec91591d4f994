"""sentence-transformers folders: what follows the blocks is done as their authors meant it."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.models.projection import TORCH_NAMES
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json, move_module

NAMES = {
    "Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize",
    "LayerNorm": "4_LayerNorm", "Dropout": "5_Dropout",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDEN / "labse", tmp_path / "labse")


def write_modules(folder, kinds):
    modules = [
        {"name": str(place), "type": f"sentence_transformers.models.{kind}", "path": NAMES.get(kind, "9_Other")}
        for place, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))


def test_labse_comes_out_as_sentence_transformers_has_it():
    encoder = lj.load_encoder(GOLDEN / "labse")
    assert encoder.spec.pooling == "cls+dense+normalize"
    assert encoder.dim == 24
    ours, theirs = encoder.encode(TEXTS), np.load(GOLDEN / "labse" / "golden.npy")
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_modules_count_in_their_order(folder, bias):
    write_modules(folder, ["Transformer", "Pooling", "Normalize", "Dense"])
    path = folder / "2_Dense" / "model.safetensors"
    dense = load_file(path)
    edit_json(folder / DENSE, bias=bias)
    save_file(dense if bias else {"linear.weight": dense["linear.weight"]}, path)
    encoder = lj.load_encoder(folder)
    assert encoder.spec.pooling == "cls+normalize+dense"
    x = lj.load_encoder(folder, pooling="cls").encode(TEXTS)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    expected = np.tanh(unit @ dense["linear.weight"].T + bias * dense["linear.bias"])
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-6)


def test_what_follows_belongs_to_the_last_block(folder):
    inner = lj.load_encoder(folder, layer=2)
    assert (inner.spec.pooling, inner.dim) == ("cls", 32)
    whole = lj.load_encoder(folder, pooling="cls+dense+normalize")
    assert whole.encode(TEXTS, layers=(3,)).shape == (1, len(TEXTS), 24)
    message = r"'cls\+dense\+normalize' belongs to layer 3, .* load the encoder with pooling='cls'"
    with pytest.raises(ValueError, match=message):
        whole.encode(TEXTS, layers=(2, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 2, "pooling": "cls+dense+normalize"},
         r"'cls\+dense\+normalize' belongs to the last block, 3, but this is layer 2; use layer=3 or pooling='cls'"),
        ({"layer": 2, "pooling": "pooler"}, "'pooler' belongs to the last block, 3, .* use layer=3 or pooling='cls'"),
        ({"name": "xlm", "pooling": "pooler"}, "xlm has no pooler of width 32; choose pooling='cls'"),
    ],
)  # fmt: skip
def test_a_pooling_that_the_layer_lacks(arguments, message):
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(GOLDEN / arguments.pop("name", "labse"), **arguments)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("Transformer Pooling WordWeights", "-> WordWeights is not supported; supported modules are Transformer -> P"),
        ("Transformer Dense Pooling", "Transformer -> Dense -> Pooling is not supported"),
        ("Transformer", "Transformer is not supported; supported modules are Transformer -> Pooling"),
        ("Transformer Pooling Pooling", "Pooling -> Pooling is not supported"),
    ],
)
def test_a_pipeline_that_is_not_known(folder, kinds, message):
    write_modules(folder, kinds.split())
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)
    # Its blocks may be used by whoever says so.
    assert lj.load_encoder(folder, pooling="mean").spec.pooling == "mean"


def test_a_pipeline_that_was_lost(folder):
    (folder / "modules.json").unlink()
    with pytest.raises(ValueError, match="has .*, but no modules.json, which says what it belongs to; set pooling to"):
        lj.load_encoder(folder)
    assert lj.load_encoder(folder, pooling="cls").spec.pooling == "cls"


@pytest.mark.parametrize("name", ["labse", "sentence-transformers/LaBSE"])
def test_a_preset_has_the_pooling_that_was_published(folder, name, monkeypatch):
    """As where another program has downloaded the transformer alone."""
    monkeypatch.setattr("lsar_jax.encoders.load.locate", lambda id, revision: (folder, id, "e34fab6"))
    assert lj.load_encoder(name).spec.pooling == "cls+dense+normalize"
    for path in [folder / "modules.json", *folder.glob("*sentence_*"), *folder.glob("[0-9]_*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for layer in (None, 2):
        with pytest.raises(ValueError, match=r"published with the pooling cls\+dense\+normalize, and .* it is mean"):
            lj.load_encoder(name, layer=layer)
    assert lj.load_encoder(name, pooling="mean").spec.pooling == "mean"


def test_code_of_the_checkpoint_is_never_run(folder):
    path = folder / "modules.json"
    path.write_text(path.read_text().replace("sentence_transformers.base.modules.dense.", "modeling_custom."))
    (folder / "modeling_custom.py").write_text("raise SystemExit('run')")
    with pytest.raises(ValueError, match="modeling_custom.Dense -> Normalize is not supported"):
        lj.load_encoder(folder)


POOLING, DENSE, CONFIG = "1_Pooling/config.json", "2_Dense/config.json", "config.json"
SETTINGS, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
OTHER_STATE = {"modality_config": {"text": {"method_output_name": "pooler_output"}}}


@pytest.mark.parametrize(
    ("path", "changes", "message"),
    [
        (POOLING, {"pooling_mode": "mode"}, "the pooling mode is not supported"),
        (POOLING, {"pooling_mode": []}, "the pooling without a mode is not supported"),
        (POOLING, {"include_prompt": "no"}, "include_prompt is 'no'; it must be True or False"),
        (PROMPTS, {"truncate_dim": 0}, "truncate_dim is 0; it must be a whole number from 1"),
        (PROMPTS, {"truncate_dim": 25}, r"dim is 25; it must be a whole number from 1 to 24 \(the width of the embedd"),
        (PROMPTS, {"model_type": "SparseEncoder"}, "model_type is 'SparseEncoder'; only 'SentenceTransformer' is supp"),
        (PROMPTS, {"epochs": 1}, "epochs is not known; known are .*; remove it if it changes no vector"),
        (POOLING, {"pooling_mode_first": False}, "pooling_mode_first is not known"),
        (DENSE, {"dropout": 0.1}, "dropout is not known; known are activation_function, bias"),
        (SETTINGS, {"query_expansion": {"length": 8}}, "query_expansion is .*; only None is supported"),
        (SETTINGS, {"transformer_task": "fill-mask"}, "transformer_task is 'fill-mask'; only 'feature-extraction' is"),
        (SETTINGS, {"module_output_name": "sentence_embedding"}, "only 'token_embeddings' is supported"),
        (SETTINGS, {"modality_config": {"image": {}}}, "modality_config is .*; it needs text or message"),
        (SETTINGS, {"modality_config": ["text"]}, "modality_config is .*; it must map modalities to settings"),
        (SETTINGS, {"config_args": {"num_hidden_layers": 2}}, "config_args is {'num_hidden_layers': 2}, which is not"),
        (SETTINGS, {"model_kwargs": {"hidden_act": "relu"}}, "model_kwargs is {'hidden_act': 'relu'}, which is not"),
        (SETTINGS, OTHER_STATE, "method_output_name is 'pooler_output'; only 'last_hidden_state' is supported"),
        (SETTINGS, {"max_seq_length": 2}, "max_length is 2; it must be a whole number from 3 to"),
        (
            DENSE,
            {"activation_function": "torch.nn.modules.activation.Mish"},
            "'torch.nn.Mish' is not one of torch.nn.T",
        ),
        (DENSE, {"activation_function": "GELU"}, "activation_function 'GELU' is not one of"),
        (DENSE, {"use_residual": True}, "use_residual is True; only False is supported"),
        (DENSE, {"module_input_name": "token_embeddings"}, "module_input_name is 'token_embeddings'"),
        (DENSE, {"in_features": 31}, "the weights have shapes .* by the config they should be"),
        (CONFIG, {"hidden_act": ["gelu"]}, "hidden_act .'gelu'. is not one of"),
        (PROMPTS, {"default_prompt_name": "none"}, "default_prompt_name 'none' is not one of "),
        (PROMPTS, {"prompts": {"query": 1}}, "it must map names to strings"),
    ],
)
def test_configs_that_are_not_understood(folder, path, changes, message):
    edit_json(folder / path, **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_settings_that_change_no_vector(folder):
    expected = lj.load_encoder(folder).encode(TEXTS)
    harmless = {"attn_implementation": "sdpa", "dtype": "float16", "trust_remote_code": True, "use_cache": False}
    more = harmless | {"device_map": "auto"}
    edit_json(folder / SETTINGS, config_args=harmless, model_kwargs=more, unpad_inputs=True)
    edit_json(folder / PROMPTS, model_type="SentenceTransformer", similarity_fn_name="dot", requirements={})
    edit_json(folder / "sentence_roberta_config.json", do_lower_case=True)  # sentence_bert_config.json comes first
    np.testing.assert_array_equal(lj.load_encoder(folder).encode(TEXTS), expected)


MODULE = {"type": "sentence_transformers.models.Transformer", "path": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"idx": 0}]', "is not a list of modules"),
        ("{}", "holds a JSON dict, expected a list"),
        *((json.dumps([MODULE | {"path": path}]), "modules.json names a path outside its folder")
          for path in ("../other", "/etc", "1_Pooling/../../other")),
    ],
)  # fmt: skip
def test_modules_that_are_damaged(folder, text, message):
    (folder / "modules.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_a_dense_that_is_a_pickle_or_of_another_width(folder):
    edit_json(folder / DENSE, in_features=16)
    path = folder / "2_Dense" / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"linear.weight": np.ascontiguousarray(tensors["linear.weight"][:, :16])}, path)
    with pytest.raises(ValueError, match="a dense layer of labse takes width 16, its input has width 32"):
        lj.load_encoder(folder)
    path.rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="pytorch_model.bin is a pickle.*lsar-jax convert .*labse NEW_FOLDER"):
        lj.load_encoder(folder)


@pytest.mark.parametrize("name", TORCH_NAMES.values())
def test_activations_of_a_dense_are_those_of_torch(folder, name):
    torch = need("torch")
    write_modules(folder, ["Transformer", "Pooling", "Dense"])
    edit_json(folder / DENSE, activation_function=name)
    weights = load_file(folder / "2_Dense" / "model.safetensors")
    x = lj.load_encoder(folder, pooling="cls").encode(TEXTS) @ weights["linear.weight"].T + weights["linear.bias"]
    expected = getattr(torch.nn, name.rpartition(".")[2])()(torch.tensor(x)).numpy()
    np.testing.assert_allclose(lj.load_encoder(folder).encode(TEXTS), expected, atol=1e-5)


def write_norm(folder, rng, width=32):
    (folder / "4_LayerNorm").mkdir(exist_ok=True)
    weight, bias = rng.standard_normal((2, width)).astype(np.float32)
    save_file({"norm.weight": weight, "norm.bias": bias}, folder / "4_LayerNorm" / "model.safetensors")
    (folder / "4_LayerNorm" / "config.json").write_text(json.dumps({"dimension": width}))


def set_pooling(folder, **config):
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 32, **config}))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"pooling_mode": "weightedmean"}, "weighted_mean"),
        ({"pooling_mode": "lasttoken", "include_prompt": False}, "last"),
        ({"pooling_mode": "weightedmean", "include_prompt": False}, "weighted_mean"),
        ({"pooling_mode": "mean", "include_prompt": False}, "mean"),
        ({"pooling_mode": "cls", "include_prompt": False}, "cls"),
        ({"pooling_mode": ["mean", "cls"]}, "mean+cls"),
        ({"pooling_mode": "mean_sqrt_len_tokens", "include_prompt": False}, "mean_sqrt_len"),
        ({"pooling_mode_mean_sqrt_len_tokens": True, "pooling_mode_mean_tokens": True}, "mean+mean_sqrt_len"),
        ({"pooling_mode_cls_token": False}, "mean"),
        ({}, "mean"),
        ({"pooling_mode": ["lasttoken", "max", "weightedmean"], "include_prompt": False}, "last+max+weighted_mean"),
        # Older versions join them in an order of their own.
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
         "cls+mean+last"),
    ],
)  # fmt: skip
def test_poolings_are_those_of_sentence_transformers(folder, config, name, tmp_path, rng):
    from_pretrained = need("sentence_transformers").SentenceTransformer
    width = 32 * len(name.split("+"))
    set_pooling(folder, **config)
    edit_json(folder / "config_sentence_transformers.json", prompts={"query": "a dog: "}, default_prompt_name=None)
    write_modules(folder, ["Transformer", "Pooling", "Dropout", "LayerNorm", "Normalize"])
    write_norm(folder, rng, width)
    (folder / NAMES["Dropout"]).mkdir()
    edit_json(folder / NAMES["Dropout"] / "config.json", dropout=0.5)
    # Only a special token that is declared is taken off the end of a prompt there.
    edit_json(folder / "tokenizer_config.json", sep_token="[SEP]")
    encoder = lj.load_encoder(folder)
    assert (encoder.spec.pooling, encoder.dim) == (f"{name}+layer_norm+normalize", width)
    encoder.to_sentence_transformers(tmp_path / "written")
    for place in (folder, tmp_path / "written"):
        theirs, ours = from_pretrained(str(place), device="cpu"), lj.load_encoder(place)
        for prompt in ("", "a dog: "):
            expected = theirs.encode(TEXTS, prompt=prompt)
            np.testing.assert_allclose(encoder.encode(TEXTS, prompt=prompt), expected, atol=1e-5)
            np.testing.assert_array_equal(ours.encode(TEXTS, prompt=prompt), encoder.encode(TEXTS, prompt=prompt))
    # Whether the prompt counts belongs to the checkpoint, and so to its revision, whatever the pooling is.
    given = lj.load_encoder(folder, pooling=name)
    assert given.include_prompt == config.get("include_prompt", True)
    assert given.encode(TEXTS, layers=(1, 3)).shape == (2, len(TEXTS), width)


def test_the_cut_of_a_checkpoint(folder, tmp_path):
    from_pretrained = need("sentence_transformers").SentenceTransformer
    edit_json(folder / PROMPTS, truncate_dim=7)
    encoder = lj.load_encoder(folder)
    assert (encoder.spec.pooling, encoder.dim, encoder.spec.dim) == ("cls+dense+normalize+truncate", 7, None)
    expected = from_pretrained(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)
    encoder.to_sentence_transformers(tmp_path / "written")
    theirs = from_pretrained(str(tmp_path / "written"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), theirs, atol=1e-5)
    again = lj.load_encoder(folder, dim=3)
    assert (again.dim, again.spec.dim) == (3, 3)


def test_the_transformer_in_a_folder_of_its_own(folder):
    expected = lj.load_encoder(folder).encode(TEXTS)
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    move_module(folder, "0_Transformer", *names)
    (folder / "config.json").write_text('{"__version__": "0.2.6"}')  # as the first versions had it
    encoder = lj.load_encoder(folder)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    edit_json(folder / "0_Transformer" / "config.json", layer_norm_eps=1e-6)
    assert not lj.load_encoder(folder).spec.same_space(encoder.spec)


def test_prompts_of_the_checkpoint(folder):
    path = folder / "config_sentence_transformers.json"
    edit_json(path, prompts={"query": "q ", "passage": "p "}, default_prompt_name="query")
    encoder = lj.load_encoder(folder)
    assert encoder.prompts == {"query": "q ", "passage": "p "}
    np.testing.assert_array_equal(encoder.encode("abc"), encoder.encode("q abc", prompt=""))
    passage = encoder.encode("abc", prompt=encoder.prompts["passage"])
    np.testing.assert_array_equal(passage, encoder.encode("p abc", prompt=""))
    # They are known without the rest of the pipeline.
    write_modules(folder, ["Transformer", "Pooling", "WordWeights"])
    assert lj.load_encoder(folder, pooling="mean").prompt == "q "


def test_a_tokenizer_file_that_pads_and_cuts(folder):
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["padding"] = {"strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": None}
    settings["padding"] |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    settings["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(settings))
    encoder = lj.load_encoder(folder, pooling="mean_no_special")
    assert encoder.tokenizer.specials == (1, 1)
    expected = lj.load_encoder(GOLDEN / "labse", pooling="mean_no_special").encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)


def test_the_length_goes_before_the_tokenizers_own(folder):
    # The tokenizer says 20, the positions are 40.
    for given, length in ((None, 20), (10, 10), (30, 30), (99, 40)):
        edit_json(folder / "sentence_bert_config.json", max_seq_length=given)
        encoder = lj.load_encoder(folder)
        assert encoder.tokenizer.max_length == length
    assert encoder.encode_with_report("a" * 50)[1].tokens == 40
