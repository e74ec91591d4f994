"""Loading is strict: what does not fit is one error before anything is computed."""

import json
import pickle
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.checkpoints.checkpoint import read_folder
from tests import memory


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """A copy of the tiny checkpoint to break."""
    return shutil.copytree(tiny_folder, tmp_path / "checkpoint")


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_one_error_lists_missing_unexpected_and_misshaped(folder):
    def change(tensors):
        del tensors["embeddings.LayerNorm.bias"]
        del tensors["encoder.layer.2.output.dense.weight"]
        tensors["encoder.layer.0.attention.self.query.scale"] = np.ones(3, np.float32)
        tensors["encoder.layer.1.intermediate.dense.weight"] = np.ones((64, 31), np.float32)

    edit_tensors(folder, change)
    with pytest.raises(ValueError, match="do not fit its config") as caught:
        lj.load_encoder(str(folder))
    lines = str(caught.value).splitlines()[1:]
    assert sorted(line.strip() for line in lines) == [
        "mis-shaped: encoder.layer.1.intermediate.dense.weight is [64, 31], the config says [64, 32]",
        "missing: embeddings.LayerNorm.bias",
        "missing: encoder.layer.2.output.dense.weight",
        "unexpected: encoder.layer.0.attention.self.query.scale",
    ]


def test_only_the_blocks_asked_for_are_read(folder):
    # Blocks 2 and 3 hold NaN: reading them would show.
    def change(tensors):
        for name in tensors:
            if name.startswith(("encoder.layer.1.", "encoder.layer.2.")):
                tensors[name] = np.full_like(tensors[name], np.nan)

    expected = lj.load_encoder(str(folder)).encode(["abc", "d"], layers=[1])[0]
    edit_tensors(folder, change)
    encoder = lj.load_encoder(str(folder), layer=1)
    assert len(encoder.model.blocks) == 1
    np.testing.assert_array_equal(encoder.encode(["abc", "d"]), expected)


def test_names_of_older_checkpoints(folder):
    expected = lj.load_encoder(str(folder)).encode("abc")

    def change(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors["bert." + old] = tensors.pop(name)
        tensors["cls.predictions.bias"] = np.zeros(64, np.float32)

    edit_tensors(folder, change)
    np.testing.assert_array_equal(lj.load_encoder(str(folder)).encode("abc"), expected)


def test_sharded_weights(folder):
    expected = lj.load_encoder(str(folder)).encode("abc")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, weight_map = sorted(tensors), {}
    for part, chosen in (("a", names[::2]), ("b", names[1::2])):
        save_file({name: tensors[name] for name in chosen}, folder / f"{part}.safetensors")
        weight_map |= dict.fromkeys(chosen, f"{part}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    np.testing.assert_array_equal(lj.load_encoder(str(folder)).encode("abc"), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_weights_are_widened(folder, dtype):
    import jax.numpy as jnp

    expected = lj.load_encoder(str(folder)).encode("abc")
    edit_tensors(folder, lambda tensors: tensors.update({k: v.astype(jnp.dtype(dtype)) for k, v in tensors.items()}))
    encoder = lj.load_encoder(str(folder))
    assert encoder.model.blocks[0].query.kernel.dtype == np.float32
    np.testing.assert_allclose(encoder.encode("abc"), expected, atol=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "type 'gpt2'; known types are: bert, xlm-roberta, xlm, laser"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is not one of"),
        ({"hidden_size": "wide"}, "lacks whole numbers for hidden_size"),
        ({"num_attention_heads": 5}, "not divisible by 5 heads"),
        ({"vocab_size": 20}, "the tokenizer of .* has the id 56; the model embeds 0 to 19"),
        ({"intermediate_size": 63}, "mis-shaped"),
        ({"layer_norm_eps": None}, "layer_norm_eps is None"),
    ],
)
def test_config_that_is_not_understood(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(str(folder))


def test_files_that_are_missing_or_damaged(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is not JSON"):
        lj.load_encoder(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no config.json"):
        lj.load_encoder(str(folder))


def test_weights_that_are_missing_or_damaged(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match="is not a safetensors file"):
        lj.load_encoder(str(folder))
    weights.rename(folder / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="is a pickle, which can run code and is not read.*lsar-jax convert"):
        lj.load_encoder(str(folder))


def test_tokenizer_that_is_missing_or_damaged(folder):
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(ValueError, match="tokenizer.json is not a tokenizer"):
        lj.load_encoder(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="no tokenizer could be loaded"):
        lj.load_encoder(str(folder))


def test_a_name_that_cannot_be_had(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be downloaded from the Hugging Face Hub"):
        lj.load_encoder("nobody/no-such-encoder")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        lj.load_encoder(str(tmp_path / "nowhere"))


def test_a_hub_id_from_the_hubs_cache(tiny_folder, tmp_path, monkeypatch):
    # Laid out as huggingface_hub keeps a download; nothing else can be had offline.
    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "models--somebody--tiny"
    shutil.copytree(tiny_folder, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for revision in (None, commit):
        encoder = lj.load_encoder("somebody/tiny", revision=revision)
        assert (encoder.spec.id, encoder.spec.revision) == ("somebody/tiny", commit)
    np.testing.assert_array_equal(encoder.encode("abc"), lj.load_encoder(str(tiny_folder)).encode("abc"))
    with pytest.raises(FileNotFoundError, match="run `hf download somebody/tiny --revision v2`"):
        lj.load_encoder("somebody/tiny", revision="v2")


def test_a_tokenizer_of_word_pieces(folder):
    # As mBERT's folder has it: vocab.txt, and no tokenizer.json.
    from tokenizers import Tokenizer

    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    expected = lj.load_encoder(str(folder)).encode(["abc a", "Zz"])
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    np.testing.assert_array_equal(lj.load_encoder(str(folder)).encode(["abc a", "Zz"]), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 4}, "layer is 4; it must be a whole number from 0 to 3 .bert has"),
        ({"layer": "2"}, "layer is '2'; it must be"),
        ({"layer": -1}, "layer is -1; it must be"),
        ({"pooling": "median"}, "pooling 'median' is not one of mean, mean_no_special, cls, max, pooler"),
        ({"dtype": "float16"}, "dtype 'float16' is not one of"),
        ({"dtype": "fast"}, "dtype 'fast' is not one of float32, bfloat16"),
        ({"mesh": jax.make_mesh((1,), ("rows",))}, "the mesh has axes .'rows',., expected"),
        ({"revision": "main"}, "revision 'main' applies to Hub ids only"),
    ],
)
def test_arguments_that_are_refused(tiny_folder, unchecked, arguments, message):
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(str(tiny_folder), **arguments)


def test_spec_names_the_embeddings(tiny_folder):
    spec = lj.load_encoder(str(tiny_folder), layer=2, pooling="max", dtype="bfloat16").spec
    assert (spec.id, spec.layer, spec.pooling, spec.dtype) == ("bert", 2, "max", "bfloat16")
    assert spec.revision == read_folder(tiny_folder, id="x").revision
    assert spec.revision.startswith("sha256:")


def test_the_revision_of_a_folder_covers_config_and_tokenizer(folder):
    before = lj.load_encoder(folder).spec
    edit_config(folder, hidden_act="relu")
    after = lj.load_encoder(folder).spec
    assert not after.same_space(before)
    path = folder / "tokenizer.json"
    path.write_text(
        path.read_text()
        .replace('"lowercase":true', '"lowercase":false')
        .replace('"lowercase": true', '"lowercase": false')
    )
    assert not lj.load_encoder(folder).spec.same_space(after)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "[1]", "holds a JSON list, expected a dict"),
        ("model.safetensors.index.json", "{}", "has no weight_map"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "../b.safetensors"}}', "names files outside its folder"),
    ],
)
def test_json_that_is_damaged(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_weights_that_stand_twice(folder):
    name = "embeddings.LayerNorm.bias"
    edit_tensors(folder, lambda tensors: tensors.update({f"bert.{name}": tensors[name]}))
    with pytest.raises(ValueError, match=f"has these weights twice, under two names: .*{name}"):
        lj.load_encoder(folder)


def test_weights_that_are_not_finite(folder):
    edit_tensors(folder, lambda tensors: tensors["embeddings.LayerNorm.bias"].fill(np.nan))
    with pytest.raises(ValueError, match=r"embeddings.LayerNorm.bias of checkpoint holds NaN"):
        lj.load_encoder(folder)


def test_a_pickle_in_disguise(folder):
    (folder / "model.safetensors").write_bytes(pickle.dumps({"weights": [1.0] * 100}))
    with pytest.raises(ValueError, match="is not a safetensors file.*begins like a torch pickle"):
        lj.load_encoder(folder)
    (folder / "model.safetensors").write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(ValueError, match="is not a safetensors file.*begins like a torch pickle"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"GGUF" + data[4:],
        lambda data: data[:-100],
        lambda data: data + bytes(100),
        lambda data: b"\xff" * 8 + data[8:],
        lambda data: data.replace(b'"F32"', b'"F99"', 1),
        lambda data: data.replace(b'"shape":[64,32]', b'"shape":[99,32]', 1),
    ],
    ids=["empty", "wrong magic", "cut", "too long", "absurd header", "unknown type", "shape beyond its bytes"],
)
def test_a_file_that_is_not_safetensors(folder, damage):
    path = folder / "model.safetensors"
    changed = damage(path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    with pytest.raises(ValueError, match="is not a safetensors file"):
        lj.load_encoder(folder)


def test_weights_that_are_no_floats(folder):
    name = "encoder.layer.0.output.dense.bias"
    edit_tensors(folder, lambda tensors: tensors.update({name: tensors[name].astype(np.int64)}))
    with pytest.raises(ValueError, match=f"not floating-point: {name} is I64"):
        lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 10**15}, "vocabulary is 1000000000000000; it must be a whole number from 1 to 16777216"),
        ({"num_hidden_layers": 10**9}, "blocks is 1000000000; it must be a whole number from 0 to 256"),
        ({"hidden_size": 65536, "num_attention_heads": 64}, "mis-shaped"),
        ({"vocab_size": 1 << 24}, "mis-shaped"),
        ({"num_hidden_layers": True}, "lacks whole numbers for num_hidden_layers"),
        ({"num_hidden_layers": 2}, "unexpected: encoder.layer.2"),
        ({"num_hidden_layers": 4}, "missing: encoder.layer.3"),
        ({"layer_norm_eps": -1.0}, "layer_norm_eps is -1.0"),
    ],
)
def test_absurd_sizes_and_contradictions_end_before_memory_is_taken(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)


def test_a_long_list_of_problems_is_cut(folder):
    edit_config(folder, num_hidden_layers=50)
    with pytest.raises(ValueError, match="and 732 more"):
        lj.load_encoder(folder)


def test_the_parameters_dtype(tiny_folder):
    def dtypes(**arguments):
        model = lj.load_encoder(tiny_folder, **arguments).model
        block = model.blocks[0]
        return [x.dtype.name for x in (model.embeddings.word.embedding, block.query.kernel, block.norm.scale)]

    assert dtypes() == ["float32"] * 3
    assert dtypes(dtype="bfloat16") == ["bfloat16", "bfloat16", "float32"]
    assert dtypes(dtype="bfloat16", param_dtype="float32") == ["float32"] * 3
    assert dtypes(param_dtype="bfloat16") == ["bfloat16", "bfloat16", "float32"]
    assert lj.load_encoder(tiny_folder, param_dtype="bfloat16").spec.dtype == "float32 with bfloat16 parameters"
    # Products in bfloat16 round the weights first: kept in either dtype they are the same numbers.
    half, full = (
        lj.load_encoder(tiny_folder, dtype="bfloat16", param_dtype=kept).encode(["abc", "d e"])
        for kept in ("bfloat16", "float32")
    )
    np.testing.assert_allclose(half, full, atol=0.02)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_peak_memory_of_a_load(tmp_path):
    # Embeddings of 300 MB: a second copy, on the host or of the file's pages, would be seen.
    sizes = {"vocab_size": 200_000, "hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6}
    memory.write_random(tmp_path / "wide", sizes)
    _, peak, tensors = memory.measure(tmp_path / "wide")
    assert tensors > 300e6
    assert peak <= 1.25 * tensors + 300e6


def test_numbers_that_the_dtype_cannot_hold(folder):
    name = "embeddings.LayerNorm.bias"
    edit_tensors(folder, lambda tensors: tensors.update({name: np.full(32, 1e300)}))
    message = f"{name} of checkpoint holds NaN or infinity, or a value too large for float32"
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(folder)
