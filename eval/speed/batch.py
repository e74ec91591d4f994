"""Speed of one full batch of an encoder, compared with transformers' model in PyTorch, in the same run.

    pip install torch
    python -m eval batchbench

The weights are random and of XLM-R's sizes, and every sentence fills its row, so that nothing has to be downloaded, and
neither text nor tokenizer takes part: this is the program that runs on the device, with the mean over the tokens.
PyTorch runs the same sizes with its own attention, without compiling. The share of the products is that of the
operations of all matrix products at the measured rate of a large one in the same dtype.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from eval.aot.arguments import DTYPES, XLM_R, Dtype, EncoderSize
from eval.speed.encoding import matmul_rate
from eval.speed.peer import import_torch
from eval.speed.timing import HERE, Measured, operations_per_token
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.option_checks import at_least
from lsar_jax.encoders.program import Program, compiled
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.models.attention import attention_for
from lsar_jax.models.transformer import Transformer, TransformerConfig
from lsar_jax.tokens.buckets import BatchSizes
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["BatchBench"]


@dataclass(frozen=True)
class BatchBench:
    """Times the program of a full batch on one device, here and in PyTorch.

    Attributes:
      sizes: sizes of the encoder.
      dtypes: compute dtypes.
      widths: numbers of tokens of every sentence.
      tokens: number of tokens in a batch; by default, those of a full batch on this kind of device.
      blocks: number of blocks; by default, as many as published.
      repeats: number of batches that are timed.
    """

    sizes: tuple[EncoderSize, ...] = ("base",)
    dtypes: tuple[Dtype, ...] = DTYPES
    widths: tuple[int, ...] = (32, 128, 512)
    tokens: int | None = None
    blocks: int | None = None
    repeats: int = 10

    def run(self) -> list[Measured]:
        """Times both, prints the table and returns the times."""
        least = {"tokens": self.tokens, "blocks": self.blocks, "repeats": self.repeats, "widths": min(self.widths)}
        at_least(1, **{name: value for name, value in least.items() if value is not None})
        if (most := min(XLM_R[size].longest for size in self.sizes)) < max(self.widths):
            raise ValueError(f"--widths has {max(self.widths)}; a sentence has at most {most} tokens")
        torch, where = import_torch()
        mesh = data_mesh(jax.devices()[:1])
        program = compiled(mesh, False)  # not recurrent
        tokens = self.tokens or BatchSizes.for_devices(jax.devices()[:1]).full_tokens
        rows: list[list[str | float]] = []
        measured: list[Measured] = []
        for size in self.sizes:
            config = replace(XLM_R[size], blocks=self.blocks or XLM_R[size].blocks)
            for dtype in self.dtypes:
                rate = matmul_rate(dtype)
                model = jax.device_put(_random(config, dtype), replicated(mesh))
                batches = [_batch(config, max(1, tokens // width), width) for width in self.widths]
                given = Program("mean", Specials(1, 1), (config.blocks,)), model, None, None
                with ThreadPoolExecutor() as threads:
                    list(threads.map(lambda batch, given=given: program.lower(*given, *batch, ()).compile(), batches))
                peer = _torch_model(torch, where, config, dtype)
                for ids, lengths in batches:
                    ours = self._seconds(partial(program, *given, ids, lengths, ()), jax.block_until_ready)
                    same = torch.from_numpy(np.array(ids, np.int64)).to(where)
                    theirs = self._seconds(partial(peer, same), lambda _: _wait(torch, where))
                    needed = ids.size * operations_per_token(config, ids.shape[1])
                    case, work = f"{size}, {dtype}, {ids.shape[1]}", f"{ids.size} tokens"
                    rows.append([case, 1000 * ours, needed / ours / 1e12, 100 * needed / rate / ours, 1000 * theirs])
                    measured += [
                        Measured(case, name, seconds, work, 100 * needed / rate / seconds)
                        for name, seconds in ((HERE, ours), ("torch", theirs))
                    ]
                console.print(f"products of {dtype} reach {rate / 1e12:.3g} TFLOP/s")
        columns = ["", "ms", "TFLOP/s", "% of products", "torch, ms"]
        print_table(f"A batch of {tokens} tokens on one {jax.devices()[0].device_kind}", columns, rows)
        return measured

    def _seconds(self, call: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
        """Returns the mean time of calls that are handed to the device one after another, after two that warm up."""
        for _ in range(2):
            wait(call())
        started = time.perf_counter()
        for _ in range(self.repeats):
            result = call()
        wait(result)
        return (time.perf_counter() - started) / self.repeats


def _random(config: TransformerConfig, dtype: Dtype) -> Transformer:
    """Returns an encoder with random kernels and tables."""
    kind, attention = jnp.dtype(dtype), attention_for(jax.devices()[0])
    shapes = nnx.eval_shape(partial(Transformer, config, dtype=kind, param_dtype=kind, attention=attention))
    rng = np.random.default_rng(0)

    def value(path: Any, x: Any) -> jax.Array:
        name = jax.tree_util.keystr(path)
        if x.ndim == 1:
            return jnp.full(x.shape, 1.0 if "scale" in name else 0.0, x.dtype)
        return jnp.asarray(0.02 * rng.standard_normal(x.shape, np.float32)).astype(x.dtype)

    filled: Transformer = jax.tree.map_with_path(value, shapes)
    return filled


def _batch(config: TransformerConfig, rows: int, width: int) -> tuple[jax.Array, jax.Array]:
    ids = np.random.default_rng(0).integers(5, config.vocabulary, (rows, width))
    return jnp.asarray(ids, jnp.int32), jnp.full((rows,), width, jnp.int32)


def _torch_model(torch: Any, where: str, config: TransformerConfig, dtype: Dtype) -> Callable[[Any], Any]:
    from transformers import XLMRobertaConfig, XLMRobertaModel

    own = XLMRobertaConfig(
        vocab_size=config.vocabulary, hidden_size=config.hidden, num_hidden_layers=config.blocks,
        num_attention_heads=config.heads, intermediate_size=config.intermediate,
        max_position_embeddings=config.positions, type_vocab_size=config.token_types,
        layer_norm_eps=config.layer_norm_epsilon, pad_token_id=1,
    )  # fmt: skip
    model: Any = XLMRobertaModel(own, add_pooling_layer=False)
    model = model.to(where, getattr(torch, dtype)).eval()

    def run(ids: Any) -> Any:
        with torch.inference_mode():
            return model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.float().mean(1)

    return run


def _wait(torch: Any, where: str) -> None:
    if where == "cuda":
        torch.cuda.synchronize()
