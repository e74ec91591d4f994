"""What users of sentence-transformers call by other names, and what an encoder says of itself."""

import jax
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.parity import TEXTS
from tests.typed import results


@pytest.mark.parametrize(
    ("call", "name", "instead"),
    [
        ("encode", "batch_size", "token_budget"),
        ("encode", "convert_to_tensor", 'output="jax"'),
        ("encode", "batchsize", "its options are layers, language, prompt, max_length, token_budget, show_progress, "
         "normalize, output"),
        ("moments", "output", "its options are layers, language, prompt, max_length, token_budget"),
        # Before anything is looked for.
        ("load_encoder", "device", "mesh=lj.mesh.data_mesh(devices)"),
    ],
)  # fmt: skip
def test_other_names_of_options(tiny, call, name, instead):
    with pytest.raises(TypeError, match=rf"^{call}\(\) got an unexpected option '{name}'; ") as error:
        getattr(lj if call == "load_encoder" else tiny, call)("no/such", **{name: 8})
    assert instead in str(error.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("similarity", "lj.retrieval.similarity(a, b)"),
        ("max_seq_length", "encoder.tokenizer.max_length"),
        ("tokenize", "encoder.tokenizer([text], max_length)"),
    ],
)
def test_other_names_of_attributes(tiny, name, instead):
    assert not hasattr(tiny, name)
    assert name not in dir(tiny)
    with pytest.raises(AttributeError, match=f"^a SentenceEncoder has no '{name}'; ") as error:
        getattr(tiny, name)
    assert instead in str(error.value)
    with pytest.raises(AttributeError, match=name):
        setattr(tiny, name, 8)
    # What it says to write exists.
    (ids,), cut = tiny.tokenizer([TEXTS[0]], tiny.tokenizer.max_length)
    assert (ids.ndim, cut) == (1, 0)
    assert len(lj.retrieval.similarity(tiny.encode(TEXTS), tiny.encode(TEXTS))) == len(TEXTS)
    with pytest.raises(AttributeError, match="'SentenceEncoder' object has no attribute 'sentences'"):
        tiny.sentences  # noqa: B018


@pytest.mark.parametrize(
    ("prompts", "query", "document"),
    [
        ({}, "", ""),
        ({"query": "ab: "}, "ab: ", ""),
        ({"corpus": "no: ", "passage": "cd: ", "query": "ab: "}, "ab: ", "cd: "),
    ],
)
def test_queries_and_documents_have_the_prompts_of_the_checkpoint(tiny, prompts, query, document):
    encoder = tiny.with_prompt("")
    encoder.prompts = prompts
    for call, prompt in ((encoder.encode_query, query), (encoder.encode_document, document)):
        np.testing.assert_array_equal(call(TEXTS), encoder.encode(TEXTS, prompt=prompt))
    np.testing.assert_array_equal(encoder.encode_query(TEXTS, prompt="b: "), encoder.encode(TEXTS, prompt="b: "))
    assert isinstance(encoder.encode_document(TEXTS, output="jax"), jax.Array)


def test_the_type_of_the_result_follows_output(tiny):
    of_numpy, of_jax = results(tiny, TEXTS)
    assert {type(x) for x in of_numpy} == {np.ndarray}
    assert all(isinstance(x, jax.Array) for x in of_jax)


def test_an_encoder_says_what_it_is(tiny, rng):
    spec = tiny.spec
    assert repr(tiny) == (
        f"SentenceEncoder({spec.id!r}, layer={spec.layer}, pooling='mean', dtype='float32', dim=32, max_length=40, "
        "devices='1 x cpu')"
    )
    lsar = lj.transforms.fit_lsar({code: rng.normal(size=(9, 32)) for code in ("de", "en")}, source=spec)
    assert f"transform={lsar.name!r}" in repr(tiny.with_transform(lsar))
    assert "prompt='ab '" in repr(tiny.with_prompt("ab "))


def test_versions_and_names(printed):
    assert dir(lj) == sorted([*lj.__all__, "__version__"])
    assert printed(main, ["--version"]).startswith(f"lsar_jax {lj.__version__}, jax ")
