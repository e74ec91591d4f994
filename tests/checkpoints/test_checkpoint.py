"""Loading is strict: what does not fit is one error before anything is computed."""

import json
import pickle
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.pickles import _convert_folder
from tests.rewriting import edit_json

BIAS = "embeddings.LayerNorm.bias"


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """A copy of the tiny checkpoint to break."""
    return shutil.copytree(tiny_folder, tmp_path / "checkpoint")


@pytest.fixture(scope="module")
def expected(tiny):
    """The embedding of abc."""
    return tiny.encode("abc")


def edit_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_one_error_lists_missing_unexpected_and_misshaped(folder):
    def change(tensors):
        del tensors[BIAS]
        del tensors["encoder.layer.2.output.dense.weight"]
        tensors["encoder.layer.0.attention.self.query.scale"] = np.ones(3, np.float32)
        tensors["encoder.layer.1.intermediate.dense.weight"] = np.ones((64, 31), np.float32)
        tensors["encoder.layer.0.output.dense.bias"] = np.ones(32, np.int64)

    edit_tensors(folder, change)
    with pytest.raises(ValueError, match="do not fit its config") as caught:
        lj.load_encoder(folder)
    assert sorted(line.strip() for line in str(caught.value).splitlines()[1:]) == [
        "mis-shaped: encoder.layer.1.intermediate.dense.weight is [64, 31], the config says [64, 32]",
        f"missing: {BIAS}",
        "missing: encoder.layer.2.output.dense.weight",
        "not floating-point: encoder.layer.0.output.dense.bias is I64",
        "unexpected: encoder.layer.0.attention.self.query.scale",
    ]


def test_names_of_older_checkpoints(folder, expected):
    def change(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors["bert." + old] = tensors.pop(name)
        unused = ("cls.predictions.bias", "bert.embeddings.position_ids", "layer.0.rotary_emb.inv_freq")
        tensors.update({name: np.zeros(64, np.float32) for name in unused})

    edit_tensors(folder, change)
    np.testing.assert_array_equal(lj.load_encoder(folder).encode("abc"), expected)


def test_sharded_weights(folder, expected):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, weight_map = sorted(tensors), {}
    for part, chosen in (("a", names[::2]), ("b", names[1::2])):
        save_file({name: tensors[name] for name in chosen}, folder / f"{part}.safetensors")
        weight_map |= dict.fromkeys(chosen, f"{part}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    np.testing.assert_array_equal(lj.load_encoder(folder).encode("abc"), expected)


def test_shards_beside_the_whole_are_not_read(folder, expected):
    """As in transformers: they may be older."""
    save_file({"a": np.ones(3, np.float32)}, folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part.safetensors"}}')
    np.testing.assert_array_equal(lj.load_encoder(folder).encode("abc"), expected)
    # A link to nothing is a file that was lost.
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("lost")
    with pytest.raises(ValueError, match=r"model.safetensors is not a file; give one"):
        lj.load_encoder(folder)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_weights_are_widened(folder, dtype, expected):
    edit_tensors(folder, lambda tensors: tensors.update({k: v.astype(jnp.dtype(dtype)) for k, v in tensors.items()}))
    encoder = lj.load_encoder(folder)
    assert encoder.model.blocks[0].attention.query.kernel.dtype == np.float32
    np.testing.assert_allclose(encoder.encode("abc"), expected, atol=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"auto_map": {"AutoModel": "some/repository--modeling_x.Bidirectional"}},
            "auto_map says that Bidirectional computes the checkpoint, which is code of its own and is not run",
        ),
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not one of bert, xlm-roberta, xlm, laser"),
        ({"num_attention_heads": 5}, "5 heads of width 6.4 do not fit"),
        # Absurd sizes and contradictions end before memory is taken.
        ({"vocab_size": 10**15}, "vocabulary is 1000000000000000; it must be a whole number from 1 to 16777216"),
        ({"vocab_size": 20}, "the tokenizer of .* has the id 56; the model embeds 0 to 19"),
        ({"vocab_size": 1 << 24}, "mis-shaped"),
        ({"hidden_size": 10**400}, "hidden is 10+; it must be a whole number"),
        ({"num_hidden_layers": 2}, "unexpected: encoder.layer.2"),
        ({"num_hidden_layers": 50}, "and 732 more"),
    ],
)
def test_config_that_is_not_understood(folder, changes, message):
    edit_json(folder / "config.json", **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    "name",
    [
        "ADAPTER_CONFIG.JSON", "adapter_model.safetensors", "pytorch_adapter.bin", "pytorch_lora_weights.bin",
        "my-LoRA.pt", "lora.safetensors",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["", "adapter", "a/b/c/d"])
def test_adapters_are_refused(folder, place, name, tmp_path):
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / name).write_text("{}")
    message = rf"{name}: adapters \(LoRA\) are not supported; load a checkpoint"
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)
    with pytest.raises(ValueError, match=message):
        _convert_folder(folder, tmp_path / "converted")


def test_adapters_are_known_by_their_tensors(folder, tmp_path):
    expected = lj.load_encoder(folder).encode("abc")
    (tmp_path / "flora.bin").touch()
    save_file({"weight": np.ones(3, np.float32)}, folder / "lora-merged.safetensors")
    (folder / "more").symlink_to(tmp_path)
    np.testing.assert_array_equal(lj.load_encoder(folder).encode("abc"), expected)
    save_file({"model.q.lora_A.weight": np.ones(3, np.float32)}, tmp_path / "task.safetensors")
    with pytest.raises(ValueError, match=r"task.safetensors: adapters \(LoRA\) are not supported"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.update({f"bert.{BIAS}": tensors[BIAS]}), f"weights twice, under two names: .*{BIAS}"),
        (lambda tensors: tensors[BIAS].fill(np.nan), f"{BIAS} of checkpoint holds NaN"),
        (lambda tensors: tensors.update({BIAS: np.full(32, 1e300)}), f"{BIAS} .* or a value too large for float32"),
    ],
)
def test_weights_that_cannot_be_used(folder, change, message):
    edit_tensors(folder, change)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("model.safetensors.index.json", "{}", "has no weight_map to files in its folder"),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "../b.safetensors"}}',
            "has no weight_map to files in its",
        ),
        ("tokenizer.json", '{"version": "1.0"}', "tokenizer.json is not a tokenizer"),
    ],
)
def test_files_that_are_damaged(folder, name, text, message):
    (folder / name).write_text(text)
    if "index" in name:
        (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_files_that_are_missing(folder):
    for name, message in (
        ("tokenizer.json", "no tokenizer could be loaded"),
        ("model.safetensors", "is a pickle, which can run code and is not read.*lsar-jax convert"),
        ("config.json", "there is no config.json"),
    ):
        (folder / name).rename(folder / "pytorch_model.bin")
        with pytest.raises(FileNotFoundError, match=message):
            lj.load_encoder(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-9],
        lambda data: data + bytes(100),
        lambda data: b"\xff" * 8 + data[8:],
        lambda data: data.replace(b'"F32"', b'"F99"', 1),
        lambda data: pickle.dumps({"weights": [1.0] * 100}),
    ],
    ids=["empty", "cut", "too long", "absurd header", "unknown type", "pickle"],
)
def test_a_file_that_is_not_safetensors(folder, damage):
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"is not a safetensors file \(see lsar-jax convert\)"):
        lj.load_encoder(folder)


def test_a_tokenizer_of_word_pieces(folder, tiny):
    # As mBERT's folder has it: vocab.txt, and no tokenizer.json.
    vocabulary = tiny.tokenizer.backend.get_vocab()
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    texts = ["abc a", "Zz"]
    np.testing.assert_array_equal(lj.load_encoder(folder).encode(texts), tiny.encode(texts))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 4}, "layer is 4; it must be a whole number from 0 to 3 .bert has"),
        ({"layer": -1}, "layer is -1; it must be"),
        (
            {"pooling": "median"},
            "pooling 'median' is not one of mean, mean_no_special, mean_sqrt_len, weighted_mean, cls, max, last",
        ),
        ({"dtype": "fast"}, "dtype 'fast' is not one of float32, bfloat16"),
        ({"mesh": jax.make_mesh((1,), ("rows",))}, "the mesh has axes .'rows',.; make it with"),
        ({"revision": "main"}, "revision 'main' applies to Hub ids only"),
    ],
)
def test_arguments_that_are_refused(tiny_folder, unchecked, arguments, message):
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(str(tiny_folder), **arguments)


def test_the_revision_of_a_folder_covers_config_and_tokenizer(folder):
    before = lj.load_encoder(folder).spec
    edit_json(folder / "config.json", hidden_act="relu")
    after = lj.load_encoder(folder).spec
    assert not after.same_space(before)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    assert not lj.load_encoder(folder).spec.same_space(after)


def test_the_spec_and_the_parameters_have_the_dtype(tiny_folder):
    def dtypes(**arguments):
        model = lj.load_encoder(tiny_folder, **arguments).model
        block = model.blocks[0]
        leaves = model.embeddings.word.embedding, block.attention.query.kernel, block.feed_norm.scale
        return [leaf.dtype.name for leaf in leaves]

    spec = lj.load_encoder(str(tiny_folder), layer=2, pooling="max", dtype="bfloat16").spec
    assert (spec.id, spec.layer, spec.pooling, spec.dtype) == ("bert", 2, "max", "bfloat16")
    assert dtypes(dtype="bfloat16") == ["bfloat16", "bfloat16", "float32"]
    assert dtypes(dtype="bfloat16", param_dtype="float32") == ["float32"] * 3
    assert dtypes(param_dtype="bfloat16") == ["bfloat16", "bfloat16", "float32"]
    assert lj.load_encoder(tiny_folder, param_dtype="bfloat16").spec.dtype == "float32 with bfloat16 parameters"
    # Products in bfloat16 round the weights first: in either dtype they are the same numbers.
    stored = "bfloat16", "float32"
    encoders = (lj.load_encoder(tiny_folder, dtype="bfloat16", param_dtype=dtype) for dtype in stored)
    half, full = (encoder.encode(["abc", "d e"]) for encoder in encoders)
    np.testing.assert_allclose(half, full, atol=0.02)
