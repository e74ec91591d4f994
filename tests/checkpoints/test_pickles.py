"""Pickles become safetensors folders that load here, and none of their code runs."""

import json
import os
import pickle
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.checkpoints.pickles import convert
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import move_module

torch = need("torch")


def state_of(folder):
    return {name: torch.tensor(value) for name, value in load_file(folder / "model.safetensors").items()}


@pytest.fixture
def pickled(tmp_path):
    """The LaBSE pipeline with its weights, the Dense's too, as torch.save wrote them once."""
    folder = shutil.copytree(GOLDEN / "labse", tmp_path / "pickled")
    state = {f"bert.{name}": tensor for name, tensor in state_of(folder).items()}
    state["bert.embeddings.position_ids"] = torch.arange(40)[None]
    # A head that shares the word embeddings, as masked language models have it.
    state["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"]
    torch.save(state, folder / "pytorch_model.bin")
    torch.save(state_of(folder / "2_Dense"), folder / "2_Dense" / "pytorch_model.bin")
    for path in (folder / "model.safetensors", folder / "2_Dense" / "model.safetensors"):
        path.unlink()
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    return folder


def check_converted(folder, tmp_path):
    """Converts a folder, which then gives the vectors of the checkpoint that was pickled."""
    convert(str(folder), tmp_path / "new")
    ours = lj.load_encoder(tmp_path / "new").encode(TEXTS, prompt="")
    np.testing.assert_array_equal(ours, lj.load_encoder(GOLDEN / "labse").encode(TEXTS))


@pytest.fixture
def laser(tmp_path, request):
    """LASER's own files, in torch's first file format."""
    name = request.param
    version, folder = int(name[-1]), tmp_path / "files"
    folder.mkdir()
    dictionary = json.loads((GOLDEN / name / "dictionary.json").read_text())
    config = json.loads((GOLDEN / name / "config.json").read_text())
    sizes = {"vocab_size": "num_embeddings", "embedding_size": "embed_dim", "num_hidden_layers": "num_layers"}
    params = {sizes.get(name, name): size for name, size in config.items() if name != "model_type"}
    params |= {"padding_idx": 1, "bidirectional": True, "left_pad": True, "padding_value": 0.0}
    path = folder / f"laser{version}.pt"
    state = {"params": params, "model": state_of(GOLDEN / name), "dictionary": dictionary}
    torch.save(state, path, _use_new_zipfile_serialization=False)
    if version == 2:
        shutil.copy(GOLDEN / name / "sentencepiece.model", folder / "laser2.spm")
    else:
        shutil.copy(GOLDEN / name / "bpe.codes", folder / "93langs.fcodes")
        shutil.copy(GOLDEN / name / "bpe.vocab", folder / "93langs.fvocab")
    return path


def test_a_folder(pickled, tmp_path, printed):
    with pytest.raises(FileNotFoundError, match="lsar-jax convert"):
        lj.load_encoder(pickled)
    written = printed(main, ["convert", pickled, tmp_path / "new"]).splitlines()
    names = ("2_Dense/model.safetensors", "model.safetensors")
    assert [line.split(": ")[0] for line in written] == [f"wrote {tmp_path / 'new' / name}" for name in names]
    encoder = lj.load_encoder(tmp_path / "new")
    assert encoder.prompt == "query: "
    golden = lj.load_encoder(GOLDEN / "labse")
    np.testing.assert_array_equal(encoder.encode(TEXTS), golden.encode(TEXTS, prompt="query: "))
    assert not list((tmp_path / "new").glob("**/*.bin"))
    assert lj.load_encoder(tmp_path / "new", pooling="pooler").spec.pooling == "pooler"
    names = set(load_file(tmp_path / "new" / "model.safetensors"))
    assert not any("position_ids" in name or name.startswith("cls.") for name in names)


def test_shards(pickled, tmp_path):
    state = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    (pickled / "pytorch_model.bin").unlink()
    names, weight_map = sorted(state), {}
    for part in range(2):
        file = f"pytorch_model-{part}.bin"
        torch.save({name: state[name] for name in names[part::2]}, pickled / file)
        weight_map |= dict.fromkeys(names[part::2], file)
    index = pickled / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    check_converted(pickled, tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "../outside.bin"}}))
    with pytest.raises(ValueError, match="has no weight_map to files in its folder"):
        convert(str(pickled), tmp_path / "other")


@pytest.mark.parametrize("laser", ["laser1", "laser2"], indirect=True)
def test_laser(laser, tmp_path):
    convert(str(laser), tmp_path / "new")
    ours, golden = lj.load_encoder(tmp_path / "new"), lj.load_encoder(GOLDEN / laser.stem)
    np.testing.assert_array_equal(ours.encode(TEXTS), golden.encode(TEXTS))


class Evil:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


@pytest.mark.parametrize("save", [torch.save, lambda state, path: path.write_bytes(pickle.dumps(state))])
def test_code_in_a_pickle_is_not_run(pickled, tmp_path, save):
    trace = tmp_path / "was_here"
    save({"weight": Evil(trace)}, pickled / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"is damaged or holds more than weights, and was not opened: \w+") as refused:
        convert(str(pickled), tmp_path / "new")
    assert "trust" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pickled"]


def test_errors_are_one_line(pickled, tmp_path, refused):
    new, other = tmp_path / "new", tmp_path / "other"
    new.mkdir()
    (new / "kept").write_text("mine")
    assert f"error: {new} already exists and will not be overwritten" in refused(main, ["convert", pickled, new])
    (pickled / "config.json").write_text('{"model_type": "gpt2"}')
    assert "is not one of bert, xlm-roberta, xlm, laser" in refused(main, ["convert", pickled, other])
    assert "cannot be downloaded" in refused(main, ["convert", "nobody/no-such-encoder", other])


def test_an_older_torch_is_refused(pickled, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ImportError, match=r"torch 2.9.1\+cpu is installed; opening a pickle requires 2.10 or newer"):
        convert(str(pickled), tmp_path / "new")


def test_a_transformer_in_a_folder_of_its_own(pickled, tmp_path):
    names = ("config.json", "pytorch_model.bin", "tokenizer.json", "tokenizer_config.json")
    move_module(pickled, "0_Transformer", *names)
    with pytest.raises(FileNotFoundError, match=f"lsar-jax convert {pickled} NEW_FOLDER"):
        lj.load_encoder(pickled)
    check_converted(pickled, tmp_path)


@pytest.mark.parametrize("laser", ["laser2"], indirect=True)
@pytest.mark.parametrize(
    "change",
    [
        lambda state: {"cfg": 1, "model": {}},
        lambda state: [1, 2],
        lambda state: state | {"params": [1]},
        lambda state: state | {"params": state["params"] | {"bidirectional": False}},
    ],
)
def test_a_pt_file_that_is_not_lasers(laser, tmp_path, change):
    torch.save(change(torch.load(laser, weights_only=True)), laser)
    with pytest.raises(ValueError, match="is not LASER's encoder, which has a model, a dictionary, and params"):
        convert(str(laser), tmp_path / "new")
