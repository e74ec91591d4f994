"""The table of sentences: the first row of each, whatever the order and the number of them."""

import tempfile

import numpy as np
import pytest

from lsar_jax.embeddings import seen
from lsar_jax.embeddings.seen import Seen
from tests.attack.damage import on_a_full_disk


def test_first_rows_are_those_of_a_dict(rng):
    table, first, row = Seen(), {}, 0
    for count in (0, 1, 5, 30_000, 70_000, 3, 20_000):
        texts = [str(number) for number in rng.integers(0, 60_000, count)]
        expected = [first.setdefault(text, row + place) for place, text in enumerate(texts)]
        assert table.add(texts, row).tolist() == expected
        row += count
    assert len(table._table) == 1 << 17  # it was doubled
    assert table._used == len(first)
    table.close()


def test_digests_that_want_one_slot(monkeypatch, rng):
    """All digests choose among the last four slots, so that most are in later ones, from the first on."""

    def digests(texts):
        numbers = np.array([int(text) for text in texts], np.uint64)
        return np.stack([(numbers % np.uint64(4)) + np.uint64((1 << 16) - 4), numbers], axis=1)

    monkeypatch.setattr(seen, "_digests", digests)
    table, first, row = Seen(), {}, 0
    for _ in range(3):
        texts = [str(number) for number in rng.integers(0, 300, 200)]
        expected = [first.setdefault(text, row + place) for place, text in enumerate(texts)]
        assert table.add(texts, row).tolist() == expected
        row += 200


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    with on_a_full_disk(tmp_path / "disk", 1 << 20) as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with pytest.raises(OSError, match="table of distinct sentences was not written in .*: No space left .*TMPDIR"):
            Seen()
