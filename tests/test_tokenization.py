"""The plan of device calls: every sentence once, in the width of its own length."""

import numpy as np
import pytest

from lsar_jax.tokenization import WIDTHS, BatchSizes, plan


@pytest.mark.parametrize("sizes", [BatchSizes(1024, 0), BatchSizes(32768, 4096, 8), BatchSizes(64, 64, 2)])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_plan(rng, sizes, n):
    lengths = rng.integers(0, 101, n)
    slots = plan(lengths, 100, sizes)
    placed = np.concatenate([slot.sentences for slot in slots]) if slots else np.array([])
    assert sorted(placed) == list(range(n))
    widths = [width for width in WIDTHS if width < 100] + [100]
    for slot in slots:
        assert 1 <= len(slot.sentences) <= slot.rows
        assert slot.rows % sizes.devices == 0
        assert (slot.rows, slot.width) in sizes.shapes(100)
        for length in lengths[slot.sentences]:
            assert slot.width == min(width for width in widths if width >= length)
    assert len(sizes.shapes(100)) <= 2 * len(widths)


def test_widths_do_not_depend_on_neighbours(rng):
    lengths = rng.integers(1, 129, 300)
    width_of = {}
    for chosen in (np.arange(300), rng.permutation(300)[:40]):
        for slot in plan(lengths[chosen], 128, BatchSizes(1024, 0)):
            for i in chosen[slot.sentences]:
                assert width_of.setdefault(i, slot.width) == slot.width


def test_a_sentence_longer_than_the_widest_batch_is_refused():
    with pytest.raises(ValueError, match="a sentence has 129 tokens, batches take 128"):
        plan(np.array([5, 129]), 128, BatchSizes(1024, 0))


def test_one_sentence_does_not_pay_for_a_full_batch():
    [slot] = plan(np.array([10]), 128, BatchSizes(1024, 0))
    assert (slot.rows, slot.width) == (1, 16)
    [slot] = plan(np.array([10]), 128, BatchSizes(32768, 4096))
    assert slot.rows * slot.width == 4096


def test_a_tail_is_cheap():
    # 64 rows of 16 are full; what is left goes row by row up to half a batch, else in a full one.
    rows = [slot.rows for slot in plan(np.full(64 + 5, 16), 128, BatchSizes(1024, 0))]
    assert rows == [64, 1, 1, 1, 1, 1]
    assert [slot.rows for slot in plan(np.full(64 + 33, 16), 128, BatchSizes(1024, 0))] == [64, 64]
