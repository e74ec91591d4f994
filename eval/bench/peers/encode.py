"""Encoding beside sentence-transformers and its backends, with the same weights and paragraphs.

The encoder is exported to a sentence-transformers folder. Each peer runs in a process of its own, with as many threads
as it chooses. The answer is the largest relative difference of a vector from ours in float32. The bound is the time of
the matrix products of the tokens, without padding and attention itself, at the measured rate of a large product.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from eval.bench.peers import sentence_transformers_process
from eval.bench.peers.random_encoder import random_sentences, write_random_encoder
from eval.bench.peers.timing import HERE, Timing, fastest, operations_per_token, product_rate
from lsar_jax import corpora, load_encoder
from lsar_jax.console.output import console
from lsar_jax.mesh import cpu_features

__all__ = ["encode"]

_PEER_BATCH = 32
_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}

Encode = Callable[[Any], Any]


def encode(
    encoder: str = "bundled", peers: Sequence[str] = ("torch",), python: Path = Path(sys.executable),
    sentences: int = 2000, repeats: int = 3, blocks: int | None = None,
) -> Iterator[Timing]:  # fmt: skip
    """Times the encoding of many sentences, paragraphs of the UDHR or random, and of one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if encoder == "bundled":
            name, paragraphs = encoder, [text for texts in corpora.udhr().values() for text in texts]
            texts = paragraphs[:: max(1, len(paragraphs) // sentences)][:sentences]
        else:
            name, texts = str(folder / "random"), random_sentences(sentences)
            write_random_encoder(folder / "random", encoder.removeprefix("random-"), blocks)
        yield from _opening(name)
        ours = {dtype: load_encoder(name, dtype=dtype) for dtype in ("float32", "bfloat16")}
        calls: dict[tuple[str, str], Encode] = {(HERE, dtype): model.encode for dtype, model in ours.items()}
        exact = ours["float32"]
        exact.to_sentence_transformers(folder / "exported")
        kinds = _kinds(texts)
        (folder / "sentences.json").write_text(json.dumps(kinds), encoding="utf-8")
        for backend, dtype in _backends(peers):
            try:
                precision, call = stack.enter_context(_peer(folder, backend, dtype, python, exact.tokenizer.max_length))
            except ImportError as error:
                console.print(f"left out {backend}: {error}")
                continue
            calls[f"{backend} by default" if dtype == "default" else backend, precision] = call
        rates = {dtype: product_rate(dtype=dtype) for dtype in ours}
        for case, chosen in kinds.items():
            turns = repeats if len(chosen) > 1 else 20
            named = {key: partial(call, chosen if key[0] == HERE else case) for key, call in calls.items()}
            times, vectors = fastest(named, turns)
            tokens = exact.encode_with_report(chosen)[1].tokens
            needed = tokens * operations_per_token(exact.model)
            for (version, dtype), took in times.items():
                bound = 100 * needed / rates[dtype] / took if dtype in rates else None
                errors = np.linalg.norm(vectors[version, dtype] - vectors[HERE, "float32"], axis=1)
                largest = (errors / np.linalg.norm(vectors[HERE, "float32"], axis=1)).max()
                name, seconds = f"{encoder}, {dtype}{case}", 1000 * took / len(chosen)
                yield Timing(name, version, seconds, "1000 sentences", bound, f"differs by {largest:.0e}")


def _kinds(texts: list[str]) -> dict[str, list[str]]:
    """Returns the texts of each case: as they are, and words, parts, and long texts made of them."""
    words, count = [word for text in texts for word in text.split()], len(texts)
    short = [" ".join(words[first : first + 4]) for first in range(0, len(words) - 3, max(1, len(words) // count))]
    alone = words[:: max(1, len(words) // count)][:count]
    return {
        "": texts, ", one sentence": texts[:1], ", words": alone, ", four words": short[:count],
        ", mixed": [text for group in zip(alone, short, texts, strict=False) for text in group][:count],
        ", long texts": [" ".join(texts[first : first + 20]) for first in range(0, count, 20)],
    }  # fmt: skip


def _opening(encoder: str) -> Iterator[Timing]:
    """Times processes, in seconds of the processor, which other programs of a machine prolong little."""
    opened = f"import jax, lsar_jax; jax.devices(); lsar_jax.load_encoder({encoder!r})"
    steps = {
        "jax alone": "import jax; jax.devices()", "with the library": "import jax, lsar_jax.encoders; jax.devices()",
        "with an encoder": opened, "lsar-jax --help": "import lsar_jax.__main__ as m; m.main(['--help'])",
    }  # fmt: skip
    for version, code in steps.items():
        seconds = []
        for _ in range(3):
            before = os.times()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            seconds.append(sum(after[2:4]) - sum(before[2:4]))
        yield Timing("opening", version, min(seconds), "a process, by the processor")


def _backends(peers: Sequence[str]) -> list[tuple[str, str]]:
    """Lists the backends with their dtypes; torch takes ten times as long in bfloat16 on a CPU without it."""
    torch = ["float32"]
    if jax.default_backend() != "cpu" or "bf16" in cpu_features():
        torch.append("bfloat16")
    elif "torch" in peers:
        console.print("left out torch in bfloat16: this processor has no instructions for it")
    dtypes = {"torch": torch, "openvino": ["float32", "default"], "onnx": ["float32"]}
    return [(backend, dtype) for backend in peers for dtype in dtypes[backend]]


@contextmanager
def _peer(folder: Path, backend: str, dtype: str, python: Path, max_length: int) -> Iterator[tuple[str, Encode]]:
    """Starts sentence-transformers with one backend; gives its precision, and the call that encodes."""
    device, out, log = "cuda" if jax.default_backend() == "gpu" else "cpu", folder / "vectors.npy", folder / "log"
    options = {
        "folder": str(folder / "exported"), "sentences": str(folder / "sentences.json"), "out": str(out),
        "backend": backend, "dtype": dtype, "device": device, "max_length": max_length, "batch_size": _PEER_BATCH,
    }  # fmt: skip
    command = [str(python), sentence_transformers_process.__file__, json.dumps(options)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with log.open("w", encoding="utf-8") as errors:
        process: Any = subprocess.Popen(command, stderr=errors, **pipes)

    def answer() -> str:
        if line := process.stdout.readline():
            return str(line)
        last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no message"])[-1]
        raise ImportError(f"{last}; `python -m eval speed --help` says what to install")

    def call(case: Any) -> Any:
        process.stdin.write(f"{case}\n")
        answer()
        return np.load(out)

    try:
        started = json.loads(answer())
        console.print(f"{backend} computes in {started['computes_in']} on {device}: {started['versions']}")
        yield _DTYPES.get(started["computes_in"], started["computes_in"]), call
    finally:
        process.kill()
        process.communicate()
