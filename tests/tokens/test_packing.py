"""The device calls: every sentence once, few shapes, little padding, nothing held for long."""

import numpy as np
import pytest

from lsar_jax.tokens.packing import BatchSizes, Sentence, batches, pack, segments

CPU = BatchSizes(512, 256, 1, (128, 256, 512, 2048, 8192), 128, 8)
ACCELERATOR = BatchSizes(32768, 4096)
EIGHT = BatchSizes(4096, 512, 8)
SIZES = {"cpu": CPU, "accelerator": ACCELERATOR, "eight": EIGHT}


def packed(lengths, sizes, chunk=2048):
    """The batches of sentences of these lengths; each token is the sentence's number, and so is its language's row."""
    every = [Sentence(i, np.full(length, i, np.int32), (i,)) for i, length in enumerate(lengths)]
    return list(batches((every[start : start + chunk] for start in range(0, len(every), chunk)), sizes))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("n", "longest"), [(0, 100), (1, 100), (7, 100), (1000, 100), (3000, 700), (700, 12)])
def test_every_sentence_once_where_the_arrays_say(rng, sizes, n, longest):
    lengths = rng.integers(0, longest + 1, n)
    every = packed(lengths, sizes, 500)
    assert sorted(number for batch in every for number in batch.numbers if number >= 0) == list(range(n))
    for batch in every:
        rows, width = batch.shape
        assert rows % sizes.devices == 0
        assert batch.shape in sizes.shapes(longest)
        assert batch.lengths.shape == (rows, segments(width))
        assert batch.lengths.sum(axis=1).max() <= width
        ids, [languages] = batch.ids(-1), batch.languages(1)
        assert (ids == -1).sum() == ids.size - batch.lengths.sum()
        # Of each device, as the program of a device sees it.
        parts = [np.split(x, sizes.devices) for x in (ids, batch.lengths, batch.places, batch.numbers, languages)]
        for ids, given, places, numbers, languages in zip(*parts, strict=True):
            assert sorted(places) == list(range(given.size))
            count = (numbers >= 0).sum()
            assert (numbers[:count] >= 0).all()
            assert languages.tolist() == [*numbers[:count], *[0] * (len(numbers) - count)]
            for place, number in zip(places[:count], numbers[:count], strict=True):
                row, segment = divmod(place, given.shape[1])
                start = given[row, :segment].sum()
                assert given[row, segment] == lengths[number]
                assert (ids[row, start : start + lengths[number]] == number).all()
            assert not given.reshape(-1)[places[count:]].any()


@pytest.mark.parametrize(
    ("draw", "least"),
    [
        (lambda rng: rng.integers(3, 40, 2048), 0.98),
        (lambda rng: rng.integers(5, 11, 2048), 0.98),
        (lambda rng: rng.integers(3, 6, 2048), 0.88),  # words, with two special tokens
        (lambda rng: np.minimum(rng.lognormal(3.6, 0.6, 2048).astype(int) + 2, 512), 0.98),
        (lambda rng: rng.integers(10, 500, 2048), 0.95),
        (lambda rng: np.full(2048, 65), 65 / 128),  # no two of them fit into a row
    ],
)
def test_the_share_of_positions_that_hold_a_token(rng, draw, least):
    lengths = draw(rng).tolist()
    rows = pack(lengths, CPU.widths)
    assert sorted(index for _, members in rows for index in members) == list(range(2048))
    for width, members in rows:
        assert sum(lengths[index] for index in members) <= width
        assert len(members) <= segments(width)
        assert width == min(width for width in CPU.widths if width >= max(lengths[index] for index in members))
    assert sum(lengths) / sum(width for width, _ in rows) >= least


def test_short_sentences_fill_what_long_ones_leave():
    assert pack([100, 300, 40, 20, 12, 130], (128, 256, 512)) == [(512, [1, 5, 2, 4]), (128, [0, 3])]
    # Without a length, a sentence takes no room, but a place.
    assert pack([0, 128, 0], (128,)) == [(128, [1]), (128, [0, 2])]


@pytest.mark.parametrize("sizes", [CPU, ACCELERATOR, EIGHT])
def test_a_mixed_stream_needs_six_shapes(rng, sizes):
    lengths = np.minimum(rng.lognormal(4, 1.5, 20_000).astype(int) + 1, 8192)
    lengths[:3] = 8192, 3000, 1000
    assert len({batch.shape for batch in packed(lengths, sizes)}) <= 6
    assert len({batch.shape for batch in packed(np.minimum(lengths, 512), sizes)}) <= 4
    assert len({batch.shape for batch in packed(lengths[:100], sizes)}) <= 6


def test_a_bounded_number_waits(rng):
    taken = given = 0

    def chunks():
        nonlocal taken
        for _ in range(200):
            # Fewer rows than eight full batches, and those of the last chunk.
            assert taken - given < 8 * 4 * 16
            taken += 100
            yield [Sentence(0, np.zeros(length, np.int32)) for length in rng.integers(8, 129, 100)]

    for batch in batches(chunks(), CPU):
        given += len(batch.sentences)
    assert taken == given == 20_000


@pytest.mark.parametrize(
    ("lengths", "sizes", "shapes"),
    [
        # A row that is the whole input is as narrow as it can be.
        ([10], CPU, [(1, 16)]),
        ([10, 10, 12], CPU, [(1, 32)]),
        ([1] * 5, CPU, [(1, 24)]),  # by the number of its sentences
        ([10], ACCELERATOR, [(1, 16)]),
        ([10], EIGHT, [(8, 16)]),
        ([300], CPU, [(1, 384)]),
        ([400], ACCELERATOR, [(1, 512)]),
        ([600], CPU, [(1, 768)]),
        ([600], EIGHT, [(8, 768)]),
        ([600] * 2, CPU, [(1, 1536)]),
        ([600] * 4, CPU, [(1, 2048), (1, 2048)]),
        # Few rows go by two, and one that is left by itself.
        ([100] * 2, CPU, [(2, 128)]),
        ([100] * 7, CPU, [(2, 128)] * 3 + [(1, 128)]),
        # Below eight full batches, small ones.
        ([100] * 31, CPU, [(2, 128)] * 16),
        ([100] * 32, CPU, [(4, 128)] * 8),
        ([100] * 37, CPU, [(4, 128)] * 9 + [(2, 128)]),
        ([200] * 3 + [120] * 3, CPU, [(2, 128), (1, 128), (1, 256), (1, 256), (1, 256)]),
        # Sentences a little over half a row go into wider ones, three by three; on an accelerator, seven by seven.
        ([70] * 9, CPU, [(1, 256)] * 3),
        ([70] * 56, ACCELERATOR, [(8, 512)]),
    ],
)
def test_shapes(lengths, sizes, shapes):
    assert [batch.shape for batch in packed(lengths, sizes)] == shapes
    assert set(shapes) <= set(sizes.shapes(max(lengths)))
