"""The pure functions that the fits call: under ``jit``, ``vmap`` and ``grad`` and over a mesh, as numpy has it."""

import os
import re
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from lsar_jax import functional as lf
from lsar_jax import mesh
from lsar_jax import transforms as lt
from lsar_jax.retrieval import nearest
from lsar_jax.transforms.base import decompose
from lsar_jax.transforms.methods import cbie
from tests import reference
from tests.transforms import test_base
from tests.transforms.test_methods import projector

ROOT = Path(__file__).parents[2]

# Three of each: means of 4 languages, 8 wide, covariances, orthonormal columns, and embeddings.
MEANS = np.random.default_rng(0).standard_normal((3, 4, 8))
ROOTS = np.random.default_rng(1).standard_normal((3, 8, 20)) * np.geomspace(1, 4, 8)[:, None]
COVARIANCES = ROOTS @ np.swapaxes(ROOTS, 1, 2)
SCATTER = COVARIANCES[:, None] * np.random.default_rng(2).uniform(1, 3, (3, 4, 8, 1)) * np.ones(8)
SCATTER = SCATTER + np.swapaxes(SCATTER, 2, 3)
SPANS = np.linalg.qr(ROOTS[..., :2])[0]
# Wide enough that the leading directions are iterated.
WIDE = np.random.default_rng(3).standard_normal((3, 64, 90)) * np.geomspace(1, 60, 64)[:, None] / 60
WIDE = WIDE @ np.swapaxes(WIDE, 1, 2)
ROWS = jax.random.normal(jax.random.key(0), (3, 64, 8)) + 2
CORES = {
    "subspace": (partial(lf.language_subspace, rank=2), [MEANS]),
    "algorithm 1": (partial(lf.language_components, rank=2), [MEANS]),
    "components": (partial(lf.principal_directions, components=3), [COVARIANCES]),
    "lir": (partial(lf.lir_directions, components=3), [9 * MEANS[:, 0], COVARIANCES]),
    "lir, iterated": (partial(lf.lir_directions, components=2), [9 * WIDE[:, 0], WIDE]),
    "zca": (partial(lf.zca, eps=0.1), [COVARIANCES]),
    "leace": (partial(lf.erasing_functionals, floor=1e-6), [COVARIANCES, SPANS]),
    "identifier": (partial(lf.discriminant, shrinkage=0.1), [MEANS, COVARIANCES]),
    "procrustes": (lf.procrustes, [ROOTS[..., :8]]),
    "outliers": (partial(lf.outlier_mask, sigma=0.5), [MEANS]),
    "largest": (partial(lf.largest_dimensions, largest=2), [MEANS]),
    "varying": (partial(lf.varying_dimensions, dimensions=3), [MEANS]),
    "joint": (partial(lf.scatter_directions, components=2), [SCATTER, SPANS]),
    "cbie": (partial(lf.cbie, clusters=2, components=2, key=jax.random.key(0)), [ROWS]),
    "csls": (partial(lf.csls, k=3), [ROWS[:, :5], ROWS, ROWS[:, ::2]]),
}


@pytest.mark.parametrize("name", CORES)
def test_cores_under_jit_and_vmap_and_over_a_mesh(name):
    core, arrays = CORES[name]
    stacks = [stack.astype(np.float32) for stack in arrays]
    batch = jax.vmap(jax.jit(core))(*stacks)
    for row in range(3):
        expected = core(*(stack[row] for stack in arrays))  # by numpy in float64, if it can
        found = jax.tree.map(lambda part, row=row: part[row], batch)
        assert all(isinstance(part, jax.Array) for part in jax.tree.leaves(found))
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-3), found, expected)
    devices = mesh.data_mesh(jax.devices()[:4])
    placed = [jax.device_put(stack[0], mesh.split(devices) if len(stack[0]) % 4 == 0 else None) for stack in stacks]
    alone = jax.tree.map(lambda part: part[0], batch)
    # LIR's singular values reach 490, where a step of float32 is 3e-5.
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-4, rtol=1e-6), jax.jit(core)(*placed), alone)


@pytest.mark.parametrize("rank", [1, 3])
def test_mu_and_gamma_are_those_of_the_printed_steps(rank):
    mu, subspace, gamma = lf.language_components(MEANS[0] + 2, rank)
    expected = lt.published_subspace(MEANS[0] + 2, rank)
    signs = np.sign((subspace * expected[1]).sum(axis=0))
    for found, printed in zip((mu, subspace * signs, gamma * signs), expected, strict=True):
        np.testing.assert_allclose(found, printed, atol=1e-12)


@pytest.mark.parametrize("k", [2, 12])
def test_cbie_and_csls_are_what_the_fit_and_the_search_find(x, k):
    key = jax.random.fold_in(jax.random.key(0), zlib.crc32(b"zh"))
    expected = lt.fit_cbie({"zh": x["zh"]}, 3, k)(x["zh"], "zh")
    np.testing.assert_allclose(lf.cbie(x["zh"], key, 3, k), expected, atol=1e-4)
    found = lf.csls(*(jax.numpy.asarray(x[code]) for code in ("de", "zh", "th")), k)
    for part, of_search in zip(found, nearest(x["de"], x["zh"], k, bank=x["th"]), strict=True):
        np.testing.assert_allclose(part, of_search, atol=1e-6)


def test_gradients_are_differences():
    def loss(means):
        basis, _ = lf.language_subspace(means, 2)
        return ((means @ lf.zca(COVARIANCES[0].astype(np.float32) + means.T @ means, 0.5) @ basis) ** 2).sum()

    means, step = MEANS[0].astype(np.float32), 1e-2 * MEANS[1].astype(np.float32)
    slope = (jax.grad(loss)(means) * step).sum()
    np.testing.assert_allclose(slope, (loss(means + step) - loss(means - step)) / 2, rtol=2e-2)


DECOMPOSED = ("lsar", "whitening", "whitening per language", "cbie", "leace", "steering")
FITS = test_base.FITS | {"steering": lt.fit_steering, "joint": lt.fit_joint}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_arrays_of_a_device_are_decomposed_there(x, name, monkeypatch):
    def watched(program):
        return lambda first, *rest, **options: seen.update(first.devices()) or program(first, *rest, **options)

    seen, on_host = set(), FITS[name](x)
    jit = {"jit": lambda *of, **options: watched(jax.jit(*of, **options))}
    monkeypatch.setattr(decompose, "jax", SimpleNamespace(**(vars(jax) | jit)))
    monkeypatch.setattr(cbie, "_clusters", watched(cbie._clusters))
    found = FITS[name]({code: jax.device_put(rows, jax.devices()[2]) for code, rows in x.items()})
    assert seen == {jax.devices()[2]}
    for code, rows in x.items():
        expected = np.asarray(on_host(rows[:30], code))  # as many as the linear map has pairs
        np.testing.assert_allclose(found(rows[:30], code), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "digits"), {"lsar": 1e-5, "whitening": 3e-3, "leace": 3e-3, "cbie": 1e-5}.items())
def test_digits_of_a_device_where_deviations_fall_to_a_hundredth(rng, name, digits):
    means, scale = 2 * rng.standard_normal((4, 1, 64)), 10 ** -np.linspace(0, 2, 64)
    rows = ((rng.standard_normal((4, 400, 64)) + means) * scale).astype(np.float32)
    x = dict(zip(("de", "en", "th", "zh"), rows, strict=True))
    found = FITS[name]({code: jax.device_put(part) for code, part in x.items()})
    expected = np.stack([FITS[name](x)(part, code) for code, part in x.items()])
    for part, code, exact in zip(rows, x, expected, strict=True):
        np.testing.assert_allclose(found(part, code), exact, rtol=0, atol=digits * np.abs(expected).max())


@pytest.mark.parametrize("given", [np.asarray, jax.numpy.asarray])
def test_a_large_mean_costs_lir_no_digits(rng, given):
    rows = (rng.standard_normal((60, 384)) + 30 * rng.standard_normal(384)).astype(np.float32)
    basis = lt.fit_lir({"de": given(rows)}, 5).steps[0].basis[0]
    moved = reference.lir(rows, rows, 5)
    np.testing.assert_allclose(rows - rows.astype(float) @ projector(basis), moved, atol=1e-5 * np.abs(moved).max())


@pytest.mark.parametrize("name", [*DECOMPOSED, "lir", "linear map", "joint", "center", "shift"])
def test_a_fit_under_jit_names_the_pure_functions(x, name):
    with pytest.raises(ValueError, match="under jit, vmap and grad there are none: use lsar_jax.functional"):
        jax.jit(FITS[name])(x)


def test_the_program_of_the_page_on_one_and_on_eight_devices():
    page = (ROOT / "docs" / "explanation" / "transforms.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for devices in ("1", "8"):
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": devices, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert run.stdout == f"16 of 16 found on {devices} devices\n", run.stderr
