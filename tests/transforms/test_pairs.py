"""SHIFT and the linear map, which are fitted on aligned pairs."""

import numpy as np
from scipy.linalg import orthogonal_procrustes

from lsar_jax import Moments, Transform
from lsar_jax.measures.compared_methods import Method
from lsar_jax.transforms import fit_linear_map, fit_shift


def test_shift_recovers_a_planted_vector(rng):
    english = rng.standard_normal((50, 12)).astype(np.float32)
    vectors = {"de": 3 * rng.standard_normal(12), "zh": 3 * rng.standard_normal(12)}
    pairs = {code: ((english + v).astype(np.float32), english) for code, v in vectors.items()}
    shift = fit_shift(pairs)
    assert shift.languages == ("de", "en", "zh")
    for code, (own, _) in pairs.items():
        np.testing.assert_allclose(shift(own, code), english, atol=1e-5)
    np.testing.assert_array_equal(shift(english, "en"), english)
    moments = {code: tuple(map(Moments.from_embeddings, sides)) for code, sides in pairs.items()}
    np.testing.assert_array_equal(fit_shift(moments)(english, "zh"), shift(english, "zh"))
    assert shift.name == "shift(target=en)"
    assert shift.fits[0].fitted_on == (("de", 50), ("zh", 50))


def test_shift_as_published_leaves_other_languages(rng, tmp_path):
    """Only the languages of the pairs move, by alpha; others, in any spelling, and the target stay as they are."""
    english, vector = rng.standard_normal((20, 6)).astype(np.float32), 3 * rng.standard_normal(6)
    shift = fit_shift({"de": ((english + vector).astype(np.float32), english)}, others_stay=True)
    shift.save(tmp_path / "shift.safetensors")
    again = Transform.load(tmp_path / "shift.safetensors")
    x = np.tile(english[:1], (5, 1))
    for transform, alpha in ((shift, 1), (again, 1), (again.at_strength(0.6), 0.6)):
        moved = transform(x, ["deu_Latn", "en", "sw", "de-AT", "zh_Hant"])
        np.testing.assert_allclose(moved, x - alpha * np.outer([1, 0, 0, 1, 0], vector), atol=1e-5)
    assert shift.name == "shift(target=en, others=en)"
    strict = fit_shift({"de": (english, english)})
    assert [Method.of("shift", of).takes("sw") for of in (shift, strict)] == [True, False]


def test_linear_map_equals_its_twin(rng):
    # Not exactly aligned: the best rotation is in question; more pairs than a block.
    x = rng.standard_normal((9000, 40)).astype(np.float32)
    y = (x @ rng.standard_normal((40, 40)) + rng.standard_normal((9000, 40))).astype(np.float32)
    linear = fit_linear_map({"de": (x, y)})
    a, b = x.astype(np.float64), y.astype(np.float64)
    np.testing.assert_allclose(linear(x, "de"), a @ orthogonal_procrustes(a, b)[0], atol=2e-4)
    centred = fit_linear_map({"de": (x, y)}, center=True)
    a, b = (side - side.mean(axis=0) for side in (a, b))
    np.testing.assert_allclose(centred(x, "de"), a @ orthogonal_procrustes(a, b)[0] + y.mean(axis=0), atol=5e-4)


def test_fewer_pairs_than_dimensions(rng):
    rotation = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    x = rng.standard_normal((10, 40)).astype(np.float32)
    linear = fit_linear_map({"de": (x, (x @ rotation.T).astype(np.float32))}, "fr")
    matrix = np.asarray(linear.steps[0].matrix[0])
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(40), atol=1e-5)
    np.testing.assert_allclose(linear(x, "de"), x @ rotation.T, atol=1e-4)
    np.testing.assert_array_equal(linear(x, "fr"), x)
