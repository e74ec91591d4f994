"""Sentences that share a row: what padding is, and each model's states and vectors as if they were alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsar_jax.models.pooling import POOLINGS, pool
from lsar_jax.models.segments import positions_of, segments_of
from lsar_jax.tokens.tokenizer import Specials
from tests import parity


def test_padding_has_a_segment_of_its_own_and_position_0():
    lengths = np.array([[3, 2, 0], [0, 0, 0]], np.int32)
    assert segments_of(lengths, 6).tolist() == [[0, 0, 0, 1, 1, 3], [3] * 6]
    assert positions_of(lengths, 6).tolist() == [[0, 1, 2, 0, 1, 0], [0] * 6]


@pytest.mark.parametrize("name", parity.ARCHITECTURES)
def test_a_sentence_does_not_see_its_neighbours(name):
    model, case = parity.load(name), parity.golden(name)
    ids, lengths, languages = case["ids"], case["lengths"], case.get("languages")
    # Sentences of 12, 7, 1 and 9 tokens, in two rows of 20: 12 + 7, and 9 + 1.
    # What stands behind them is not read: alone it is another id.
    rows, places = np.full((2, 20), 63, np.int32), [(0, 0), (0, 1), (1, 1), (1, 0)]
    given, spoken = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32)
    starts = [0, 12, 9, 0]
    for sentence, ((row, segment), start) in enumerate(zip(places, starts, strict=True)):
        rows[row, start : start + lengths[sentence]] = ids[sentence, : lengths[sentence]]
        given[row, segment] = lengths[sentence]
        spoken[row, segment] = 0 if languages is None else languages[sentence]
    alone = parity.all_states(model, ids, lengths, languages)
    together = parity.packed_states(model, rows, given, None if languages is None else spoken)
    for one, two in zip(alone, together, strict=True):
        for sentence, ((row, _), start) in enumerate(zip(places, starts, strict=True)):
            expected = np.asarray(one[sentence, : lengths[sentence]])
            found = np.asarray(two[row, start : start + lengths[sentence]])
            assert np.abs(found - expected).max() <= 2e-6 * np.abs(expected).max()
    none = parity.packed_states(model, rows, np.zeros_like(given), None if languages is None else spoken)
    assert all(np.isfinite(state).all() for state in none)
    for pooling in POOLINGS:
        expected = pool(pooling, alone[-1], lengths[:, None], Specials(1, 1))[:, 0]
        found = pool(pooling, together[-1], given, Specials(1, 1))
        assert not np.asarray(found[:, 2]).any()
        found = np.stack([found[place] for place in places])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_gradients_stay_in_their_sentence():
    model = parity.load("bert")
    ids, lengths = np.arange(5, 15, dtype=np.int32)[None], np.array([[4, 5]], np.int32)
    words = model.embeddings.word.embedding[...][ids]

    def second(words):
        *_, last = model.hidden_states(ids, lengths, words=words)
        return jnp.square(pool("mean", last, lengths, Specials(0, 0))[0, 1]).sum()

    gradient = np.abs(np.asarray(jax.grad(second)(words)))[0].max(axis=1)
    assert (gradient[4:9] > 1e-4).all()
    assert not gradient[:4].any()
    assert not gradient[9:].any()
