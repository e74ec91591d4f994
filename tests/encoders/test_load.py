"""``dim`` and ``final_norm`` of ``load_encoder``."""

from dataclasses import replace

import numpy as np
import pytest

import lsar_jax as lj
from tests.parity import GOLDEN, TEXTS, check_written


@pytest.mark.parametrize("name", ["bert", "labse", "laser2"])
def test_the_first_dimensions_are_normalised_again(name):
    whole = lj.load_encoder(GOLDEN / name)
    cut = lj.load_encoder(GOLDEN / name, dim=5)
    first = whole.encode(TEXTS)[:, :5]
    np.testing.assert_allclose(cut.encode(TEXTS), first / np.linalg.norm(first, axis=1, keepdims=True), atol=1e-6)
    assert (cut.dim, cut.spec) == (5, replace(whole.spec, dim=5))
    assert not cut.spec.same_space(whole.spec)
    assert cut.spec.difference(whole.spec) == "dim 5, not None"


def test_a_transform_takes_the_cut_embeddings():
    cut = lj.load_encoder(GOLDEN / "bert", dim=8)
    lsar = lj.transforms.fit_lsar({"de": cut.moments(TEXTS), "en": cut.moments(TEXTS[2:])})
    np.testing.assert_allclose(cut.with_transform(lsar).encode(TEXTS), lsar(cut.encode(TEXTS)), atol=1e-6)
    with pytest.raises(ValueError, match="those of the encoder bert: dim 8, not None"):
        lj.load_encoder(GOLDEN / "bert").with_transform(lsar)
    with pytest.raises(ValueError, match="load the encoder with pooling='mean' and without dim to compare layers"):
        cut.encode(TEXTS, layers=(1, 3))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("bert", {"dim": 33}, r"dim is 33; it must be a whole number from 1 to 32 \(the width of the embeddings of"),
        ("bert", {"dim": 0}, "dim is 0; it must be a whole number from 1 to 32"),
        ("bert", {"dim": 5, "layer": 2}, "layer is 2; .* from 3 to 3 .dim cuts"),
        ("bert", {"final_norm": True}, "bert has no final norm; leave out final_norm"),
        ("qwen3", {"final_norm": 1}, "final_norm is 1; it must be True or False"),
        ("bert", {"dtype": "\udc80"}, r"dtype '\\udc80' is not one of float32, bfloat16"),
    ],
)
def test_what_is_refused(name, arguments, message, unchecked):
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(GOLDEN / name, **arguments)


def test_the_final_norm_of_a_lower_layer():
    options = {"layer": 1, "pooling": "last"}
    raw, normed = (lj.load_encoder(GOLDEN / "qwen3", **options, final_norm=norm) for norm in (False, True))
    assert (len(normed.model.blocks), raw.model.norm) == (1, None)
    x, scale = raw.encode(TEXTS), np.asarray(normed.model.norm.scale[...])
    expected = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + normed.model.config.epsilon) * scale
    np.testing.assert_allclose(normed.encode(TEXTS), expected, rtol=1e-5, atol=1e-6)
    assert normed.spec == replace(raw.spec, final_norm=True)
    assert normed.spec.difference(raw.spec) == "final norm True, not False"
    assert "final_norm=True" in repr(normed)
    assert "final_norm" not in repr(raw)


def test_the_last_layer_has_its_norm_in_any_case():
    raw, normed = (lj.load_encoder(GOLDEN / "qwen3", final_norm=final_norm) for final_norm in (False, True))
    layers = (1, raw.spec.layer)
    (first, last), (first_normed, last_normed) = (encoder.encode(TEXTS, layers=layers) for encoder in (raw, normed))
    np.testing.assert_array_equal(last, last_normed)
    assert not np.allclose(first, first_normed)


def test_specs_of_older_files_are_read():
    spec = lj.EncoderSpec("bundled", "sha256:0", 8, "mean", "float32")
    assert not {"dim", "final_norm"} & spec.to_dict().keys()
    for changed in (spec, replace(spec, dim=256), replace(spec, final_norm=True)):
        assert lj.EncoderSpec.from_dict(changed.to_dict()) == changed
    assert lj.EncoderSpec.from_dict(spec.to_dict() | {"dim": None, "final_norm": False}) == spec


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("labse", {"dim": 5}), ("bert", {"dim": 32}), ("qwen3", {"dim": 5}), ("qwen3", {"layer": 1, "final_norm": True})],
)
def test_it_is_exported(name, arguments, tmp_path):
    encoder = lj.load_encoder(GOLDEN / name, **arguments)
    encoder.to_sentence_transformers(tmp_path / "ours")
    np.testing.assert_allclose(lj.load_encoder(tmp_path / "ours").encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    check_written(encoder, tmp_path / "theirs")


@pytest.mark.parametrize("layer", [0, 1])
def test_a_lower_layer_without_its_norm_is_not_exported(layer, tmp_path):
    with pytest.raises(ValueError, match="not normalised, but transformers .* load the encoder with final_norm=True"):
        lj.load_encoder(GOLDEN / "qwen3", layer=layer).to_sentence_transformers(tmp_path / "written")
