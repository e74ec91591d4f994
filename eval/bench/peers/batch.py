"""One full batch of an encoder beside transformers' model in PyTorch.

The weights are random and of published sizes, and the sentences are of one length and fill their rows, so that nothing
has to be downloaded, and neither text nor tokenizer takes part: this is the program that runs on the device, with the
mean over the tokens. PyTorch runs the same weights with its own attention, without compiling. The bound is the time of
all matrix products at the measured rate of a large one in the same dtype.
"""

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eval.bench.peers.random_encoder import write_random_encoder
from eval.bench.peers.timing import HERE, Timing, fastest, import_torch, operations_per_token, product_rate
from eval.bench.programs.shapes import DTYPES
from lsar_jax import load_encoder
from lsar_jax.encoders.program import Program, compiled
from lsar_jax.mesh import data_mesh
from lsar_jax.tokens.packing import BatchSizes, segments
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["batch"]

_CALLS = 10  # handed to the device one after another, and timed together


def batch(
    encoder: str = "random-base", dtypes: Sequence[str] = DTYPES, lengths: Sequence[int] = (32, 128, 512),
    tokens: int | None = None, blocks: int | None = None,
) -> Iterator[Timing]:  # fmt: skip
    """Times a full batch on one device, here and in PyTorch; by default, of as many tokens as ``encode`` takes."""
    from transformers import AutoModel

    torch, device = import_torch()
    mesh = data_mesh(jax.devices()[:1])
    sizes = BatchSizes.for_devices(jax.devices()[:1])
    tokens = tokens or sizes.full_tokens
    name = "base" if encoder == "bundled" else encoder.removeprefix("random-")
    with tempfile.TemporaryDirectory() as folder:
        write_random_encoder(Path(folder), name, blocks)
        for dtype in dtypes:
            rate = product_rate(dtype=dtype)
            model = load_encoder(folder, dtype=dtype, mesh=mesh).model
            program = partial(compiled(mesh, False), Program("mean", Specials(1, 1), (model.config.blocks,)), model)
            peer = AutoModel.from_pretrained(folder, dtype=getattr(torch, dtype))
            peer = peer.to(device).eval()
            for length in lengths:
                width = next(width for width in sizes.widths if width >= length)
                rows, each = max(1, tokens // width), width // length
                ids = np.random.default_rng(0).integers(5, model.config.vocabulary, (rows * each, length))
                counts = np.where(np.arange(segments(width)) < each, length, 0)
                packed = ids.reshape(rows, each * length)
                arguments = (
                    jnp.asarray(np.pad(packed, ((0, 0), (0, width - each * length))), jnp.int32),
                    jnp.asarray(np.broadcast_to(counts, (rows, len(counts))), jnp.int32),
                    jnp.asarray(np.argsort(np.tile(counts == 0, rows), kind="stable"), jnp.int32), (),
                )  # fmt: skip
                calls = {
                    HERE: partial(_repeated, partial(program, None, None, *arguments)),
                    "torch": partial(_torch, torch, peer, torch.from_numpy(ids).to(device)),
                }
                seconds, results = fastest(calls, 1)
                ours = np.asarray(results[HERE][0][0][: len(ids)], np.float32)
                error = np.linalg.norm(results["torch"] - ours) / np.linalg.norm(ours)
                needed = ids.size * operations_per_token(model, length) / rate
                for version, took in seconds.items():
                    took /= _CALLS
                    answer, case = f"differs by {error:.0e}" if version == "torch" else "", f"{name}, {dtype}, {length}"
                    yield Timing(case, version, took, f"{ids.size} tokens", 100 * needed / took, answer)


def _repeated(call: Any) -> Any:
    return [call() for _ in range(_CALLS)][-1]


def _torch(torch: Any, model: Any, ids: Any) -> np.ndarray:
    with torch.inference_mode():
        for _ in range(_CALLS):
            vectors = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.float().mean(1)
    return np.asarray(vectors.cpu())  # waits for the device
