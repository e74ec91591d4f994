"""What users of sentence-transformers call by other names, prompts by name, and what an encoder says of itself."""

import copy

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main


@pytest.mark.parametrize(
    ("call", "name", "instead"),
    [
        ("encode", "batch_size", "token_budget"),
        ("encode", "normalize_embeddings", "pass normalize to encode"),
        ("encode", "show_progress_bar", "pass show_progress"),
        ("encode", "convert_to_tensor", 'output="jax"'),
        ("encode", "device", "mesh=lj.mesh.data_mesh(devices)"),
        ("encode", "batchsize", "its options are layers, language, prompt, prompt_name, max_length, token_budget, "
         "show_progress, normalize, output"),
        ("moments", "output", "its options are layers, language, prompt, prompt_name, max_length, token_budget"),
        # Before anything is looked for.
        ("load_encoder", "device", "mesh=lj.mesh.data_mesh(devices)"),
        ("load_encoder", "trust_remote_code", "never run"),
        ("load_encoder", "torch_dtype", "pass dtype"),
        ("load_encoder", "layers", "its options are revision, layer, pooling, dtype, param_dtype, mesh"),
    ],
)  # fmt: skip
def test_other_names_of_options(tiny, call, name, instead):
    with pytest.raises(TypeError, match=rf"^{call}\(\) got an unexpected option '{name}'; ") as error:
        getattr(lj if call == "load_encoder" else tiny, call)("no/such", **{name: 8})
    assert instead in str(error.value)


def test_a_prompt_by_its_name(tiny):
    named = copy.copy(tiny)
    named.prompts = {"query": "ab ", "passage": "cd "}
    expected = tiny.encode(["ef", "g"], prompt="ab ")
    np.testing.assert_array_equal(named.encode(["ef", "g"], prompt_name="query"), expected)
    moments = named.moments(["ef", "g"], prompt_name="query")
    np.testing.assert_allclose(moments.mean, expected.mean(axis=0), atol=1e-6)
    assert moments.source.prompt == "ab "
    for encoder, options, message in (
        (named, {"prompt_name": "title"}, "prompt_name is 'title'; choose from 'query', 'passage'"),
        (named, {"prompt": "x", "prompt_name": "query"}, "prompt is 'x' and prompt_name is 'query'; give one of them"),
        (tiny, {"prompt_name": "query"}, "the checkpoint names no prompts; use prompt"),
    ):
        with pytest.raises(ValueError, match=message):
            encoder.encode(["ef"], **options)


def test_an_encoder_says_what_it_is(tiny, rng):
    spec = tiny.spec
    assert repr(tiny) == (
        f"SentenceEncoder({spec.id!r}, layer={spec.layer}, pooling='mean', dtype='float32', dim=32, max_length=40, "
        "devices='1 x cpu')"
    )
    lsar = lj.transforms.fit_lsar({code: rng.normal(size=(9, 32)) for code in ("de", "en")}, source=spec)
    assert f"transform={lsar.name!r}" in repr(tiny.with_transform(lsar))
    assert "prompt='ab '" in repr(tiny.with_prompt("ab "))


def test_versions(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"lsar_jax {lj.__version__}, jax ")
