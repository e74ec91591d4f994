"""Weights that are split over devices, and those that would not fit."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.checkpoints import placement
from lsar_jax.encoders.options import encode_call
from lsar_jax.encoders.pipeline import program_of
from lsar_jax.encoders.program import Weights, compiled
from lsar_jax.mesh import data_mesh, shares
from tests import parity

TEXTS = ["a b c", "d e f g h " * 3, "", "b", "c a d " * 20, *(f"{'abcdefgh'[n % 8]} b" for n in range(40))]


def folder(name):
    return str(parity.GOLDEN / name)


def load(name, devices, model=1, **options):
    return lj.load_encoder(folder(name), mesh=data_mesh(jax.devices()[:devices], model=model), **options)


def kernel(encoder, layer, name="query"):
    return getattr(getattr(encoder.model.blocks[0], layer), name).kernel[...]


@pytest.mark.parametrize(
    ("name", "devices", "model"),
    [
        ("bert", 4, 4),
        ("qwen3", 4, 2),
        # 4 heads share 2 groups of keys, which 4 devices do not divide; 3 devices divide nothing.
        ("qwen3", 4, 4),
        pytest.param("qwen3", 2, 2, marks=pytest.mark.slow),
        pytest.param("bert", 4, 2, marks=pytest.mark.slow),
        pytest.param("bert", 3, 3, marks=pytest.mark.slow),
        pytest.param("gte", 4, 4, marks=pytest.mark.slow),
        pytest.param("modernbert", 4, 4, marks=pytest.mark.slow),
        pytest.param("gemma3", 4, 4, marks=pytest.mark.slow),
        pytest.param("nomic_bert", 4, 4, marks=pytest.mark.slow),
        pytest.param("xlm", 4, 2, marks=pytest.mark.slow),
    ],
)
def test_vectors_of_split_weights_equal_those_of_one_device(name, devices, model):
    options = {"language": "en"} if name == "xlm" else {}
    one, split = load(name, 1), load(name, devices, model)
    assert (split.mesh.shape["data"], split.mesh.shape["model"]) == (devices // model, model)
    layers = tuple(range(len(one.model.blocks) + 1))
    expected, found = (encoder.encode(TEXTS, layers=layers, **options) for encoder in (one, split))
    error = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
    assert error.max() <= 1e-5
    whole = kernel(one, "feed", "down")
    assert kernel(split, "feed", "down").addressable_shards[0].data.size == whole.size // (1 if model == 3 else model)


def test_each_sublayer_sums_over_the_devices_once():
    """So do the two moments of the first norm, as tables are split by width; then the states are gathered, once."""
    encoder = load("bert", 4, 4)
    arrays = jax.device_put((np.zeros((1, 32), np.int32), np.full((1, 1), 9, np.int32), np.zeros(1, np.int32), ()))
    program = program_of(encoder, encode_call(encoder, {"layers": (3,)}))
    lowered = compiled(encoder.mesh, False).lower(program, Weights.of(encoder.model), None, None, *arrays)
    text = lowered.compile().as_text()
    names = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")
    assert [text.count(f"{name}(") for name in names] == [2 * 3 + 2, 1, 0, 0, 0]


def test_what_an_encoder_does_with_split_weights(tmp_path):
    one, split = load("bert", 1), load("bert", 4, 2)
    expected = one.encode(TEXTS)
    x = split.encode(TEXTS[:40], output="jax")
    np.testing.assert_allclose(np.asarray(x), expected[:40], atol=1e-5)
    _, ids = lj.retrieval.nearest(x, x, k=1)
    assert ids[4, 0] == 4
    moments, others = (encoder.moments(TEXTS, second_moment=True) for encoder in (one, split))
    np.testing.assert_allclose(others.mean, moments.mean, atol=1e-5)
    np.testing.assert_allclose(others.scatter, moments.scatter, atol=1e-4)
    split.to_sentence_transformers(tmp_path / "out")
    np.testing.assert_array_equal(lj.load_encoder(str(tmp_path / "out")).encode(TEXTS), expected)
    with ThreadPoolExecutor(4) as threads:
        for vectors in threads.map(lambda _: split.encode(TEXTS), range(8)):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("free", "model", "message"),
    [
        (110_000, 1, r"take 0\.000\d+ GB on each device, but only 0\.00011 GB are free there; split .*mesh=.*model=2"),
        (50_000, 2, r"on each device, split over 2, but only 5e-05 GB are free there; split them with mesh=.*model=4"),
        (10, 1, r"only 1e-08 GB are free there; load fewer blocks with layer="),
    ],
)
def test_weights_that_do_not_fit_are_refused(monkeypatch, free, model, message):
    monkeypatch.setattr(placement, "free_memory", lambda devices: free)
    monkeypatch.setattr("lsar_jax.checkpoints.load_weights.read_tensor", None)  # nothing is read before
    with pytest.raises(ValueError, match=message):
        load("bert", model, model)


def test_free_memory_is_that_of_the_fullest_device():
    def devices(*stats):
        return [SimpleNamespace(memory_stats=lambda s=s: s) for s in stats]

    assert placement.free_memory(devices({"bytes_limit": 9, "bytes_in_use": 2}, {"bytes_limit": 8})) == 7
    assert placement.free_memory(devices({"bytes_limit": 9}, None)) is None
    assert placement.free_memory(jax.devices()) is None


def test_meshes():
    assert shares(data_mesh(jax.devices(), model=4)) == 1
    assert data_mesh(jax.devices(), model=1).axis_names == ("data",)
    with pytest.raises(ValueError, match="model is 2; it must be a whole number that divides the 3 devices"):
        data_mesh(jax.devices()[:3], model=2)
    with pytest.raises(ValueError, match="model is 5; it must be a whole number that divides the 4 devices"):
        data_mesh(jax.devices(), model=5)
    with pytest.raises(ValueError, match="make it with lsar_jax.mesh.data_mesh"):
        lj.load_encoder(folder("bert"), mesh=jax.make_mesh((2, 2), ("model", "data")))
