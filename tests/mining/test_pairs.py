"""Mining against the definitions written out, and thresholds against trying every one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.mesh import data_mesh
from lsar_jax.mining import best_threshold, margin_score, mine
from lsar_jax.mining.pairs import _sorted
from tests.reference import unit


def brute_force(source, target, k, margin, retrieval):
    """All pairs in float64, as the papers write them."""
    cosine = unit(source) @ unit(target).T
    near_x = np.sort(cosine, axis=1)[:, ::-1][:, :k].mean(axis=1)
    near_y = np.sort(cosine, axis=0)[::-1][:k].mean(axis=0)
    mean = (near_x[:, None] + near_y[None]) / 2
    score = {"ratio": cosine / mean, "distance": cosine - mean, "absolute": cosine}[margin]

    def best(matrix, cosines):
        found = []
        for row, (values, near) in enumerate(zip(matrix, cosines, strict=True)):
            among = np.argsort(-near)[:k]
            found.append((row, among[np.argmax(values[among])]))
        return found

    forward = [(i, j, score[i, j]) for i, j in best(score, cosine)]
    backward = [(i, j, score[i, j]) for j, i in best(score.T, cosine.T)]
    if retrieval == "forward":
        chosen = forward
    elif retrieval == "backward":
        chosen = backward
    elif retrieval == "intersection":
        chosen = [pair for pair in forward if pair[:2] in {other[:2] for other in backward}]
    else:
        chosen, used = [], (set(), set())
        for i, j, value in sorted(set(forward + backward), key=lambda pair: -pair[2]):
            if i not in used[0] and j not in used[1]:
                chosen.append((i, j, value))
                used[0].add(i)
                used[1].add(j)
    return {(int(i), int(j)): value for i, j, value in chosen if value > 0}


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
@pytest.mark.parametrize("retrieval", ["max", "intersection", "forward", "backward"])
def test_equals_brute_force(rng, margin, retrieval):
    source = rng.standard_normal((40, 12)).astype(np.float32) + 1
    target = np.concatenate([source[:25] + 0.4 * rng.standard_normal((25, 12)), rng.standard_normal((30, 12)) + 1])
    pairs = mine(source, target.astype(np.float32), k=4, margin=margin, retrieval=retrieval)
    expected = brute_force(source, target.astype(np.float32), 4, margin, retrieval)
    found = {(int(i), int(j)): value for i, j, value in zip(*pairs, strict=True)}
    assert set(found) == set(expected)
    for pair, value in found.items():
        assert value == pytest.approx(expected[pair], abs=1e-5)
    assert (np.diff(pairs.score) <= 0).all()


def test_scores_are_ordered_and_then_rows(rng):
    source, target, score = (rng.integers(low, high, 500) for low, high in ((0, 20), (0, 30), (-2, 4)))
    score = score.astype(np.float32)
    ordered = sorted((-value, i, j) for value, i, j in zip(score, source, target, strict=True) if value > 0)
    pairs = _sorted(source, target, score)
    assert list(zip(-pairs.score, pairs.source, pairs.target, strict=True)) == ordered


def test_four_devices_mine_what_one_does(rng):
    x, y = (rng.standard_normal((n, 8)).astype(np.float32) for n in (41, 30))
    one, four = mine(x, y), mine(x, y, mesh=data_mesh(jax.devices()))
    assert jax.device_count() == 4
    np.testing.assert_array_equal(one[:2], four[:2])
    np.testing.assert_allclose(one.score, four.score, rtol=1e-6)


def test_a_neighbourhood_that_is_not_positive_has_no_ratio():
    scores = margin_score(jnp.array([0.5, 0.5, -0.1]), jnp.array([0.25, -0.1, 0.0]))
    np.testing.assert_allclose(scores, [2, 0, 0])


def test_threshold_equals_trying_every_one(rng):
    for _ in range(20):
        score = np.round(rng.random(30), 1)  # with ties
        right = rng.random(30) < score
        gold = int(right.sum()) + 3
        got = best_threshold(score, right, gold)
        every = {}
        for cut in [*score, 2.0]:
            kept = score >= cut
            every[cut] = 2 * right[kept].sum() / (kept.sum() + gold)
        assert got.f1 == pytest.approx(100 * max(every.values()))
        kept = score >= got.value
        assert got.precision == pytest.approx(100 * right[kept].mean())
        assert got.recall == pytest.approx(100 * right[kept].sum() / gold)
        assert 2 * right[kept].sum() / (kept.sum() + gold) == pytest.approx(got.f1 / 100)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_threshold_divides_scores_that_are_adjacent(odd, kind):
    """Their middle is rounded to the one whose last bit is 0, in float32 arrays to one of two adjacent float32."""
    upper = np.nextafter(kind(1.25), kind(2)) if odd else kind(1.25)
    score = np.array([2, upper, np.nextafter(upper, kind(0)), 1], kind)
    assert (score[1] + score[2]) / 2 == score[2 if odd else 1]
    value = best_threshold(score, np.array([True, True, False, False]), 2).value
    assert (score >= value).tolist() == [True, True, False, False]
    assert (score.astype(np.float64) >= value).sum() == 2


SCORES, RIGHT = np.zeros(2), np.array([True, True])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: mine(x, y, k=2, margin="rate"), "margin 'rate' is not one of ratio, distance, absolute"),
        (lambda x, y: mine(x, y, k=2, retrieval="best"), "retrieval 'best' is not one of max, intersection, forward"),
        (lambda x, y: mine(x, y, bank=y, retrieval="forward"), "and retrieval 'forward', but .* omit both"),
        (lambda x, y: mine(x, y, k=4), "k is 4; it must be a whole number from 1 to 3"),
        (lambda x, y: mine(x * np.nan, y, k=1), "NaN or infinity"),
        (lambda x, y: best_threshold(SCORES[:0], RIGHT[:0], 1), "0 scores and 0 answers"),
        (lambda x, y: best_threshold(SCORES, RIGHT, 1), "2 of them right, but 1 gold pairs"),
        (lambda x, y: best_threshold(SCORES * np.nan, RIGHT, 2), "score has .* not finite"),
    ],
)
def test_refusals(call, message, unchecked):
    with pytest.raises(ValueError, match=message):
        call(np.ones((3, 2), np.float32), np.ones((5, 2), np.float32))
