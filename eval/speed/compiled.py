r"""Memory and traffic of an alignment step, as XLA compiles it for an accelerator that need not be there.

    pip install --no-deps libtpu                                               # as jax[tpu] of this version asks for
    JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 python -m eval compiled --target v5e:4x4 --size large

For an NVIDIA target, put the CUDA packages of this version of jax into a folder of their own, and write the
``GpuTargetConfigProto`` of the GPU to a file; openxla/xla has such files in ``xla/backends/gpu/target_config/specs``.

    pip install --no-deps --target cuda jax-cuda12-plugin==$JAX jax-cuda12-pjrt==$JAX nvidia-cuda-nvcc-cu12 \
        nvidia-cuda-runtime-cu12 nvidia-nvjitlink-cu12
    PYTHONPATH=cuda JAX_PLATFORMS=cpu JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 \
        XLA_FLAGS="--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir=cuda/nvidia/cuda_nvcc" \
        python -m eval compiled --target h200.txtpb --size large

The compiler says how much of a device's memory the program needs, and fails for a TPU if it has less; only a device
can tell the time. The traffic is the sum of what the instructions read and write in the device's main memory. It leaves
out the fast memory of a TPU core, and counts the bodies of loops once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding

from lsar_jax.mesh import data_mesh, replicated, split
from lsar_jax.models.transformer import Transformer, TransformerConfig
from lsar_jax.tokens.tokenizer import Specials
from train.align.batches import Chunk, PairBatch
from train.align.steps import EncoderSteps, StepOptions
from train.console import console, print_table
from train.encoder_parameters import EncoderParts, take_apart
from train.option_checks import at_least

__all__ = ["Compiled", "traffic"]

# XLM-R's shapes (Conneau et al., ACL 2020, Table 5).
_SIZES = {
    "base": TransformerConfig(250_002, 768, 12, 12, 3072, 514, 1, first_position=2, layer_norm_epsilon=1e-5),
    "large": TransformerConfig(250_002, 1024, 24, 16, 4096, 514, 1, first_position=2, layer_norm_epsilon=1e-5),
}
_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "token": 0}
# What moves nothing by itself.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "while"}


@dataclass(frozen=True)
class Compiled:
    """Compiles one step of strong alignment in bfloat16, and prints the memory and the traffic it needs on a device.

    Attributes:
      target: a TPU topology, such as v5e:4x4, or a file that describes a GPU.
      size: the encoder's shape, that of XLM-R base or large.
      pairs: number of sentence pairs per device and step, each side as long as --max-length.
      max_length: number of token positions of a sentence, including special tokens.
      links: number of word links of a pair.
      remat: compute blocks again for the gradient.
    """

    target: str = "v5e:4x4"
    size: Literal["base", "large"] = "base"
    pairs: int = 16
    max_length: int = 96
    links: int = 16
    remat: bool = True

    def run(self) -> dict[str, float]:
        """Compiles the step and prints the table.

        Returns:
          Its rows by name; bytes in GB of 10^9.

        Raises:
          RuntimeError: the target's compiler is not installed.
          ValueError: an option is invalid.
        """
        at_least(1, pairs=self.pairs, max_length=self.max_length, links=self.links)
        config = _SIZES[self.size]
        if self.max_length > config.longest:
            raise ValueError(f"--max-length is {self.max_length}; the encoder takes at most {config.longest} positions")
        mesh = data_mesh(_devices(self.target))
        compiled = self.lowered(config, mesh).compile()
        memory = compiled.memory_analysis()
        assert memory is not None
        result = {
            "parameters and Adam's state": memory.argument_size_in_bytes / 1e9,
            "temporary": memory.temp_size_in_bytes / 1e9,
            "new output": (memory.output_size_in_bytes - memory.alias_size_in_bytes) / 1e9,
        }
        result["memory in all"] = sum(result.values())
        result |= {f"traffic, {name}": count / 1e9 for name, count in traffic(compiled.as_text() or "").items()}
        tokens = 2 * self.pairs * self.max_length
        kind = mesh.devices.flat[0].device_kind
        title = f"Strong alignment of XLM-R {self.size}, {tokens} positions per device, {mesh.size} x {kind}"
        print_table(title, ["", "GB per device"], [[name, f"{value:.2f}"] for name, value in result.items()])
        costs = compiled.cost_analysis()
        if costs and costs.get("flops", 0) > 0:
            console.print(f"{costs['flops'] / 1e12:.2f} TFLOP per device and step")
        return result

    def lowered(self, config: TransformerConfig, mesh: Mesh) -> jax.stages.Lowered:
        """Returns the step of an encoder of these sizes, before it is compiled."""
        model = nnx.eval_shape(
            partial(Transformer, config, dtype=jnp.dtype("bfloat16"), param_dtype=jnp.dtype("float32"))
        )
        skeleton, trained, _ = take_apart(EncoderParts(model, None), False)
        options = StepOptions(
            objective="strong", temperature=0.1, projected=128, stay_close=1.0, squared=False, stay_close_hidden=0.0,
            dropout=0.1, remat=self.remat, cached=False, layer=config.blocks, pooling="mean",
            specials=Specials(1, 1),
        )  # fmt: skip
        # The parameters that the drift is measured from are an argument of the step: there are no arrays to place.
        steps = EncoderSteps(skeleton, {}, {}, options, optax.constant_schedule(1e-5), mesh)
        everywhere, rows = (partial(_placed, where) for where in (replicated(mesh), split(mesh)))
        state = jax.eval_shape(steps.unplaced, trained, jax.random.key(0))
        count = 2 * self.pairs * mesh.size
        links = self.pairs * self.links * mesh.size
        some = partial(jax.ShapeDtypeStruct, dtype=jnp.int32)
        ids, lengths = rows((some((count, self.max_length)), some((count,))))
        index, valid = everywhere((some((links,)), jax.ShapeDtypeStruct((links,), jnp.bool_)))
        tokens = count * self.max_length
        chunk = Chunk(ids, lengths, lengths, everywhere(some((2 * links,))))
        batch = PairBatch((chunk,), np.zeros(0, np.float32), index, index, valid, tokens, tokens // 2)
        key = jax.eval_shape(lambda: jax.random.key(0))
        return steps.whole.lower(everywhere(state), batch, everywhere(key), {}, everywhere(trained))


def _placed(where: NamedSharding, shapes: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), shapes)


def _devices(target: str) -> list[jax.Device]:
    """Returns the devices of a topology."""
    if re.fullmatch(r"v\w+:\d+(x\d+)+", target):
        return list(topologies.get_topology_desc(platform="tpu", topology_name=target).devices)
    path = Path(target)
    if not path.is_file():
        raise ValueError(f"--target is {target}; it must be a TPU topology, such as v5e:4x4, or the file of a GPU")
    return list(topologies.get_topology_desc(platform="cuda", target_config=path.read_text(), topology="1x1x1").devices)


def traffic(text: str) -> dict[str, float]:
    """Returns the bytes that a compiled program moves in a device's main memory, and between devices.

    Args:
      text: the program, as ``compiled.as_text()`` returns it.
    """
    total = {"memory": 0.0, "between devices": 0.0}
    for computation in _run(text):
        sizes: dict[str, float] = {}
        for name, shape, operation, operands in _instructions(computation):
            sizes[name] = written = _size(shape)
            if operation in _FREE or operation.endswith("-done"):
                continue
            read = sum(sizes.get(operand, 0.0) for operand in operands)
            # What starts an asynchronous operation returns its operands beside the result.
            if operation.endswith("-start") and operation != "all-reduce-start":
                written -= read
            total["memory"] += read + written
            if re.match("all-|reduce-scatter|collective", operation):
                total["between devices"] += written
    return total


def _run(text: str) -> Iterator[str]:
    """Yields the text of the computations whose instructions run by themselves: the entry, and the bodies of loops."""
    bodies = set(re.findall(r"body=%?([\w.\-]+)", text))
    # A line that is only a brace does not end a computation: the attributes of a Pallas kernel have such lines too.
    headers = list(re.finditer(r"^(ENTRY )?%?([\w.\-]+) \([^\n]*\{$", text, re.MULTILINE))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    for header, end in zip(headers, ends, strict=True):
        if header[1] or header[2] in bodies:
            yield text[header.end() : end]


def _instructions(computation: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yields name, shape, operation and operands of each instruction."""
    for line in computation.splitlines():
        match = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$", line)
        if match:
            yield match[1], match[2], match[3], re.findall(r"%([\w.\-]+)", match[4].split("), ")[0])


def _size(shape: str) -> float:
    """Returns the bytes of a shape, or of all parts of a tuple, that are in main memory."""
    total = 0.0
    for kind, extents, layout in re.findall(r"(\w+)\[([\d,]*)\](\{[^}]*\})?", shape):
        if "S(1)" not in layout:
            each = _BYTES.get(kind) or int(re.sub(r"\D", "", kind) or 0) / 8
            total += each * float(np.prod([int(extent) for extent in extents.split(",") if extent]))
    return total
