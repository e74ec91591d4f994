"""With 64-bit JAX, as users of other libraries have it, what is computed is what is computed without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.objectives import align, language_penalty, parsing, tagging
from lsar_jax.transforms.methods import METHODS

X = {
    code: (np.random.default_rng(n).standard_normal((160, 24)) + n).astype(np.float32)
    for n, code in enumerate(("en", "de", "fr", "sw"))
}
PAIRS = {code: (X["en"], X[code]) for code in ("de", "fr")}
SMALL = {"components": 2, "clusters": 2, "steps": 5}


def fitted(name, on_device):
    method = METHODS[name]
    options = {option: SMALL[option] for option in SMALL if option in method.options}
    x = PAIRS if method.needs == "pairs" else X
    transform = method(jax.tree.map(jnp.asarray, x) if on_device else x, **options)
    return transform(jnp.asarray(X["de"]), None if transform.languages is None else "de")


def drawn(key):
    crf = tagging.init_transitions(key, 3)
    means = language_penalty.LanguageMeans.start(2, 24).update(jnp.asarray(X["en"]), jnp.arange(160) % 2)
    penalty = jax.value_and_grad(language_penalty.language_penalty)(jnp.asarray(X["en"]), means)
    return align.init_projector(key, 4), parsing.init_biaffine(key, 8, 3), crf, means, penalty


RUNS = {
    **{
        f"{name}-{on}": lambda name=name, on=on: fitted(name, on == "jax")
        for name in METHODS
        for on in ("numpy", "jax")
    },
    "encode": lambda: lj.load_encoder("tests/golden/bert").encode(["a b c", "d e"] * 9, layers=(0, 1), output="jax"),
    "nearest": lambda: lj.retrieval.nearest(X["en"], np.concatenate([*X.values()] * 2), 3),
    "mine": lambda: lj.mining.mine(X["en"], X["de"]).score,
    "losses": lambda: drawn(jax.random.key(0)),
}


@pytest.mark.parametrize("name", RUNS)
def test_64_bit_jax_gives_the_same_in_float32(name):
    expected = jax.tree.leaves(RUNS[name]())
    with jax.enable_x64(True):
        got = jax.tree.leaves(RUNS[name]())
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=1e-4 * np.abs(other).max())
