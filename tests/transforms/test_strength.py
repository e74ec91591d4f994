"""Every method at a strength: part of the way from the embeddings to the whole chain's result."""

import numpy as np
import pytest

from lsar_jax.transforms import Transform, fit_center, fit_lir, fit_lsar, fit_shift
from lsar_jax.transforms.methods import METHODS, OF_PAIRS
from tests.compilations import count_compilations
from tests.transforms.test_base import pairs

OPTIONS = {"langsae": {"width": 80, "active": 8, "steps": 20}, "cbie": {"clusters": 2, "components": 3}}


def fitted(name, x):
    options = OPTIONS.get(name.removeprefix("mean+"), {})
    return OF_PAIRS[name](pairs(x)) if name in OF_PAIRS else METHODS[name](x, **options)


@pytest.mark.parametrize("name", [*METHODS, *OF_PAIRS])
def test_every_method_equals_its_twin_saved_and_affine(name, x, tmp_path):
    whole = fitted(name, x)
    part = whole.at_strength(0.3)
    part.save(tmp_path / "part")
    affine = not any(step.not_affine() for step in whole.steps)
    for code, rows in list(x.items())[:2]:
        rows = rows.astype(np.float64)
        expected = rows + 0.3 * (np.asarray(whole(rows, code), np.float64) - rows)
        near = 1e-6 * np.abs(expected).max()
        for transform in (part, Transform.load(tmp_path / "part")):
            np.testing.assert_allclose(transform(rows, code), expected, rtol=0, atol=near)
        if affine:
            (a, b), (matrix, offset) = part.as_affine(code), whole.as_affine(code)
            np.testing.assert_allclose(a, np.eye(40) + np.float32(0.3) * (matrix - np.eye(40)), atol=1e-12)
            np.testing.assert_allclose(b, np.float32(0.3) * offset, atol=1e-12)
    assert affine == (name not in ("cbie", "langsae"))


def test_a_chain_is_blended_as_a_whole(x):
    first, second = fit_center(x).at_strength(0.5), fit_lir(x, 2)
    rows = x["de"].astype(np.float64)
    half = rows - 0.5 * rows.mean(axis=0)
    moved = half + 0.25 * (np.asarray(second(half, "de"), np.float64) - half)
    # A strength reaches back over its transform alone, wherever this stands in a chain; another is of the whole chain.
    chain = first.then(second.at_strength(0.25))
    np.testing.assert_allclose(chain(rows, "de"), moved, atol=1e-5)
    np.testing.assert_allclose(chain.at_strength(0.5)(rows, "de"), (rows + moved) / 2, atol=1e-5)
    parts = ["center()", "at_strength(strength=0.5)", "lir(components=2)", "at_strength(strength=0.25)"]
    assert chain.name == " then ".join(parts)
    with pytest.raises(ValueError, match="already part of the transform"):
        first.then(fit_center(x))


def test_ends_names_and_programs(x, unchecked):
    lsar = fit_lsar(x)
    assert lsar.at_strength(1) is lsar
    np.testing.assert_array_equal(lsar.at_strength(0)(x["de"]), x["de"])
    parts = [lsar.at_strength(s) for s in (0.25, 0.5, 0.75)]
    assert len({(part.name, part.digests) for part in (lsar, *parts)}) == 4
    parts[0](x["de"])
    with count_compilations() as compiled:
        [part(x["de"]) for part in parts]
    assert compiled == []
    # The alpha of SHIFT: in part, the source language stays where it is.
    shift = fit_shift(pairs(x)).at_strength(0.6)
    np.testing.assert_array_equal(shift(x["en"], "en"), x["en"])
    for strength in (-0.1, 1.5, np.nan, "much"):
        with pytest.raises(ValueError, match=r"strength is .*; it must be a number from 0 .unchanged. to 1"):
            lsar.at_strength(strength)
