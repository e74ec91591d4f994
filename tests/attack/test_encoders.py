"""Folders that are not checkpoints, names that are not encoders, and encoders used where they cannot work."""

import json
import multiprocessing
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.checkpoints.pickles import convert
from tests.conftest import TINY


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TINY, tmp_path / "encoder")


def loaded(folder):
    """Loads an encoder; fails if that hangs."""
    outcome = Future()

    def load():
        try:
            outcome.set_result(lj.load_encoder(str(folder)))
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=load, daemon=True).start()
    outcome.result(30)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "vocab.txt", "modules.json"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nothing")])
def test_what_is_named_like_a_file_but_is_none(folder, name, make):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises((ValueError, FileNotFoundError), match=f"{name} (is not a file|in )"):
        loaded(folder)


@pytest.mark.parametrize("content", [b"{", b"null", b"3", b'"text"', b"[" * 100_000, b"\xed\xa0\x80", b"1" * 5000])
@pytest.mark.parametrize("name", ["config.json", "modules.json"])
def test_json_of_another_kind(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}( is not JSON| holds a JSON|: )"):
        loaded(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mbrt", "there is no encoder 'mbrt'; did you mean mbert"),
        ("LaBSE", "there is no encoder 'LaBSE'; did you mean labse"),
        ("bundle", "there is no encoder 'bundle'; did you mean bundled"),
        ("a" * 5000, "is neither a folder nor a Hub id: File name too long"),
    ],
)
def test_names(name, message):
    with pytest.raises(FileNotFoundError, match=message) as raised:
        lj.load_encoder(name)
    assert len(str(raised.value)) < 400


def test_an_encoder_says_why_it_does_not_pickle(tiny):
    with pytest.raises(TypeError, match="cannot be pickled or deep-copied, .* load_encoder in each process"):
        pickle.dumps(tiny)


FORK = """
import multiprocessing, sys
import jax
import lsar_jax as lj
encoder = lj.load_encoder(sys.argv[1])
x = encoder.encode(["a", "b"])
center = lj.transforms.fit_center({"de": x})
y = jax.numpy.asarray(x)
identifier = lj.transforms.fit_identifier({"de": x, "en": x + 1})
center.save(sys.argv[2])
sums = {code: lj.Moments.from_embeddings(x + i) for i, code in enumerate(("de", "en"))}
tasks = {
    "encode": lambda: encoder.encode(["a"]),
    "load": lambda: lj.load_encoder(sys.argv[1]),
    "transform": lambda: center(x, "de"),
    "nearest": lambda: lj.retrieval.nearest(y, y),
    "ranks": lambda: lj.retrieval.candidate_ranks(y, y, [[0], [1]]),
    "anisotropy": lambda: lj.geometry.expected_anisotropy(y),
    "identifier": lambda: identifier(y),
    "file": lambda: lj.Transform.load(sys.argv[2]),
    "moments": lambda: lj.Moments.from_embeddings(x),
    "fit": lambda: lj.transforms.fit_lsar(sums),
    "warm up": lambda: encoder.warm_up(max_length=8),
    "mine": lambda: lj.mining.mine(x, x, k=1),
}

def work(task):
    try:
        tasks[task]()
    except RuntimeError as error:
        print(task, error, flush=True)

for task in tasks:
    process = multiprocessing.get_context("fork").Process(target=work, args=(task,))
    process.start()
    process.join(20)
    if process.is_alive():
        print(task, "hangs", flush=True)
        process.kill()
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
def test_a_forked_process_is_told_at_once(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(TINY), str(tmp_path / "t")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    tasks = re.findall('"(.*)": lambda', FORK)
    assert len(tasks) == 12
    for task in tasks:
        assert f"{task} this process was forked from one in which JAX had started its threads" in run.stdout, run.stderr


@pytest.mark.parametrize("name", ["center", "lsar", "cbie", "identifier"])
def test_sources_that_are_no_specs(rng, unchecked, name):
    x = {code: rng.standard_normal((40, 16)).astype(np.float32) for code in ("de", "en")}
    with pytest.raises(ValueError, match="source is 'bundled'; give the spec of the encoder, encoder.spec"):
        getattr(lj.transforms, f"fit_{name}")(x, source="bundled")


@pytest.mark.parametrize("name", ["2_Dense/model.safetensors", "2_Dense/config.json", "1_Pooling/config.json"])
def test_deep_folders_of_modules_are_part_of_the_encoder(name, tmp_path):
    folder = shutil.copytree(TINY.parent / "labse", tmp_path / "deep")
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "parts").mkdir()
    for module in modules[1:]:
        if (folder / module["path"]).exists():
            (folder / module["path"]).rename(folder / "parts" / module["path"])
        module["path"] = f"parts/{module['path']}"
    (folder / "modules.json").write_text(json.dumps(modules))
    before = lj.load_encoder(str(folder)).spec.revision
    path = folder / "parts" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if name.endswith("safetensors") else whole + b"\n")
    assert lj.load_encoder(str(folder)).spec.revision != before
    path.unlink()
    os.mkfifo(path)
    for read in (loaded, lambda folder: convert(str(folder), tmp_path / "converted")):
        with pytest.raises(ValueError, match=f"{path.name} is not a file"):
            read(folder)


def test_folders_that_are_closed_to_us(folder, monkeypatch):
    (folder / "lost+found").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: "lost+found" not in str(path))
    loaded(folder)


def test_moments_of_two_encoders_are_not_mixed(tiny, tmp_path):
    one, two = (tiny.moments(["abc", "de f"], layers=(layer,))[0] for layer in (1, 2))
    assert (one.source.layer, two.source.layer) == (1, 2)
    for call in (
        lambda: one.merge(two),
        lambda: lj.merge_moments({"de": one}, {"en": two}),
        lambda: lj.transforms.fit_lsar({"de": one, "en": two}),
        lambda: lj.save_moments(tmp_path / "m", {"de": one}, source=two.source),
        lambda: lj.transforms.fit_center({"de": one}, source=two.source),
    ):
        with pytest.raises(ValueError, match=r"layer \d, not \d"):
            call()
    # A transform of moments remembers their encoder.
    assert lj.transforms.fit_center({"de": one}).source == one.source
    lj.save_moments(tmp_path / "m", {"de": one})
    moments, source = lj.load_moments(tmp_path / "m")
    assert source == moments["de"].source == one.source
