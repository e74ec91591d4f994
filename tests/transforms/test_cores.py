"""The pure functions that the fits call: under ``jit``, ``vmap`` and ``grad`` and over a mesh, as numpy has it."""

import os
import re
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from lsar_jax import functional as lf
from lsar_jax import mesh
from lsar_jax.retrieval import nearest
from lsar_jax.transforms import (
    fit_cbie,
    fit_center,
    fit_identifier,
    fit_joint,
    fit_leace,
    fit_linear_map,
    fit_lir,
    fit_lsar,
    fit_steering,
    fit_whitening,
)
from lsar_jax.transforms.base import decompose
from lsar_jax.transforms.methods import cbie
from tests.transforms.test_methods import projector

ROOT = Path(__file__).parents[2]

# Three of each: means of 4 languages, 8 wide, covariances, orthonormal columns, and embeddings.
MEANS = np.random.default_rng(0).standard_normal((3, 4, 8))
ROOTS = np.random.default_rng(1).standard_normal((3, 8, 20)) * np.geomspace(1, 4, 8)[:, None]
COVARIANCES = ROOTS @ np.swapaxes(ROOTS, 1, 2)
SCATTER = COVARIANCES[:, None] * np.random.default_rng(2).uniform(1, 3, (3, 4, 8, 1)) * np.ones(8)
SCATTER = SCATTER + np.swapaxes(SCATTER, 2, 3)
SPANS = np.linalg.qr(ROOTS[..., :2])[0]
ROWS = np.random.default_rng(3).standard_normal((3, 64, 8)) + 2
CORES = {
    "subspace": (partial(lf.language_subspace, rank=2), [MEANS]),
    "algorithm 1": (partial(lf.language_components, rank=2), [MEANS]),
    "components": (partial(lf.principal_directions, components=3), [COVARIANCES]),
    "lir": (partial(lf.lir_directions, components=3), [9 * MEANS[:, 0], COVARIANCES]),
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
        # numpy decomposes float64; what has no form for numpy is compared with itself, alone on one device.
        given = stacks if name in ("cbie", "csls") else arrays
        expected = core(*(jax.numpy.asarray(stack[row]) if given is stacks else stack[row] for stack in given))
        found = jax.tree.map(lambda part, row=row: part[row], batch)
        assert all(isinstance(part, jax.Array) for part in jax.tree.leaves(found))
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-3), found, expected)
    devices = mesh.data_mesh(jax.devices()[:4])
    placed = [jax.device_put(stack[0], mesh.split(devices) if len(stack[0]) % 4 == 0 else None) for stack in stacks]
    alone = jax.tree.map(lambda part: part[0], batch)
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-4), jax.jit(core)(*placed), alone)


@pytest.mark.parametrize("rank", [1, 3])
def test_mu_and_gamma_are_those_of_the_printed_steps(rank):
    means = MEANS[0] + 2
    mu, subspace, gamma = lf.language_components(means, rank)
    printed_mu, printed, printed_gamma = lf.published_subspace(means, rank)
    np.testing.assert_allclose(mu, printed_mu, atol=1e-12)
    np.testing.assert_allclose(gamma @ subspace.T, printed_gamma @ printed.T, atol=1e-12)
    signs = np.sign((subspace * printed).sum(axis=0))
    np.testing.assert_allclose(subspace, printed * signs, atol=1e-12)


def test_cbie_and_csls_are_what_the_fit_and_the_search_find(x):
    key = jax.random.fold_in(jax.random.key(0), zlib.crc32(b"zh"))
    rows = x["zh"]
    expected = fit_cbie({"zh": rows}, 3, 4)(rows, "zh")
    np.testing.assert_allclose(lf.cbie(rows, key, 3, 4), expected, atol=1e-4)
    sides = x["de"], x["zh"]
    for k in (2, 12):
        jax.tree.map(
            partial(np.testing.assert_allclose, atol=1e-6),
            lf.csls(*map(jax.numpy.asarray, sides), jax.numpy.asarray(x["th"]), k), nearest(*sides, k, bank=x["th"]),
        )  # fmt: skip


def test_gradients_are_differences(rng):
    def removed(means, of):
        basis, _ = lf.language_subspace(means, 3)
        return jax.numpy.square(of(means) @ lf.zca(means.T @ means, 0.5) - means @ basis @ basis.T).sum()

    means, step = jax.numpy.asarray(MEANS[0], jax.numpy.float32), 1e-2 * rng.standard_normal((4, 8)).astype(np.float32)
    loss = partial(removed, of=lambda means: means)
    slope = (jax.grad(loss)(means) * step).sum()
    np.testing.assert_allclose(slope, (loss(means + step) - loss(means - step)) / 2, rtol=2e-2)


FITS = {
    "lir": partial(fit_lir, components=3),
    "lsar": fit_lsar,
    "whitening": fit_whitening,
    "language whitening": partial(fit_whitening, per_language=True),
    "leace": fit_leace,
    "steering": partial(fit_steering, components=2),
    "joint": fit_joint,
    "cbie": partial(fit_cbie, clusters=2, components=3),
    "identifier": fit_identifier,
    "linear map": lambda x: fit_linear_map({"de": (x["de"][:30], x["zh"][:30])}),
}


@pytest.mark.parametrize("name", FITS)
def test_arrays_of_a_device_are_fitted_there(x, name, monkeypatch):
    seen = set()

    def watched(program):
        return lambda first, *rest: seen.update(first.devices()) or program(first, *rest)

    on_host, compiled = FITS[name](x), decompose._compiled
    monkeypatch.setattr(decompose, "_compiled", lambda core, **static: watched(compiled(core, **static)))
    monkeypatch.setattr(cbie, "_clusters", watched(cbie._clusters))
    found = FITS[name]({code: jax.device_put(rows, jax.devices()[2]) for code, rows in x.items()})
    assert seen == {jax.devices()[2]}
    for code, rows in x.items() if name not in ("identifier", "linear map") else [("de", x["de"])]:
        if name == "identifier":
            np.testing.assert_allclose(found.weights, on_host.weights, atol=1e-4)
        else:
            near = 1e-4 * np.abs(np.asarray(on_host(rows, code))).max()
            np.testing.assert_allclose(found(rows, code), on_host(rows, code), atol=near)


def test_directions_after_a_large_mean(rng):
    mean = 30 * rng.standard_normal(384)
    rows = (rng.standard_normal((60, 384)) + mean).astype(np.float32)
    for given in (rows, jax.numpy.asarray(rows)):
        basis = fit_lir({"de": given}, 5).steps[0].basis[0]
        exact = np.linalg.svd(rows.astype(np.float64).T, full_matrices=False)[0][:, :5]
        np.testing.assert_allclose(projector(basis), exact @ exact.T, atol=2e-6)


@pytest.mark.parametrize("fit", [fit_center, *FITS.values()])
def test_a_fit_under_jit_names_the_pure_functions(x, fit):
    with pytest.raises(ValueError, match="under jit, vmap and grad there are none: use lsar_jax.functional"):
        jax.jit(lambda x: jax.tree.leaves(fit(x)))(x)


def test_the_program_of_the_page_on_eight_devices(capsys):
    page = (ROOT / "docs" / "explanation" / "transforms.md").read_text(encoding="utf-8")
    [program] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "functional" in block]
    found = {}
    for devices in (1, 8):
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices), "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert run.returncode == 0, run.stderr
        found[devices] = run.stdout
    assert found[1].replace("1 device", "8 device") == found[8]
