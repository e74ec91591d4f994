"""What users of sentence-transformers call by other names, and what an encoder says of itself."""

import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main


@pytest.mark.parametrize(
    ("call", "name", "instead"),
    [
        ("encode", "batch_size", "token_budget"),
        ("encode", "prompt_name", "pass prompt=name to encode"),
        ("encode", "truncate_dim", "pass dim to load_encoder"),
        ("encode", "convert_to_tensor", 'output="jax"'),
        ("encode", "batchsize", "its options are layers, language, prompt, max_length, token_budget, show_progress, "
         "normalize, output"),
        ("moments", "output", "its options are layers, language, prompt, max_length, token_budget"),
        # Before anything is looked for.
        ("load_encoder", "device", "mesh=lj.mesh.data_mesh(devices)"),
        ("load_encoder", "layers", "its options are revision, layer, pooling, dim, final_norm, dtype"),
    ],
)  # fmt: skip
def test_other_names_of_options(tiny, call, name, instead):
    with pytest.raises(TypeError, match=rf"^{call}\(\) got an unexpected option '{name}'; ") as error:
        getattr(lj if call == "load_encoder" else tiny, call)("no/such", **{name: 8})
    assert instead in str(error.value)


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
