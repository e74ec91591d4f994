"""The order of pairs in batches, and rows that are split over devices."""

import numpy as np
import pytest

from train.align.batches import order_of
from train.align.exchange import cut, joined


def test_one_order_for_all_passes():
    """Every pass over the pairs takes each once, and steps can be asked for in parts."""
    order = order_of(5, 10, 4, 0, 10)
    assert order.shape == (10, 4)
    for start in range(0, 40, 10):
        assert sorted(order.ravel()[start : start + 10]) == list(range(10))
    assert (order.ravel()[:10] != order.ravel()[10:20]).any()
    np.testing.assert_array_equal(np.concatenate([order_of(5, 10, 4, 0, 3), order_of(5, 10, 4, 3, 7)]), order)
    assert (order_of(6, 10, 4, 0, 10) != order).any()


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_rows_of_a_device_stay_together(devices):
    """Row after row of one device, then of the next; zeros end each; and apart again."""
    parts = [np.arange(1, 2 * devices + 1), 10 + np.arange(1, devices + 1), np.zeros(0, int)]
    whole = np.asarray(joined(parts, devices, 1)).reshape(devices, 4)
    for number, row in enumerate(whole):
        assert row.tolist() == [2 * number + 1, 2 * number + 2, 11 + number, 0]
    first = 0
    for part in parts:
        np.testing.assert_array_equal(cut(whole.reshape(-1), devices, len(part), first), part)
        first += len(part) // devices
