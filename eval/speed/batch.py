"""One full batch of an encoder beside transformers' model in PyTorch.

The weights are random and of XLM-R's sizes, and every sentence fills its row, so that nothing has to be downloaded, and
neither text nor tokenizer takes part: this is the program that runs on the device, with the mean over the tokens.
PyTorch runs the same weights with its own attention, without compiling. The bound is that of all matrix products at the
measured rate of a large one in the same dtype.
"""

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eval.aot.shapes import DTYPES, EncoderSize
from eval.speed.random_encoder import write_random_encoder
from eval.speed.timing import HERE, Measured, fastest, import_torch, operations_per_token, product_rate
from lsar_jax import load_encoder
from lsar_jax.encoders.program import Program, compiled
from lsar_jax.mesh import data_mesh
from lsar_jax.tokens.buckets import BatchSizes
from lsar_jax.tokens.tokenizer import Specials

__all__ = ["batch"]

_CALLS = 10  # handed to the device one after another, and timed together


def batch(
    encoder: str = "random-base", dtypes: Sequence[str] = DTYPES, widths: Sequence[int] = (32, 128, 512),
    tokens: int | None = None, blocks: int | None = None,
) -> Iterator[Measured]:  # fmt: skip
    """Times a full batch on one device, here and in PyTorch; by default, of as many tokens as ``encode`` takes."""
    from transformers import AutoModel

    torch, device = import_torch()
    mesh = data_mesh(jax.devices()[:1])
    tokens = tokens or BatchSizes.for_devices(jax.devices()[:1]).full_tokens
    size: EncoderSize = "large" if encoder == "random-large" else "base"
    with tempfile.TemporaryDirectory() as folder:
        write_random_encoder(Path(folder), size, blocks)
        for dtype in dtypes:
            rate = product_rate(dtype=dtype)
            model = load_encoder(folder, dtype=dtype, mesh=mesh).model
            program = partial(compiled(mesh, False), Program("mean", Specials(1, 1), (model.config.blocks,)), model)
            peer = AutoModel.from_pretrained(folder, add_pooling_layer=False, dtype=getattr(torch, dtype))
            peer = peer.to(device).eval()
            for width in widths:
                ids = np.random.default_rng(0).integers(5, model.config.vocabulary, (max(1, tokens // width), width))
                arguments = jnp.asarray(ids, jnp.int32), jnp.full((len(ids),), width, jnp.int32), ()
                calls = {
                    HERE: partial(_repeated, partial(program, None, None, *arguments)),
                    "torch": partial(_torch, torch, peer, torch.from_numpy(ids).to(device)),
                }
                seconds, results = fastest(calls, 1)
                ours = np.asarray(results[HERE][0][0], np.float32)
                error = np.linalg.norm(results["torch"] - ours) / np.linalg.norm(ours)
                needed = ids.size * operations_per_token(model.config, width) / rate
                for version, took in seconds.items():
                    took /= _CALLS
                    answer, case = f"differs by {error:.0e}" if version == "torch" else "", f"{size}, {dtype}, {width}"
                    yield Measured(case, version, took, f"{ids.size} tokens", 100 * needed / took, answer)


def _repeated(call: Any) -> Any:
    return [call() for _ in range(_CALLS)][-1]


def _torch(torch: Any, model: Any, ids: Any) -> np.ndarray:
    with torch.inference_mode():
        for _ in range(_CALLS):
            vectors = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.float().mean(1)
    return np.asarray(vectors.cpu())  # waits for the device
