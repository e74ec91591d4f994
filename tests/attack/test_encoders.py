"""Folders that are not checkpoints, names that are not encoders, and encoders used where they cannot work."""

import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.checkpoints.convert import convert
from tests.attack.damage import truncate
from tests.conftest import TINY


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TINY, tmp_path / "encoder")


def loaded(folder, seconds=30):
    """Loads an encoder; fails if that hangs."""
    outcome = []

    def load():
        try:
            lj.load_encoder(str(folder))
        except Exception as error:
            outcome.append(error)
        else:
            outcome.append(None)

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, "loading hangs"
    if outcome[0] is not None:
        raise outcome[0]


FILES = ("model.safetensors", "config.json", "tokenizer.json", "vocab.txt", "modules.json", "tokenizer_config.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nothing")])
def test_what_is_named_like_a_file_but_is_none(folder, name, make):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises((ValueError, FileNotFoundError), match=f"{name} (is not a file|in )"):
        loaded(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
def test_truncated_files(folder, name, rng):
    whole = (folder / name).read_bytes()
    for _ in range(8):
        (folder / name).write_bytes(whole)
        truncate(folder / name, rng)
        with pytest.raises((ValueError, FileNotFoundError), match=name):
            loaded(folder)


@pytest.mark.parametrize(
    "content", ["[]", "{", "null", "3", '"text"', "[" * 100_000, "\ud800".encode("utf-8", "surrogatepass")]
)
@pytest.mark.parametrize("name", ["config.json", "modules.json"])
def test_json_of_another_kind(folder, name, content):
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        (folder / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}( is not JSON| holds a JSON|: )"):
        loaded(folder)


def change_tokenizer(folder, change):
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))


def beyond_by_post_processor(settings):
    special = next(iter(settings["post_processor"]["special_tokens"].values()))
    special["ids"] = [9000]


def beyond_by_added_token(settings):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    settings["added_tokens"] += [{"id": 57 + i, "content": f"[NEW{i}]", **flags} for i in range(10)]


def beyond_by_vocabulary(settings):
    vocabulary = settings["model"]["vocab"]
    vocabulary["zebra"] = 9000


@pytest.mark.parametrize("change", [beyond_by_post_processor, beyond_by_added_token, beyond_by_vocabulary])
def test_ids_beyond_the_embeddings(folder, change):
    change_tokenizer(folder, change)
    with pytest.raises(ValueError, match=r"tokenizer of .* has the id (9000|66); the model embeds 0 to 63"):
        loaded(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mbrt", "there is no encoder 'mbrt'; did you mean mbert"),
        ("LaBSE", "there is no encoder 'LaBSE'; did you mean labse"),
        ("bundle", "there is no encoder 'bundle'; did you mean bundled"),
        ("a" * 5000, "is neither a folder nor a Hub id: File name too long"),
        ("/tmp/" + "a" * 5000, "is neither a folder nor a Hub id: File name too long"),
        ("a\0b", "is neither a folder nor a Hub id|is not a Hub id"),
    ],
)
def test_names(name, message):
    with pytest.raises(FileNotFoundError, match=message) as raised:
        lj.load_encoder(name)
    assert len(str(raised.value)) < 400


def test_an_encoder_says_why_it_does_not_pickle(tiny):
    with pytest.raises(
        TypeError, match="the encoder .* cannot be pickled or deep-copied, .* load_encoder in each process"
    ):
        pickle.dumps(tiny)


FORK = """
import multiprocessing, sys
import jax
import lsar_jax as lj
encoder = lj.load_encoder(sys.argv[1])
encoder.encode(["a"])

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
    "transform of a jax array": lambda: center(y, "de"),
    "nearest": lambda: lj.retrieval.nearest(x, x),
    "nearest of jax arrays": lambda: lj.retrieval.nearest(y, y),
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
    tasks = [line.partition('"')[2].partition('"')[0] for line in FORK.splitlines() if '": lambda' in line]
    assert len(tasks) == 14
    for task in tasks:
        assert f"{task} this process was forked from one in which JAX had started its threads" in run.stdout, run.stderr


def test_transforms_of_other_embeddings(tiny, rng):
    spec = tiny.spec
    x = {code: rng.standard_normal((9, tiny.dim)).astype(np.float32) for code in ("de", "en")}

    def fitted(**fields):
        from dataclasses import replace

        return lj.transforms.fit_center(x, source=replace(spec, **fields))

    told = "the transform was fitted on other embeddings than those of this encoder: "
    with pytest.raises(ValueError, match=f"^{told}layer 1, not {spec.layer}$"):
        tiny.with_transform(fitted(layer=1))
    with pytest.raises(ValueError, match=f"^{told}pooling 'cls', not 'mean'$"):
        tiny.with_transform(fitted(pooling="cls"))
    with pytest.raises(ValueError, match=f"^{told}revision sha256:1 of other, not "):
        tiny.with_transform(fitted(id="other", revision="sha256:1"))
    center = fitted()
    once = tiny.with_transform(center)
    with pytest.raises(ValueError, match=r"center\(\) is already part of the transform center\(\)"):
        once.with_transform(center)
    # Another fit of the same method is another map, and another space.
    other = lj.transforms.fit_center({code: rows + 1 for code, rows in x.items()}, source=spec)
    assert not tiny.with_transform(other).spec.same_space(once.spec)


def test_languages_added_to_a_transform_are_not_applied_twice(rng):
    x = {code: rng.standard_normal((9, 8)).astype(np.float32) for code in ("de", "en", "sw")}
    center = lj.transforms.fit_center({code: x[code] for code in ("de", "en")})
    more = center.with_languages(lj.transforms.fit_center({"sw": x["sw"]}))
    for one, other in ((center, more), (more, center)):
        with pytest.raises(ValueError, match="is already part of the transform"):
            one.then(other)


def test_sources_that_are_no_specs():
    # Without the types that these tests check, which every fit would refuse first.
    code = """
import numpy as np, lsar_jax as lj
x = {code: np.random.default_rng(seed).standard_normal((40, 16)) for seed, code in enumerate(("de", "en"))}
for source in ("bundled", 5, ("bundled", 8)):
    for name in ("center", "lsar", "cbie", "identifier"):
        try:
            getattr(lj.transforms, f"fit_{name}")(x, source=source)
        except ValueError as error:
            print(f"source is {source!r}; give the spec of the encoder, encoder.spec" in str(error))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert run.stdout == "True\n" * 12, run.stderr


@pytest.mark.parametrize("name", ["2_Dense/model.safetensors", "2_Dense/config.json", "1_Pooling/config.json"])
def test_deep_folders_of_modules_are_part_of_the_encoder(name, tmp_path):
    folder = shutil.copytree(TINY.parent / "labse", tmp_path / "deep")
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "parts").mkdir()
    for module in modules:
        if module["path"] and (folder / module["path"]).exists():
            (folder / module["path"]).rename(folder / "parts" / module["path"])
        module["path"] = module["path"] and f"parts/{module['path']}"
    (folder / "modules.json").write_text(json.dumps(modules))
    before = lj.load_encoder(str(folder)).spec.revision
    path = folder / "parts" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if name.endswith("safetensors") else whole + b"\n")
    assert lj.load_encoder(str(folder)).spec.revision != before
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match=f"{path.name} is not a file"):
        loaded(folder)
    with pytest.raises(ValueError, match=f"{path.name} is not a file"):
        convert(str(folder), tmp_path / "converted")


def test_folders_that_are_closed_to_us(folder, monkeypatch):
    (folder / "lost+found").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: "lost+found" not in str(path))
    loaded(folder)


def test_moments_of_two_encoders_are_not_mixed(tiny, tmp_path):
    one, two = (tiny.moments(["abc", "de f"], layers=(layer,))[0] for layer in (1, 2))
    assert (one.source.layer, two.source.layer) == (1, 2)
    for call in (
        lambda: one.merge(two),
        lambda: lj.merge_moments({"de": one}, {"de": two}),
        lambda: lj.merge_moments({"de": one}, {"en": two}),
        lambda: lj.transforms.fit_lsar({"de": one, "en": two}),
        lambda: lj.save_moments(tmp_path / "m", {"de": one}, source=two.source),
        lambda: lj.transforms.fit_center({"de": one}, source=two.source),
    ):
        with pytest.raises(ValueError, match=r"layer \d, not \d"):
            call()
    # A transform of moments remembers their encoder.
    center = lj.transforms.fit_center({"de": one})
    assert center.source == one.source
    with pytest.raises(ValueError, match="the transform was fitted on other embeddings than those of this encoder"):
        tiny.with_transform(center)
    lj.save_moments(tmp_path / "m", {"de": one})
    moments, source = lj.load_moments(tmp_path / "m")
    assert source == moments["de"].source == one.source
