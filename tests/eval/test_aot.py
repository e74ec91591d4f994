"""What compiled programs take: texts and jaxprs counted by hand, and the programs themselves on the devices here."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from eval.aot.arguments import Sizes
from eval.aot.operations import operations_of
from eval.aot.program_text import cost_of_text
from eval.aot.programs import programs
from eval.aot.row import measured
from eval.aot.targets import Target
from lsar_jax.mesh import data_mesh, replicated, split
from tests.optional import need

need("optax")

HERE = Target("cpu", "here", len(jax.devices()), 1e12, 1e9, dict.fromkeys(("bfloat16", "float32", "fast float32"), 1e9))
TINY = Sizes(blocks=1, dim=32, languages=4, tokens=512, queries=2048, candidates=4096)

PROGRAM = """\
HloModule jit_f, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}

%fused (p: f32[8,16]) -> f32[8,16] {
  %p = f32[8,16]{1,0} parameter(0)
  ROOT %big = f32[1000,16]{1,0} add(%p, %p)
}

%taken (q: f32[100,16], i: s32[]) -> f32[1,16] {
  %q = f32[100,16]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %same = f32[100,16]{1,0} bitcast(%q)
  ROOT %slice = f32[1,16]{1,0} dynamic-slice(%same, %i), dynamic_slice_sizes={1,16}
}

%updated (o: f32[100,16], n: f32[1,16], j: s32[]) -> f32[100,16] {
  %o = f32[100,16]{1,0} parameter(0)
  %n = f32[1,16]{1,0} parameter(1)
  %j = s32[] parameter(2)
  ROOT %put = f32[100,16]{1,0} dynamic-update-slice(%o, %n, %j)
}

%filled (n: f32[1,16], j: s32[]) -> f32[100,16] {
  %n = f32[1,16]{1,0} parameter(0)
  %j = s32[] parameter(1)
  %zero = f32[] constant(0)
  %zeros = f32[100,16]{1,0} broadcast(%zero), dimensions={}
  ROOT %put = f32[100,16]{1,0} dynamic-update-slice(%zeros, %n, %j)
}

%to_nine (s: (f32[8,16], s32[])) -> pred[] {
  %s = (f32[8,16]{1,0}, s32[]{:T(128)}) parameter(0)
  %nine = s32[]{:T(128)} constant(9), metadata={op_name="x"}
  %count = s32[]{:T(128)} get-tuple-element(%s), index=1
  ROOT %lt = pred[]{:T(512)} compare(%count, %nine), direction=LT
}

%scattered (r: f32[8,16]) -> f32[2,16] {
  %r = f32[8,16]{1,0} parameter(0)
  %sum = f32[8,16]{1,0} all-reduce(%r), to_apply=%add
  ROOT %own = f32[2,16]{1,0} slice(%sum), slice={[0:2], [0:16]}
}

%body (s: (f32[8,16], s32[])) -> (f32[8,16], s32[]) {
  %s = (f32[8,16]{1,0}, s32[]) parameter(0)
  %x = f32[8,16]{1,0} get-tuple-element(%s), index=0
  %y = f32[8,16]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%fused
  ROOT %t = (f32[8,16]{1,0}, s32[]) tuple(%y, %x)
}

%rare (r: f32[8,16]) -> f32[8,16] {
  %r = f32[8,16]{1,0} parameter(0)
  ROOT %twice = f32[8,16]{1,0} add(%r, %r)
}

%usual (u: f32[8,16]) -> f32[8,16] {
  ROOT %u = f32[8,16]{1,0} parameter(0)
}

ENTRY %main (a: f32[8,16], b: f32[100,16], k: s32[]) -> f32[8,16] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[100,16]{1,0} parameter(1)
  %k = s32[] parameter(2)
"""
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
    given = [] if "%row," not in line else ["%row = f32[1,16]{1,0:S(1)} parameter(3)"]
    found = cost(*given, line)
    assert found.traffic == bytes_moved - 64 * bool(given)
    assert found.kernels == 1
    assert not found.collectives


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
    )
    assert found.collectives == {"all-gather": 2, "all-reduce": 1}
    assert found.between_devices == 4 * ARRAY + 4 * ARRAY + ARRAY


@pytest.mark.parametrize(
    "line",
    [
        "%x = f32[8,16]{1,0:S(1)} all-reduce(%a), to_apply=%add",
        "%own = f32[2,16]{1,0} fusion(%a), kind=kCustom, calls=%scattered",
    ],
)
def test_collectives_in_fast_memory_and_inside_kernels(line):
    found = cost(line)
    assert found.collectives == {"all-reduce": 1}
    assert found.between_devices == ARRAY


def test_the_cost_of_a_product():
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
    found = cost_of_text(jax.jit(jnp.matmul).lower(x, w).compile().as_text())
    assert (found.kernels, found.traffic) == (1, 4 * (64 * 32 + 32 * 16 + 64 * 16))


def test_the_collectives_of_a_program():
    mesh = data_mesh(jax.devices())
    x = jax.device_put(jnp.ones((8, 128)), split(mesh))
    text = jax.jit(lambda x: x + 1, out_shardings=replicated(mesh)).lower(x).compile().as_text()
    assert cost_of_text(text).between_devices == 8 * 128 * 4


def test_a_collective_beside_a_loop_counts_once():
    """It begins before the loop, goes on in each of its steps, and ends after it, in kernels of its own."""
    sent, array = "f32[2,16]{1,0:T(8,128)}", "f32[8,16]{1,0:T(8,128)}"
    inside = f"(p: f32[2,16], q: f32[8,16]) -> f32[8,16] {{\n  %p = {sent} parameter(0)\n  %q = {array} parameter(1)\n"
    kernels = "".join(
        f"%{name} {inside}  ROOT %g.{number} = {array} all-gather(%p), dimensions={{0}}\n}}\n\n"
        for number, name in enumerate(("begun", "async_collective_fusion.7", "ended"))
    )
    aliases = "output_to_operand_aliasing={{1}: (0, {}), {2}: (1, {})}"
    body = f"""%body (s: (s32[], f32[2,16], f32[8,16])) -> (s32[], f32[2,16], f32[8,16]) {{
  %s = (s32[], {sent}, {array}) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %x = {sent} get-tuple-element(%s), index=1
  %y = {array} get-tuple-element(%s), index=2
  %own = (f32[4,16]{{1,0}}, {sent}, {array}) fusion(%x, %y, %n), {aliases}, calls=%async_collective_fusion.7
}}

%until (t: (s32[], f32[2,16], f32[8,16])) -> pred[] {{
  %t = (s32[], {sent}, {array}) parameter(0)
  %m = s32[] get-tuple-element(%t), index=0
  %most = s32[] constant(5)
  ROOT %less = pred[] compare(%m, %most), direction=LT
}}

"""
    header, entry = "HloModule jit_f\n\n", f"ENTRY %main (a: f32[2,16]) -> f32[8,16] {{\n  %a = {sent} parameter(0)\n"
    main = f"""  %async-collective-start = ({sent}, {array}) fusion(%a), kind=kCustom, calls=%begun
  %x0 = {sent} get-tuple-element(%async-collective-start), index=0
  %y0 = {array} get-tuple-element(%async-collective-start), index=1
  %k = s32[] constant(0)
  %tuple = (s32[], {sent}, {array}) tuple(%k, %x0, %y0)
  %loop = (s32[], {sent}, {array}) while(%tuple), condition=%until, body=%body
  %x1 = {sent} get-tuple-element(%loop), index=1
  %y1 = {array} get-tuple-element(%loop), index=2
  ROOT %async-collective-done = {array} fusion(%x1, %y1), kind=kCustom, calls=%ended
}}
"""
    found = cost_of_text(header + kernels + body + entry + main)
    assert (found.collectives, found.between_devices) == ({"all-gather": 1}, 8 * 16 * 4)
    # Each step of the loop writes its own result and reads a number; the end reads what is sent and writes what was
    # gathered.
    assert found.traffic == 5 * (4 * 16 * 4 + 4) + 2 * 16 * 4 + 8 * 16 * 4
    assert found.kernels == 1 + 5 + 1


def test_operations_are_counted_by_precision():
    def f(x, y):
        for _ in range(2):
            x = jnp.matmul(x, y, precision="highest")
        x = jax.lax.scan(lambda x, _: (x @ y, None), x, None, length=5)[0]
        return jax.lax.cond(x[0, 0] > 0, lambda x: x, lambda x: x @ y, x)

    jaxpr = jax.jit(f).trace(jnp.ones((4, 8)), jnp.ones((8, 8))).jaxpr
    one = 2 * 4 * 8 * 8
    assert operations_of(jaxpr, "tpu") == {"float32": 2 * one, "fast float32": 5 * one}


def test_operations_are_those_of_the_platform():
    def f(x):
        narrow = x.astype(jnp.bfloat16)
        return jax.lax.platform_dependent(
            x, narrow, tpu=lambda x, narrow: (narrow @ narrow).astype(x.dtype), default=lambda x, narrow: x @ x @ x
        )

    jaxpr = jax.jit(f).trace(jnp.ones((8, 8))).jaxpr
    assert operations_of(jaxpr, "tpu") == {"bfloat16": 2 * 8**3}
    assert operations_of(jaxpr, "cuda") == {"fast float32": 4 * 8**3}


def test_the_operations_of_an_encoder():
    mesh = data_mesh(jax.devices())
    found = operations_of(programs(TINY, 1)["encode/base/float32/128"](mesh).jaxpr, "cuda")
    tokens = 512 * mesh.size
    assert found == {"float32": 2 * tokens * (4 * 768**2 + 2 * 768 * 3072) + 4 * tokens * 128 * 768}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "encode/base/float32/128/lsar",
        "encode/base/bfloat16/32",
        "encode/laser/bfloat16/128",
        "moments/second",
        "nearest/float32/4",
        "mine/bfloat16/4",
        "disentangle/dream/5-seeds",
        "align/l2/base/16",
        "align/sentence/base/16",
        "fit/lir",
        "fit/cbie/clusters",
        "fit/leace",
        "apply/cbie",
        "apply/language-whitening",
        "apply/identifier",
    ],
)
def test_every_program_compiles_for_the_devices_that_are_here(name):
    mesh = data_mesh(jax.devices()) if name in programs(TINY, 2) else data_mesh(jax.devices()[:1])
    row = measured(name, "here", replace(HERE, devices=mesh.size), programs(TINY, 1)[name](mesh), "tiny")
    assert row.kernels > 0
    assert row.traffic > 0
    encodes = name.startswith(("encode", "moments", "nearest"))
    assert not (encodes and row.collectives), row.collectives


@pytest.mark.slow
def test_the_memory_of_a_step_of_alignment():
    mesh = data_mesh(jax.devices())
    row = measured(
        "align", "here", replace(HERE, devices=mesh.size), programs(TINY, 1)["align/strong/base/16"](mesh), "tiny"
    )
    block = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 768 + 3072 + 4 * 768
    count = (250_002 + 514 + 1 + 2) * 768 + block
    # Parameters, where they started, and two moments of Adam; what is between them takes more.
    assert row.memory * 1e9 > 16 * count
    assert row.between_devices * 1e9 > 4 * count
