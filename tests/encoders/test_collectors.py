"""Batches in any order become one array in the input's, wherever it is collected."""

import jax
import numpy as np
import pytest

from lsar_jax.encoders.collectors import DeviceResult, HostResult, collector
from lsar_jax.mesh import data_mesh, split
from lsar_jax.tokens.buckets import Sentence, Slot


@pytest.mark.parametrize(("output", "devices"), [("numpy", 1), ("numpy", 4), ("jax", 1), ("jax", 4)])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("n", [0, 1, 300, 5003])
def test_every_row_comes_to_its_place(rng, output, devices, known, n):
    mesh = data_mesh(jax.devices()[:devices])
    result = collector(output, 2, n if known else None, 3, mesh)
    assert type(result) is (DeviceResult if (output, devices) == ("jax", 1) else HostResult)
    expected = rng.normal(size=(2, n, 3)).astype(np.float32)
    order = rng.permutation(n)
    for start in range(0, n, 500):
        chosen = order[start : start + 500]
        rows = np.full((2, 512, 3), np.nan, np.float32)
        rows[:, : len(chosen)] = expected[:, chosen]
        sentences = [Sentence(number, np.zeros(0, np.int32)) for number in chosen.tolist()]
        result.add(Slot(sentences, (512, 8)), jax.device_put(rows, split(mesh, axis=1)))
    found = result.result(n)
    assert isinstance(found, np.ndarray if output == "numpy" else jax.Array)
    np.testing.assert_array_equal(found, expected)
