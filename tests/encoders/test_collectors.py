"""Batches in any order become one array in the input's, wherever it is collected."""

import jax
import numpy as np
import pytest

from lsar_jax.encoders.collectors import DeviceResult, HostResult, collector
from lsar_jax.mesh import data_mesh, split
from lsar_jax.tokens.buckets import Sentence, Slot


@pytest.mark.parametrize("kind", ["host", "device", "shared"])
@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("n", [0, 1, 300, 5003])
def test_every_row_comes_to_its_place(rng, kind, devices, known, n):
    mesh, total = data_mesh(jax.devices()[:devices]), n if known else None
    result = (
        DeviceResult(2, total, 3, mesh) if kind == "device" else HostResult(2, total, 3, {"shared": mesh}.get(kind))
    )
    expected = rng.normal(size=(2, n, 3)).astype(np.float32)
    order = rng.permutation(n)
    for start in range(0, n, 500):
        chosen = order[start : start + 500]
        rows = np.full((2, 512, 3), np.nan, np.float32)
        rows[:, : len(chosen)] = expected[:, chosen]
        sentences = [Sentence(number, np.zeros(0, np.int32)) for number in chosen.tolist()]
        result.add(Slot(sentences, (512, 8)), jax.device_put(rows, split(mesh, axis=1)))
    found = result.result(n)
    assert isinstance(found, np.ndarray if kind == "host" else jax.Array)
    np.testing.assert_array_equal(found, expected)


def test_the_collector_of_each_output():
    one, four = (data_mesh(jax.devices()[:n]) for n in (1, 4))
    assert type(collector("numpy", 1, 1, 1, four)) is HostResult
    assert type(collector("jax", 1, 1, 1, one)) is DeviceResult
    assert type(collector("jax", 1, 1, 1, four)) is HostResult
