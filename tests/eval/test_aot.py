"""The cost of compiled programs: jaxprs counted by hand, programs on the devices here, and the command."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from eval.__main__ import main
from eval.bench.accelerators import TARGETS, Target
from eval.bench.aot import programs
from eval.bench.compiled import ProgramCost, read_rows, worse
from eval.bench.operations import operations_of
from eval.bench.programs.shapes import Sizes, floats, on_one
from lsar_jax.mesh import data_mesh
from tests.optional import need

need("optax")

PEAKS = {"memory": 1e12, "bfloat16": 1e9, "float32": 1e9, "fast_float32": 1e9}
HERE = Target("cpu", "here", len(jax.devices()), PEAKS)
TINY = Sizes(blocks=1, dim=32, languages=4, tokens=512, queries=2048, candidates=4096)
ROW = ProgramCost("encode", "v5e", 2.0, 15.0, "all-reduce", 10.0, "published", "jax 1")


def test_operations_are_counted_by_precision_and_platform():
    def on_tpu(x):
        narrow = x.astype(jnp.bfloat16)
        return (narrow @ narrow).astype(x.dtype)

    def f(x):
        for _ in range(3):
            x = jnp.matmul(x, x, precision="highest")
        x = jax.lax.scan(lambda x, _: (x @ x, None), x, None, length=5)[0]
        x = jax.lax.cond(x[0, 0] > 0, lambda x: x, lambda x: x @ x, x)
        return jax.lax.platform_dependent(x, tpu=on_tpu, default=lambda x: x @ x @ x)

    jaxpr, product = jax.jit(f).trace(jnp.ones((8, 8))).jaxpr, 2 * 8**3
    assert operations_of(jaxpr, "tpu") == {"float32": 3 * product, "fast_float32": 5 * product, "bfloat16": product}
    assert operations_of(jaxpr, "cuda") == {"float32": 3 * product, "fast_float32": 7 * product}


def test_the_operations_of_an_encoder():
    mesh = data_mesh(jax.devices())
    found = operations_of(programs(TINY, 1)["encode/base/float32/128"](mesh).jaxpr, "cuda")
    tokens = 512 * mesh.size
    blocks, pooling = 2 * (4 * 768**2 + 2 * 768 * 3072) + 4 * 128 * 768, 2 * 32 * 768
    assert found == {"float32": tokens * (blocks + pooling)}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"memory": 16.4, "collectives": ""}, []),
        ({"memory": 16.6}, ["encode on v5e needs 16.6 GB; it needed 15 GB with jax 1"]),
        (
            {"memory": 16.4, "collectives": "all-gather, all-reduce"},
            ["encode on v5e has all-gather; it had none with jax 1"],
        ),
    ],
)
def test_a_row_that_is_worse_than_before(changes, wrong):
    assert list(worse(replace(ROW, **changes), ROW, TARGETS["v5e"])) == wrong
    [text] = worse(replace(ROW, memory=17.5), None, TARGETS["v5e"])
    assert "needs 17.5 GB of memory; the device has 17.2" in text


@pytest.mark.parametrize("line", ["{", "{}", "[]"])
def test_rows_are_read_as_they_were_written(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.line() + "\n" + replace(ROW, target="v6e", memory=1.23456).line() + "\n")
    assert read_rows(path) == {("encode", "v5e"): ROW, ("encode", "v6e"): replace(ROW, target="v6e", memory=1.235)}
    path.write_text(ROW.line() + "\n" + line + "\n")
    with pytest.raises(ValueError, match=f"{path}.* line 2"):
        read_rows(path)


@pytest.fixture
def here(monkeypatch):
    """Makes this machine a target, as if its compiler were that of a device."""
    monkeypatch.setitem(TARGETS, "v5e", replace(HERE, devices=1))
    monkeypatch.setattr("eval.bench.aot.check_installed", lambda name: None)
    monkeypatch.setattr("eval.bench.aot.prepare", lambda: None)
    monkeypatch.setattr("eval.bench.aot.mesh_of", lambda target: data_mesh(jax.devices()[: target.devices]))


def test_a_table_is_written_and_compared_with(here, tmp_path, capsys):
    options = ["aot", "--small", "--targets", "v5e"]
    path = tmp_path / "rows.jsonl"
    assert main([*options, "--programs", "fit/outliers", "apply/center", "--out", str(path)]) == 0
    rows = read_rows(path)
    assert list(rows) == [("fit/outliers", "v5e"), ("apply/center", "v5e")]
    assert main([*options, "--programs", "fit/outliers", "--out", str(path)]) == 0  # is not compiled again
    assert read_rows(path) == rows
    assert main([*options, "--check", str(path)]) == 0
    assert "compared 2 programs" in capsys.readouterr().out
    worse_row = replace(rows["apply/center", "v5e"], memory=rows["apply/center", "v5e"].memory / 2)
    gone = replace(worse_row, program="apply/gone")
    path.write_text("".join(row.line() + "\n" for row in (rows["fit/outliers", "v5e"], worse_row, gone)))
    assert main([*options, "--check", str(path)]) == 1
    captured = capsys.readouterr()
    assert "apply/center on v5e needs" in captured.out
    assert "lists apply/gone on v5e, a program that no longer exists" in captured.out
    assert "2 programs failed" in captured.err
    assert main(["aot", "--targets", "v5e", "--check", str(path)]) == 1
    assert "the file has programs of small sizes; these are published" in capsys.readouterr().err


def test_a_program_that_does_not_compile_fails_the_command(here, capsys, monkeypatch):
    """The others are still compiled; this one calls what no compiler has."""

    def broken(x):
        return jax.ffi.ffi_call("no_such_call", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    traces = {name: on_one(f, floats(3)) for name, f in (("broken", broken), ("whole", jnp.sin))}
    monkeypatch.setattr("eval.bench.aot.programs", lambda sizes, devices: traces)
    assert main(["aot", "--small", "--targets", "v5e"]) == 1
    captured = capsys.readouterr()
    assert "v5e: whole, compiled in" in captured.out
    assert "broken on v5e does not compile" in captured.out
    assert "1 programs failed" in captured.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--programs", "fit/lsar", "encode/huge"], "--programs is encode/huge; it must be the beginning of one"),
        (["--programs", "fit/lsar", "--targets", "v5e-2x2"], "--programs is fit/lsar; it must be the beginning of one"),
        (["--check", "no-such-file"], "no-such-file"),
        (["--targets", "v5e"], "the compiler for v5e is not installed: pip install -e '.[aot]'"),
    ],
)
def test_clear_errors(capsys, monkeypatch, options, message):
    monkeypatch.setattr("eval.bench.accelerators.version", lambda package: version("no-such-package"))
    assert main(["aot", *options]) == 1
    assert message in capsys.readouterr().err


def test_published_rows_are_of_programs_that_exist():
    rows = read_rows(Path("eval/bench/published.jsonl"))
    known = {(name, target) for target, device in TARGETS.items() for name in programs(Sizes(), device.devices)}
    assert set(rows) <= known
