"""The penalty on the subspace of the languages, against a float64 twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.objectives.language_penalty import LanguageMeans
from lsar_jax.objectives.language_penalty import language_penalty as penalty

LANGUAGES, D = 4, 12


@pytest.fixture
def batches(rng):
    """Three batches of unit scale, in which each language has an offset of its own."""
    offsets = 2 * rng.standard_normal((LANGUAGES, D))
    language = rng.integers(0, LANGUAGES, (3, 60))
    return (rng.standard_normal((3, 60, D)) + offsets[language]).astype(np.float32), language


def started(x, language, languages=LANGUAGES):
    return LanguageMeans.start(languages, D).update(jnp.asarray(x, jnp.float32), jnp.asarray(language))


def running(batches):
    means = LanguageMeans.start(LANGUAGES, D)
    for x, language in zip(*batches, strict=True):
        means = means.update(jnp.asarray(x), jnp.asarray(language))
    return means


def language_penalty(x, means, language=None):
    language = None if language is None else jnp.asarray(language)
    return float(penalty(jnp.asarray(x, jnp.float32), means, language))


def test_it_is_the_formula_in_float64(batches):
    """The sums of older batches weigh 0.9 and 0.81; all terms written out, with an explicit inverse."""
    sums, counts = np.zeros((LANGUAGES, D)), np.zeros(LANGUAGES)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in batches[0].astype(np.float64)]
    for age, x, language in zip((2, 1, 0), unit, batches[1], strict=True):
        for number in range(LANGUAGES):
            sums[number] += 0.9**age * x[language == number].sum(axis=0)
            counts[number] += 0.9**age * (language == number).sum()
    means = running(batches)
    np.testing.assert_allclose(means.sums, sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(means.counts, counts, rtol=1e-6)
    centred = sums / counts[:, None]
    centred -= centred.mean(axis=0)
    matrix = centred.T @ np.linalg.inv(centred @ centred.T + np.diag(1 / counts)) @ centred
    expected = np.mean([x @ matrix @ x for x in unit[2]])
    assert 0.2 < expected < 1
    assert language_penalty(batches[0][2], means) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("languages", [2, 4, 100])
def test_with_many_sentences_it_is_the_share_in_the_span_of_the_means(languages, rng):
    """For any order of sums: the products of centred means are a singular matrix, but for rounding."""
    means = rng.standard_normal((languages, D)).astype(np.float32)
    x = rng.standard_normal((60, D)).astype(np.float32)
    centred = means.astype(np.float64) - means.mean(axis=0, dtype=np.float64)
    span = np.linalg.svd(centred)[2][: languages - 1].T
    expected = np.mean(((x @ span) ** 2).sum(axis=1) / (x.astype(np.float64) ** 2).sum(axis=1))
    for count in 10.0 ** np.arange(7, 13):
        counts = jnp.full(languages, count, jnp.float32)
        many = LanguageMeans(jnp.asarray(means) * counts[:, None], counts)
        assert language_penalty(x, many) == pytest.approx(expected, rel=1e-4)


def test_padding_and_languages_that_have_not_come_do_not_count(batches):
    x, language = (part[0] for part in batches)
    means = started(x, language)
    padded, marked = np.concatenate([x, np.full((5, D), 7.0, np.float32)]), np.append(language, [-1] * 5)
    more = started(padded, marked, LANGUAGES + 2)
    np.testing.assert_array_equal(more.counts, [*means.counts, 0, 0])
    expected = language_penalty(x, means)
    assert language_penalty(padded, more, marked) == pytest.approx(expected, rel=1e-5)


def test_means_have_no_gradient_and_that_at_zero_is_finite(batches):
    x, language = (jnp.asarray(part[0]) for part in batches)
    assert not jax.grad(lambda x: jnp.square(started(x, language).sums).sum())(x).any()
    assert np.isfinite(jax.grad(penalty)(jnp.zeros((3, D)), running(batches))).all()
