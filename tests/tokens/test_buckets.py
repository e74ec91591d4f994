"""The device calls: every sentence once, in the width of its own length, nothing held for long."""

import numpy as np
import pytest

from lsar_jax.tokens.buckets import WIDTHS, BatchSizes, Buckets, Sentence, token_batch


def sentences(lengths, first=0):
    """Sentences of these lengths; each token is the sentence's number, and so is its row in a language table."""
    return [Sentence(i, np.full(length, i, np.int32), (i,)) for i, length in enumerate(lengths, first)]


def slots(lengths, longest, sizes, chunk=50):
    """What comes out when the sentences come in chunks."""
    buckets, every, out = Buckets(longest, sizes), sentences(lengths), []
    for start in range(0, len(every), chunk):
        out += buckets.add(every[start : start + chunk])
    return out + list(buckets.flush())


@pytest.mark.parametrize("sizes", [BatchSizes(1024, 0), BatchSizes(32768, 4096, 8), BatchSizes(64, 64, 2)])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_every_sentence_once_in_its_width(rng, sizes, n):
    lengths = rng.integers(0, 101, n)
    every = slots(lengths, 100, sizes)
    placed = np.concatenate([slot.numbers for slot in every]) if every else np.array([])
    assert sorted(placed) == list(range(n))
    widths = [width for width in WIDTHS if width < 100] + [100]
    for slot in every:
        assert 1 <= len(slot.sentences) <= slot.rows
        assert slot.rows % sizes.devices == 0
        assert (slot.rows, slot.width) in sizes.shapes(100)
        for number, ids, _ in slot.sentences:
            assert len(ids) == lengths[number]
            assert (ids == number).all()
            assert slot.width == min(width for width in widths if width >= len(ids))
        # Every row carries its own row of the language tables; filler rows take 0.
        [rows] = slot.languages(1)
        assert rows.tolist() == [*slot.numbers, *[0] * (slot.rows - len(slot.sentences))]
    assert len(sizes.shapes(100)) <= 2 * len(widths)


def test_a_bounded_number_waits(rng):
    sizes = BatchSizes(1024, 0)
    buckets, inside = Buckets(128, sizes), 0
    most = sum(sizes.full(width) for width in WIDTHS if width <= 128)
    for start in range(0, 20_000, 100):
        fresh = sentences(rng.integers(1, 129, 100), start)
        inside += 100 - sum(len(slot.sentences) for slot in buckets.add(fresh))
        assert inside < most
    assert sum(len(slot.sentences) for slot in buckets.flush()) == inside
    assert list(buckets.flush()) == []


def test_widths_do_not_depend_on_neighbours(rng):
    lengths = rng.integers(1, 129, 300)
    width_of = {}
    for chosen in (np.arange(300), rng.permutation(300)[:40]):
        for slot in slots(lengths[chosen], 128, BatchSizes(1024, 0)):
            for i in chosen[slot.numbers]:
                assert width_of.setdefault(i, slot.width) == slot.width


def test_a_sentence_longer_than_the_widest_batch_is_refused():
    with pytest.raises(ValueError, match="a sentence has 129 tokens; batches take at most 128"):
        slots([5, 129], 128, BatchSizes(1024, 0))


def test_one_sentence_does_not_pay_for_a_full_batch():
    [slot] = slots([10], 128, BatchSizes(1024, 0))
    assert (slot.rows, slot.width) == (1, 16)
    [slot] = slots([10], 128, BatchSizes(32768, 4096))
    assert slot.rows * slot.width == 4096


def test_a_tail_is_cheap():
    # 64 rows of 16 are full; what is left goes row by row up to half a batch, else in a full one.
    rows = [slot.rows for slot in slots([16] * (64 + 5), 128, BatchSizes(1024, 0))]
    assert rows == [64, 1, 1, 1, 1, 1]
    assert [slot.rows for slot in slots([16] * (64 + 33), 128, BatchSizes(1024, 0))] == [64, 64]


def test_long_documents_have_widths_of_their_own():
    [slot] = slots([600], 8192, BatchSizes(1024, 0))
    assert (slot.rows, slot.width) == (1, 768)


def test_token_batch():
    batch = token_batch([np.array([5, 6], np.int32), np.array([7], np.int32)], rows=3, width=4, pad_id=1)
    assert batch.ids.tolist() == [[5, 6, 1, 1], [7, 1, 1, 1], [1, 1, 1, 1]]
    assert batch.lengths.tolist() == [2, 1, 0]
