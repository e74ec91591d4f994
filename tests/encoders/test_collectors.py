"""Batches in any order become one array in the input's, wherever it is collected."""

import jax
import numpy as np
import pytest

from lsar_jax.encoders.collectors import DeviceResult, HostResult, SharedResult, collector
from lsar_jax.mesh import data_mesh, split
from lsar_jax.tokens.buckets import Sentence, Slot


def make(kind, total, devices):
    mesh = data_mesh(jax.devices()[:devices])
    return HostResult(2, total, 3) if kind is HostResult else kind(2, total, 3, mesh)


@pytest.mark.parametrize("kind", [HostResult, DeviceResult, SharedResult])
@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("n", [0, 1, 300, 5003])
def test_every_row_comes_to_its_place(rng, kind, devices, known, n):
    expected = rng.normal(size=(2, n, 3)).astype(np.float32)
    order, result = rng.permutation(n), make(kind, n if known else None, devices)
    sharding = split(data_mesh(jax.devices()[:devices]), axis=1)
    for start in range(0, n, 500):
        chosen = order[start : start + 500]
        rows = np.full((2, 512, 3), np.nan, np.float32)
        rows[:, : len(chosen)] = expected[:, chosen]
        sentences = [Sentence(number, np.zeros(0, np.int32)) for number in chosen.tolist()]
        result.add(Slot(sentences, 512, 8), jax.device_put(rows, sharding))
    np.testing.assert_array_equal(result.result(n), expected)


def test_what_collects_where():
    one, four = (data_mesh(jax.devices()[:n]) for n in (1, 4))
    assert type(collector("numpy", 1, 1, 1, four)) is HostResult
    assert type(collector("jax", 1, 1, 1, one)) is DeviceResult
    assert type(collector("jax", 1, 1, 1, four)) is SharedResult
