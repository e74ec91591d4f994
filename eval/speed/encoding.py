"""Encoding speed compared with sentence-transformers and its backends, in the same run and with the same weights.

    pip install torch sentence-transformers
    python -m eval bench

The encoder is exported to a sentence-transformers folder, so that all compute the same embeddings of the same
paragraphs; the error of each against ours in float32 is printed, and what precision it computes in. Each runs in turn,
in a process of its own, with as many threads as it chooses. The rate of this machine's matrix products and the number
of operations that the model needs are printed too; together they give a lower bound on the time of any library.

OpenVINO and ONNX Runtime need an environment of their own, because they ask for an older transformers:

    python -m venv peers
    peers/bin/pip install 'sentence-transformers[openvino,onnx]'
    python -m eval bench --peers torch openvino onnx --python peers/bin/python
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from eval.aot.arguments import EncoderSize
from eval.speed import sentence_transformers_process
from eval.speed.random_encoder import random_sentences, write_random_encoder
from eval.speed.timing import HERE, Measured, times
from lsar_jax import SentenceEncoder, corpora, load_encoder
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.option_checks import at_least
from lsar_jax.mesh import cpu_features

__all__ = ["Bench", "EncoderName", "PeerName", "flops", "matmul_rate"]

PeerName = Literal["torch", "openvino", "onnx"]
EncoderName = Literal["bundled", "random-base", "random-large"]


@dataclass(frozen=True)
class Bench:
    """Encodes text with this library and with sentence-transformers, by default the UDHR.

    Attributes:
      encoder: bundled, or one of XLM-R's sizes with random weights and random text, where nothing can be downloaded.
      peers: backends of sentence-transformers; openvino runs in float32, and once more in the precision that it
        chooses by itself.
      python: interpreter of the environment with sentence-transformers; by default, this one.
      sentences: number of sentences; of the UDHR, paragraphs from all languages.
      max_length: maximum number of tokens per paragraph.
      repeats: number of timed runs of each, which take turns; the fastest counts.
      batch_size: batch size of sentence-transformers.
      dtypes: dtypes in which this library and torch compute; torch's bfloat16 is left out on a CPU without
        instructions for it, where it takes ten times as long.
    """

    encoder: EncoderName = "bundled"
    peers: tuple[PeerName, ...] = ("torch",)
    python: Path = Path(sys.executable)
    sentences: int = 2000
    max_length: int = 128
    repeats: int = 3
    batch_size: int = 32
    dtypes: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")

    def run(self) -> list[Measured]:
        """Times all, prints the table and returns the times."""
        at_least(1, sentences=self.sentences, max_length=self.max_length)
        at_least(1, repeats=self.repeats, batch_size=self.batch_size)
        sentences = self._sentences()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            name = "bundled"
            if self.encoder != "bundled":
                size: EncoderSize = "base" if self.encoder == "random-base" else "large"
                name = str(write_random_encoder(folder / "random", size))
            exact = load_encoder(name, dtype="float32")
            exact.to_sentence_transformers(folder / "exported")
            runners: dict[str, _Ours | _Peer] = {
                f"{HERE}, {dtype}": _Ours(exact if dtype == "float32" else load_encoder(name, dtype=dtype),
                                            sentences, self.max_length)
                for dtype in self.dtypes
            }  # fmt: skip
            for backend, dtype in self._peers():
                peer = stack.enter_context(_Peer(self, folder, sentences, backend, dtype))
                version = f"{backend} by default" if dtype == "default" else backend
                runners[f"{version}, {peer.computes_in}"] = peer
            return self._compared(runners, _Ours(exact, sentences, self.max_length), len(sentences))

    def _sentences(self) -> list[str]:
        if self.encoder != "bundled":
            return random_sentences(self.sentences)
        every = [text for texts in corpora.udhr().values() for text in texts]
        return every[:: max(1, len(every) // self.sentences)][: self.sentences]

    def _peers(self) -> list[tuple[str, str]]:
        has_bfloat16 = jax.default_backend() != "cpu" or "bf16" in cpu_features()
        torch: list[str] = [dtype for dtype in self.dtypes if has_bfloat16 or dtype != "bfloat16"]
        if "torch" in self.peers and len(torch) < len(self.dtypes):
            console.print("left out torch in bfloat16: this processor has no instructions for it")
        dtypes: dict[str, list[str]] = {"torch": torch, "openvino": ["float32", "default"], "onnx": ["float32"]}
        return [(name, dtype) for name in self.peers for dtype in dtypes[name]]

    def _compared(self, runners: "dict[str, _Ours | _Peer]", exact: "_Ours", count: int) -> list[Measured]:
        reference = exact.vectors()
        errors = {name: _error(runner.vectors(), reference) for name, runner in runners.items()}
        seconds: dict[str, list[float]] = {name: [] for name in runners}
        for _ in range(self.repeats):
            for name, runner in runners.items():
                seconds[name].append(runner.encode())
        rates = {dtype: matmul_rate(dtype) for dtype in ("float32", "bfloat16")}
        needed = flops(exact.encoder, exact.tokens)
        console.print(
            f"matrix products reach {rates['float32'] / 1e9:.0f} GFLOP/s in float32, {rates['bfloat16'] / 1e9:.0f} in "
            f"bfloat16; the {exact.tokens} tokens need {needed / 1e9:.0f} GFLOP"
        )
        rows: list[list[str | float]] = []
        measured: list[Measured] = []
        for name, runner in runners.items():
            fastest, error = min(seconds[name]), errors[name]
            version, precision = name.split(", ")
            case = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}.get(precision, precision)
            share = 100 * needed / rates["float32"] / fastest
            rows.append([name, count / fastest, exact.tokens / fastest, share, f"{error:.0e}", 1000 * runner.one()])
            bound = 100 * needed / rates[case] / fastest if case in rates else None
            seconds_each = 1000 * fastest / count
            measured.append(Measured(f"{self.encoder}, {case}", version, seconds_each, "1000 sentences", bound))
        columns = ["", "sentences/s", "tokens/s", "% of float32 products", "error", "ms for one sentence"]
        print_table(f"{count} sentences, {self.encoder} encoder, warm, {jax.devices()[0].device_kind}", columns, rows)
        return measured


class _Ours:
    def __init__(self, encoder: SentenceEncoder, sentences: list[str], max_length: int) -> None:
        self.encoder = encoder
        self._sentences = sentences
        self._max_length = max_length
        self.tokens = 0
        encoder.warm_up(max_length=max_length)

    def vectors(self) -> Float[np.ndarray, "sentence dim"]:
        vectors, report = self.encoder.encode_with_report(self._sentences, max_length=self._max_length)
        self.tokens = report.tokens
        return np.asarray(vectors)

    def encode(self) -> float:
        return times(self.vectors, 1)[0]

    def one(self) -> float:
        call = partial(self.encoder.encode, self._sentences[0], max_length=self._max_length)
        return float(np.median(times(call, 20)))


class _Peer:
    """sentence-transformers with one backend, in a process of its own."""

    def __init__(self, bench: Bench, folder: Path, sentences: list[str], backend: str, dtype: str) -> None:
        texts = folder / "sentences.json"
        texts.write_text(json.dumps(sentences), encoding="utf-8")
        self._out = folder / "vectors.npy"
        device = "cuda" if jax.default_backend() == "gpu" else "cpu"
        options = {
            "folder": str(folder / "exported"), "sentences": str(texts), "backend": backend, "dtype": dtype,
            "device": device, "max_length": bench.max_length, "batch_size": bench.batch_size, "out": str(self._out),
        }  # fmt: skip
        script = Path(sentence_transformers_process.__file__)
        self._log = (folder / f"{backend}-{dtype}.log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(bench.python), str(script), json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self._backend = backend
        try:
            started = self._answer()
        except BaseException:
            self.__exit__()
            raise
        self.computes_in = started["computes_in"]
        console.print(f"{backend} computes in {self.computes_in} on {device}: {started['versions']}")

    def __enter__(self) -> "_Peer":
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def vectors(self) -> Float[np.ndarray, "sentence dim"]:
        self._ask("save")
        return np.load(self._out)

    def encode(self) -> float:
        return float(self._ask("encode")["seconds"])

    def one(self) -> float:
        return float(self._ask("one")["seconds"])

    def _ask(self, what: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            last = (self._log.read().strip().splitlines() or ["no message"])[-1]
            raise ImportError(
                f"sentence-transformers with backend {self._backend} stopped: {last}; see `python -m eval bench "
                "--help` for what to install"
            )
        return dict(json.loads(line))


def flops(encoder: SentenceEncoder, tokens: int) -> float:
    """Returns the number of floating-point operations that the kernels of the blocks need for ``tokens`` tokens.

    A multiplication and its addition count as two operations; attention scores are not counted.
    """
    kernels = [leaf.size for path, leaf in jax.tree.leaves_with_path(encoder.model) if "kernel" in str(path)]
    return 2.0 * sum(kernels) * tokens


def matmul_rate(dtype: str = "float32") -> float:
    """Returns the FLOP/s of a large matrix product on the default device, summed in float32."""
    size = 2048 if jax.default_backend() == "cpu" else 8192
    highest = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32)
    product: Callable[[jax.Array], jax.Array] = jax.jit(lambda x: highest(x, x))
    x = jax.random.normal(jax.random.key(0), (size, size), dtype)  # of ones, a GPU is faster
    product(x).block_until_ready()
    return 2 * size**3 / min(times(lambda: product(x).block_until_ready(), 10))


def _error(vectors: Float[np.ndarray, "sentence dim"], exact: Float[np.ndarray, "sentence dim"]) -> float:
    """Returns the largest relative difference of an embedding."""
    return float((np.linalg.norm(vectors - exact, axis=1) / np.linalg.norm(exact, axis=1)).max())
