"""The cost of compiled programs: texts and jaxprs counted by hand, programs on the devices here, and the command."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from eval.__main__ import main
from eval.bench.accelerators import TARGETS, Peaks, Target
from eval.bench.aot import programs
from eval.bench.compiled import ProgramCost, read_rows, worse
from eval.bench.hlo_text import cost_of_text
from eval.bench.operations import operations_of
from eval.bench.programs.shapes import Sizes, floats, on_one
from lsar_jax.mesh import data_mesh
from tests.optional import need

need("optax")

TEXTS = Path(__file__).parent
HERE = Target("cpu", "here", len(jax.devices()), Peaks(1e12, 1e9, 1e9, 1e9, 1e9))
TINY = Sizes(blocks=1, dim=32, languages=4, tokens=512, queries=2048, candidates=4096)
ROW = ProgramCost("encode", "v5e", 10, 2.0, 3.0, 4.0, {"all-reduce": 2}, 10.0, 4.0, 0, "published", "jax 1")

# Computations of a program, and the beginning of its entry, to which tests add.
PROGRAM = (TEXTS / "program.hlo").read_text()
ARRAY = 8 * 16 * 4


def cost(*lines):
    return cost_of_text(PROGRAM + "".join(f"  {line}\n" for line in lines) + "}\n")


@pytest.mark.parametrize(
    ("line", "bytes_moved"),
    [
        ("ROOT %out = pred[8,16]{1,0} compare(%a, %a), direction=LT", 2 * ARRAY + 8 * 16),
        ("%near = bf16[8,16]{1,0:T(8,128)(2,1)S(1)} convert(%a), metadata={op_name=\"x(%y)\"}", ARRAY),
        ("%y = f32[8,16]{1,0} fusion(%a), kind=kLoop, calls=%fused", 2 * ARRAY),
        # A kernel that takes a row of an array, and one that replaces a row where it is.
        ("%row = f32[1,16]{1,0} fusion(%b, %k), kind=kLoop, calls=%taken", 2 * 64 + 4),
        ("%new = f32[100,16]{1,0} fusion(%b, %row, %k), kind=kLoop, calls=%updated", 2 * 64 + 4),
        ("%some = f32[3,16]{1,0} gather(%b, %k), offset_dims={1}", 2 * 3 * 64 + 4),
        # The same, of an array that is made in the kernel: all of it is written.
        ("%fresh = f32[100,16]{1,0} fusion(%row, %k), kind=kLoop, calls=%filled", 100 * 64 + 64 + 4),
        # A slice that goes on beside other work: its result tuple holds the operand too.
        ("%part = ((f32[100,16]{1,0}), f32[25,16]{1,0:S(1)}) slice-start(%b), slice={[0:25], [0:16]}", 25 * 64),
        # A copy that goes on beside other work, and one into fast memory.
        ("%start = (f32[8,16]{1,0}, f32[8,16]{1,0}) copy-start(%a)", 2 * ARRAY),
        ("%ahead = (f32[8,16]{1,0:S(1)}, f32[8,16]{1,0}) copy-start(%a)", ARRAY),
        # The scratch of NVIDIA's libraries is not traffic.
        ('%gemm = (f32[8,16]{1,0}, s8[4194304]{0}) custom-call(%a), custom_call_target="__cublas$gemm"', 2 * ARRAY),
    ],
)  # fmt: skip
def test_the_traffic_of_an_instruction(line, bytes_moved):
    given = ["%row = f32[1,16]{1,0:S(1)} parameter(3)"] if "%row," in line else []
    found = cost(*given, line)
    assert (found.traffic, found.kernels, found.collectives) == (bytes_moved - 64 * len(given), 1, {})


def test_a_loop_counts_as_often_as_it_runs():
    loop = "%w = (f32[8,16]{1,0}, s32[]) while(%a), condition=%until, body=%body"
    known = cost(loop + ', backend_config={"known_trip_count":{"n":"7"}}')
    assert (known.kernels, known.traffic, known.open_loops) == (7, 7 * 2 * ARRAY, 0)
    # As in TPU programs.
    counted = cost(loop.replace("%until", "%to_nine"))
    assert (counted.kernels, counted.traffic, counted.open_loops) == (9, 9 * 2 * ARRAY, 0)
    unknown = cost(loop)
    assert (unknown.kernels, unknown.traffic, unknown.open_loops) == (1, 2 * ARRAY, 1)


def test_of_a_condition_the_branch_that_moves_least_counts():
    assert cost("%c = f32[8,16]{1,0} conditional(%k, %a, %a), branch_computations={%rare, %usual}").traffic == 0


def test_collectives():
    found = cost(
        "%all = f32[32,16]{1,0} all-gather(%a), dimensions={0}",
        "%gather = (f32[8,16]{1,0}, f32[32,16]{1,0}) all-gather-start(%a), dimensions={0}",
        "%done = f32[32,16]{1,0} all-gather-done(%gather)",
        "%sum = f32[8,16]{1,0} all-reduce-start(%a), to_apply=%add",
        # In fast memory, and inside a kernel.
        "%x = f32[8,16]{1,0:S(1)} all-reduce(%a), to_apply=%add",
        "%own = f32[2,16]{1,0} fusion(%a), kind=kCustom, calls=%scattered",
    )
    assert found.collectives == {"all-gather": 2, "all-reduce": 3}


def test_the_cost_of_a_product():
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
    found = cost_of_text(jax.jit(jnp.matmul).lower(x, w).compile().as_text())
    assert (found.kernels, found.traffic) == (1, 4 * (64 * 32 + 32 * 16 + 64 * 16))


def test_a_collective_beside_a_loop_counts_once():
    """It begins before the loop, goes on in each of its steps, and ends after it, in kernels of its own."""
    found = cost_of_text((TEXTS / "beside_a_loop.hlo").read_text())
    assert (found.collectives, found.kernels) == ({"all-gather": 1}, 1 + 5 + 1)
    # A step of the loop writes its result and reads a number; the end reads what is sent and writes what was gathered.
    assert found.traffic == 5 * (4 * 16 * 4 + 4) + 2 * 16 * 4 + 8 * 16 * 4


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
    blocks, pooling = 2 * (4 * 768**2 + 2 * 768 * 3072) + 4 * 128 * 768, 2 * 16 * 768
    assert found == {"float32": tokens * (blocks + pooling)}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"traffic": 3.29, "memory": 16.0, "collectives": {"all-reduce": 1}}, []),
        ({"traffic": 3.31}, ["encode on v5e moves 3.31 GB; it moved 3 GB with jax 1"]),
        ({"memory": 17.5}, ["encode on v5e needs 17.5 GB of memory; the device has 17.2 GB"]),
        ({"collectives": {"all-reduce": 3}}, ["encode on v5e has 3 all-reduce; it had 2 with jax 1"]),
        ({"open_loops": 1}, ["encode on v5e has 1 loops of unknown length; it had 0 with jax 1"]),
    ],
)
def test_a_row_that_is_worse_than_before(changes, wrong):
    assert list(worse(replace(ROW, **changes), ROW, TARGETS["v5e"])) == wrong


@pytest.mark.parametrize("line", ["{", "{}", "[]"])
def test_rows_are_read_as_they_were_written(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.line() + "\n" + replace(ROW, target="v6e", traffic=1.23456).line() + "\n")
    assert read_rows(path) == {("encode", "v5e"): ROW, ("encode", "v6e"): replace(ROW, target="v6e", traffic=1.235)}
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
    worse_row = replace(rows["apply/center", "v5e"], traffic=rows["apply/center", "v5e"].traffic / 2)
    gone = replace(worse_row, program="apply/gone")
    path.write_text("".join(row.line() + "\n" for row in (rows["fit/outliers", "v5e"], worse_row, gone)))
    assert main([*options, "--check", str(path)]) == 1
    captured = capsys.readouterr()
    assert "apply/center on v5e moves" in captured.out
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
