"""What a compiled program takes: its traffic by hand, and the step of alignment for the devices that are here."""

import jax
import jax.numpy as jnp
import pytest

from eval.__main__ import main
from eval.speed.compiled import Compiled, traffic
from lsar_jax.mesh import data_mesh, replicated, split
from lsar_jax.models.transformer import TransformerConfig
from tests.optional import need

need("optax")

PROGRAM = """\
HloModule jit_f, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}

%fused (p: f32[8,16]) -> f32[8,16] {
  %p = f32[8,16]{1,0} parameter(0)
  ROOT %big = f32[1000,16]{1,0} add(%p, %p)
}

%body (s: (f32[8,16], s32[])) -> (f32[8,16], s32[]) {
  %s = (f32[8,16]{1,0}, s32[]) parameter(0)
  %x = f32[8,16]{1,0} get-tuple-element(%s), index=0
  %y = f32[8,16]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%fused
  ROOT %t = (f32[8,16]{1,0}, s32[]) tuple(%y, %x)
}

ENTRY %main (a: f32[8,16]) -> f32[8,16] {
  %a = f32[8,16]{1,0} parameter(0)
  %near = bf16[8,16]{1,0:T(8,128)(2,1)S(1)} convert(%a), metadata={op_name="x(%y)"}
  %all = f32[32,16]{1,0} all-gather(%near), dimensions={0}
  %w = (f32[8,16]{1,0}, s32[]) while(%a), condition=%until, body=%body
  %start = (f32[8,16]{1,0}, f32[8,16]{1,0}) copy-start(%a)
  %done = f32[8,16]{1,0} copy-done(%start)
  %ahead = (f32[8,16]{1,0:S(1)}, f32[8,16]{1,0}) copy-start(%a)
  %gather = (f32[8,16]{1,0}, f32[32,16]{1,0}) all-gather-start(%a), dimensions={0}
  %sum = f32[8,16]{1,0} all-reduce-start(%a), to_apply=%add
  ROOT %out = pred[8,16]{1,0} compare(%done, %a), direction=LT
}
"""


def test_the_traffic_of_a_program_by_hand():
    array = 8 * 16 * 4
    # The body's fusion; the conversion reads and stays near; the gather writes; a copy; one into fast memory; another
    # gather; the sum; the comparison.
    assert traffic(PROGRAM) == {
        "memory": 2 * array + array + 4 * array + 2 * array + array + 5 * array + 2 * array + (2 * array + 8 * 16),
        "between devices": 4 * array + 4 * array + array,
    }


def test_the_traffic_of_a_product():
    x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
    text = jax.jit(jnp.matmul).lower(x, w).compile().as_text()
    assert traffic(text) == {"memory": 4 * (64 * 32 + 32 * 16 + 64 * 16), "between devices": 0}


def test_the_traffic_between_devices():
    mesh = data_mesh()
    x = jax.device_put(jnp.ones((8, 128)), split(mesh))
    text = jax.jit(lambda x: x + 1, out_shardings=replicated(mesh)).lower(x).compile().as_text()
    assert traffic(text)["between devices"] == 8 * 128 * 4


@pytest.mark.slow
def test_the_step_compiles_for_the_devices_that_are_here():
    config = TransformerConfig(50, 16, 2, 2, 32, 24, 1)
    lowered = Compiled(pairs=2, max_length=8, links=3).lowered(config, data_mesh())
    compiled = lowered.compile()
    count = 50 * 16 + 24 * 16 + 16 + 2 * 16 + 2 * (4 * (16 * 16 + 16) + 2 * 16 * 32 + 16 + 32 + 4 * 16)
    projector = 16 * 16 + 128 * 16
    taken = compiled.memory_analysis().argument_size_in_bytes
    # Parameters, where they started, and two moments of Adam; the batch takes little.
    assert taken == pytest.approx(4 * (4 * count + 3 * projector), rel=0.02)
    assert traffic(compiled.as_text())["between devices"] > 4 * count


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target", "v5e"], "--target is v5e; it must be a TPU topology"),
        (["--pairs", "0"], "--pairs is 0"),
        (["--max-length", "513"], "--max-length is 513; the encoder takes at most 512"),
    ],
)
def test_clear_errors(capsys, more, message):
    assert main(["compiled", *more]) == 1
    assert message in capsys.readouterr().err
