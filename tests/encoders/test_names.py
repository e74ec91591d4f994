"""What users of sentence-transformers call by other names, prompts by name, and what an encoder says of itself."""

import copy

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.encoders.options import EncodeOptions


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("batch_size", "token_budget"),
        ("normalize_embeddings", "pass normalize to encode"),
        ("show_progress_bar", "pass show_progress"),
        ("convert_to_tensor", 'output="jax"'),
        ("device", "mesh=lj.mesh.data_mesh(devices)"),
        ("batchsize", f"its options are {', '.join(EncodeOptions.__annotations__)}"),
    ],
)
def test_other_names_of_options(tiny, name, instead):
    for call in (tiny.encode, tiny.encode_with_report, tiny.warm_up):
        arguments = () if call == tiny.warm_up else (["a"],)
        with pytest.raises(TypeError, match=rf"^\w+\(\) got an unexpected option '{name}'; ") as error:
            call(*arguments, **{name: 8})
        assert instead in str(error.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("device", "mesh=lj.mesh.data_mesh(devices)"),
        ("trust_remote_code", "never run"),
        ("torch_dtype", "pass dtype"),
        ("layers", "its options are revision, layer, pooling, dtype, param_dtype, mesh"),
    ],
)
def test_other_names_of_options_of_load_encoder(name, instead):
    # Told before anything is looked for.
    with pytest.raises(TypeError, match=rf"^load_encoder\(\) got an unexpected option '{name}'; ") as error:
        lj.load_encoder("no/such", **{name: "cuda"})
    assert instead in str(error.value)


def test_a_prompt_by_its_name(tiny):
    named = copy.copy(tiny)
    named.prompts = {"query": "ab ", "passage": "cd "}
    expected = tiny.encode(["ef", "g"], prompt="ab ")
    np.testing.assert_array_equal(named.encode(["ef", "g"], prompt_name="query"), expected)
    moments = named.moments(["ef", "g"], prompt_name="query")
    np.testing.assert_allclose(moments.mean, expected.mean(axis=0), atol=1e-6)
    assert moments.source.prompt == "ab "
    with pytest.raises(ValueError, match="prompt_name is 'title'; choose from 'query', 'passage'"):
        named.encode(["ef"], prompt_name="title")
    with pytest.raises(ValueError, match="prompt is 'x' and prompt_name is 'query'; give one of them"):
        named.encode(["ef"], prompt="x", prompt_name="query")
    with pytest.raises(ValueError, match="the checkpoint names no prompts; use prompt"):
        tiny.encode(["ef"], prompt_name="query")


def test_an_encoder_says_what_it_is(tiny, rng):
    told = repr(tiny)
    spec = tiny.spec
    assert told.startswith(
        f"SentenceEncoder({spec.id!r}, layer={spec.layer}, pooling='mean', dtype='float32', dim=32, "
    )
    assert told.endswith(", devices='1 x cpu')")
    assert "prompt" not in told
    lsar = lj.transforms.fit_lsar({code: rng.normal(size=(9, 32)) for code in ("de", "en")}, source=spec)
    assert f"transform={lsar.name!r}" in repr(tiny.with_transform(lsar))
    assert "prompt='ab '" in repr(tiny.with_prompt("ab "))


def test_versions(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"lsar_jax {lj.__version__}, jax ")
