"""The device calls: every sentence once, in the width of its own length, nothing held for long."""

import numpy as np
import pytest

from lsar_jax.tokens.buckets import WIDTHS, BatchSizes, Sentence, batches


def slots(lengths, longest, sizes, chunk=50):
    """The batches of sentences of these lengths; each token is the sentence's number, and so is its language's row."""
    every = [Sentence(i, np.full(length, i, np.int32), (i,)) for i, length in enumerate(lengths)]
    return list(batches((every[start : start + chunk] for start in range(0, len(every), chunk)), longest, sizes))


@pytest.mark.parametrize("sizes", [BatchSizes(1024, 0), BatchSizes(32768, 4096, 8), BatchSizes(64, 64, 2)])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_every_sentence_once_in_its_width(rng, sizes, n):
    lengths = rng.integers(0, 101, n)
    every = slots(lengths, 100, sizes)
    assert sorted(number for slot in every for number in slot.numbers) == list(range(n))
    widths = [width for width in WIDTHS if width < 100] + [100]
    for slot in every:
        rows, width = slot.shape
        assert 1 <= len(slot.sentences) <= rows
        assert rows % sizes.devices == 0
        assert slot.shape in sizes.shapes(100)
        for number, ids, _ in slot.sentences:
            assert len(ids) == lengths[number]
            assert (ids == number).all()
            assert width == min(width for width in widths if width >= len(ids))
        # Every row carries its own row of the language tables; filler rows take 0.
        ids, lengths_of_rows, [languages] = slot.arrays(-1, 1)
        filler = [0] * (rows - len(slot.sentences))
        assert languages.tolist() == [*slot.numbers, *filler]
        assert lengths_of_rows.tolist() == [*lengths[slot.numbers], *filler]
        assert (ids == -1).sum() == ids.size - lengths_of_rows.sum()
    assert len(sizes.shapes(100)) <= 2 * len(widths)


def test_a_bounded_number_waits(rng):
    sizes, taken, given = BatchSizes(1024, 0), 0, 0
    most = sum(sizes.full(width) for width in WIDTHS if width <= 128)

    def chunks():
        nonlocal taken
        for _ in range(200):
            assert taken - given < most
            taken += 100
            yield [Sentence(0, np.zeros(length, np.int32)) for length in rng.integers(1, 129, 100)]

    for slot in batches(chunks(), 128, sizes):
        given += len(slot.sentences)
    assert taken == given == 20_000


@pytest.mark.parametrize(
    ("lengths", "longest", "sizes", "shapes"),
    [
        # One sentence does not pay for a full batch.
        ([10], 128, (1024, 0), [(1, 16)]),
        ([10], 128, (32768, 4096), [(256, 16)]),
        # 64 rows of 16 are full; what is left goes row by row up to half a batch, else in a full one.
        ([16] * (64 + 5), 128, (1024, 0), [(64, 16)] + [(1, 16)] * 5),
        ([16] * (64 + 33), 128, (1024, 0), [(64, 16)] * 2),
        # Long documents have widths of their own.
        ([600], 8192, (1024, 0), [(1, 768)]),
    ],
)
def test_shapes(lengths, longest, sizes, shapes):
    assert [slot.shape for slot in slots(lengths, longest, BatchSizes(*sizes))] == shapes
