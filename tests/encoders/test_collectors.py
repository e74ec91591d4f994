"""Batches in any order become one array in the input's, where it is collected on devices."""

import jax
import numpy as np
import pytest

from lsar_jax.encoders.collectors import DeviceResult
from lsar_jax.mesh import data_mesh, split
from lsar_jax.tokens.packing import PackedBatch


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 300, 5003])
def test_every_row_comes_to_its_place(rng, devices, n):
    """On several devices as on accelerators; what CPUs collect is in tests/encoders/test_sentence_encoder.py."""
    mesh = data_mesh(jax.devices()[:devices])
    result = DeviceResult(2, n, 3, mesh)
    expected = rng.normal(size=(2, n, 3)).astype(np.float32)
    order = rng.permutation(n)
    for start in range(0, n, 500):
        chosen = order[start : start + 500]
        # On each device, sentences come first.
        by_device = np.full((devices, 512 // devices), -1)
        for row, part in zip(by_device, np.array_split(chosen, devices), strict=True):
            row[: len(part)] = part
        numbers = by_device.reshape(-1)
        rows = np.full((2, 512, 3), np.nan, np.float32)
        rows[:, numbers >= 0] = expected[:, numbers[numbers >= 0]]
        batch = PackedBatch([], (4, 128), np.zeros((4, 1), np.int32), np.arange(512), numbers)
        result.add(batch, jax.device_put(rows, split(mesh, axis=1)))
    found = result.result(n)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, expected)
