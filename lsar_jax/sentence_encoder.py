"""Text in, embeddings out: tokens, hidden states and pooling in one call.

One jitted program a batch shape, parameters replicated and rows split over the ``data`` axis
of a mesh. Every layer asked for is pooled as the blocks run, so that several layers cost one
forward pass and no more memory than one.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from lsar_jax.checks import whole_number
from lsar_jax.mesh import replicated, split
from lsar_jax.pooling import POOLINGS
from lsar_jax.shapes import AnyArray, Hidden, Lengths, PooledLayers, TokenIds
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokenization import BatchSizes, Slot, Tokenizer, check_sentences, plan
from lsar_jax.transforms.base import Step, Transform, affine

__all__ = ["EncodeReport", "Encoder", "SentenceEncoder"]

_log = logging.getLogger("lsar_jax")
_IN_FLIGHT = 4


@runtime_checkable
class Encoder(Protocol):
    """What a Flax module must have to be a ``SentenceEncoder``'s model.

    Attributes:
      dim: width of a hidden state.
      dtype: compute dtype.
    """

    dim: int
    dtype: Any

    def hidden_states(self, ids: TokenIds, lengths: Lengths) -> Iterator[Hidden]:
        """Yields layer 0, then the output of each block."""
        ...


@dataclass(frozen=True)
class EncodeReport:
    """What one ``encode`` did.

    Attributes:
      sentences: how many.
      tokens: tokens that were encoded, special tokens included.
      padded_tokens: token positions that were computed.
      truncated: sentences that were cut.
      max_length: the tokens that they were cut to.
      seconds: wall time, tokenizer and compilation included.
    """

    sentences: int
    tokens: int
    padded_tokens: int
    truncated: int
    max_length: int
    seconds: float

    @property
    def padding_waste(self) -> float:
        """The share of computed positions that held no token."""
        return 1 - self.tokens / self.padded_tokens if self.padded_tokens else 0.0


class SentenceEncoder:
    """An encoder on its devices; made by ``load_encoder``.

    Attributes:
      model: a Flax module, replicated over ``mesh``.
      tokenizer: of the checkpoint.
      spec: names the embeddings that ``encode`` returns.
      mesh: the devices, one axis ``data``.
      transform: applied to them on the device, or None.
    """

    def __init__(
        self,
        model: Encoder,
        tokenizer: Tokenizer,
        spec: EncoderSpec,
        mesh: Mesh,
        transform: Transform | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.spec = spec
        self.mesh = mesh
        self.transform = transform
        self._steps = jax.device_put(transform.steps if transform else (), replicated(mesh))
        self._forward = jax.jit(
            _forward,
            static_argnames=("layers", "pooling", "normalize"),
            out_shardings=split(mesh, axis=1),
        )

    @property
    def dim(self) -> int:
        """The width of an embedding."""
        return self.model.dim

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        layers: Sequence[int] | None = None,
        language: str | Sequence[str] | None = None,
        normalize: bool = False,
        max_length: int | None = None,
        show_progress: bool = False,
        output: Literal["numpy", "jax"] = "numpy",
    ) -> np.ndarray | jax.Array:
        """Returns the embeddings of ``sentences``, float32, in their order.

        A sentence's vector does not depend on the others: whatever the batch and the devices
        the relative difference is at most 1e-5, and none when a batch has as many rows.

        Args:
          sentences: any strings. One string gives one vector, none give ``[0, dim]``; an
            empty string is its special tokens, control characters are the tokenizer's affair,
            and what is longer than ``max_length`` is cut, counted and logged as a warning.
          layers: loaded layers to return together, from one forward pass.
          language: for a transform that depends on it, a code or one a sentence.
          normalize: whether to divide each vector by its length (after the transform).
          max_length: the most tokens of a sentence, special tokens included; by default what
            the model takes.
          show_progress: whether to draw a bar.
          output: ``numpy``, or ``jax`` to leave the result on the devices of the mesh.

        Returns:
          ``[n, dim]``; ``[k, n, dim]`` with k ``layers``; without ``n`` for one string.

        Raises:
          ValueError: not text, a lone surrogate, a layer that is not loaded, a length
            that the model does not take, a language that the transform does not know.
        """
        result, report = self.encode_with_report(
            sentences,
            layers=layers,
            language=language,
            normalize=normalize,
            max_length=max_length,
            show_progress=show_progress,
            output=output,
        )
        if report.truncated:
            _log.warning(
                "%d of %d sentences were cut to %d tokens", report.truncated, report.sentences, report.max_length
            )
        return result

    def encode_with_report(
        self,
        sentences: str | Iterable[str],
        *,
        layers: Sequence[int] | None = None,
        language: str | Sequence[str] | None = None,
        normalize: bool = False,
        max_length: int | None = None,
        show_progress: bool = False,
        output: Literal["numpy", "jax"] = "numpy",
    ) -> tuple[np.ndarray | jax.Array, EncodeReport]:
        """As ``encode``, with what was done: tokens, padding, sentences that were cut, seconds.

        Nothing is logged; ``report.truncated`` says how many sentences were cut.
        """
        started = time.perf_counter()
        one = isinstance(sentences, str)
        if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
            raise ValueError(f"sentences are a str or several, not a {type(sentences).__name__}")
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        check_sentences(texts)
        if output not in ("numpy", "jax"):
            raise ValueError(f"output {output!r} is not one of numpy, jax")
        wanted = self._check_layers(layers)
        limit = self._check_length(max_length)
        language_ids = self._language_ids(language, len(texts))

        ids, truncated = self.tokenizer(texts, limit)
        lengths = np.array([len(sentence) for sentence in ids], np.int64)
        slots = plan(lengths, limit, self._batch_sizes())

        run = partial(self._run, ids=ids, languages=language_ids, layers=wanted, normalize=normalize)
        shape = (len(wanted), len(texts), self.dim)
        gather = _to_numpy if output == "numpy" else _to_device
        result = gather(_tracked(slots, len(texts), show_progress), run, shape)
        if layers is None:
            result = result[0]
        if one:
            result = result[..., 0, :]
        report = EncodeReport(
            sentences=len(texts),
            tokens=int(lengths.sum()),
            padded_tokens=sum(slot.rows * slot.width for slot in slots),
            truncated=truncated,
            max_length=limit,
            seconds=time.perf_counter() - started,
        )
        return result, report

    def warm_up(
        self, *, layers: Sequence[int] | None = None, normalize: bool = False, max_length: int | None = None
    ) -> int:
        """Compiles every program that ``encode`` with these arguments may need.

        Returns:
          The number of programs: at most two a width.
        """
        wanted, limit = self._check_layers(layers), self._check_length(max_length)
        shapes = self._batch_sizes().shapes(limit)
        idle = tuple(np.zeros((), np.int32) for _ in self._steps)

        def compile(shape: tuple[int, int]) -> None:
            slot = Slot(np.zeros(0, np.int64), *shape)
            self._run(slot, [], idle, wanted, normalize).block_until_ready()

        # XLA compiles outside Python's lock. The programs have no collectives, which threads
        # could launch in a different order on each device.
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
            list(threads.map(compile, shapes))
        return len(shapes)

    def with_transform(self, transform: Transform) -> "SentenceEncoder":
        """Returns an encoder that applies ``transform`` on the device.

        Raises:
          ValueError: the transform was fitted on another encoder, layer or pooling, or on
            vectors of another width.
        """
        raw = replace(self.spec, transform="")
        applied = self.transform.name if self.transform else ""
        if not transform.fits_after(raw, applied):
            raise ValueError(f"the transform was fitted on {transform.source}, this encoder is {self.spec}")
        if transform.dim != self.dim:
            raise ValueError(f"the transform takes width {transform.dim}, this encoder makes {self.dim}")
        chained = transform if self.transform is None else self.transform.then(transform)
        spec = replace(raw, transform=chained.name)
        return SentenceEncoder(self.model, self.tokenizer, spec, self.mesh, chained)

    def _check_layers(self, layers: Sequence[int] | None) -> tuple[int, ...]:
        if layers is None:
            return (self.spec.layer,)
        if isinstance(layers, str) or not isinstance(layers, Iterable) or not tuple(layers):
            raise ValueError(f"layers is {layers!r}; give one or more, as layers=({self.spec.layer},)")
        wanted = tuple(whole_number("a layer", layer, 0, self.spec.layer, "those loaded") for layer in layers)
        if self.transform is not None and set(wanted) != {self.spec.layer}:
            raise ValueError(f"the transform belongs to layer {self.spec.layer}, not to {wanted}")
        return wanted

    def _check_length(self, max_length: int | None) -> int:
        longest = self.tokenizer.max_length
        # At least two special tokens and one of text.
        return (
            longest
            if max_length is None
            else whole_number("max_length", max_length, 3, longest, "what the model takes")
        )

    def _language_ids(self, language: str | Sequence[str] | None, sentences: int) -> tuple[np.ndarray, ...]:
        if self.transform is None:
            if language is not None:
                raise ValueError("language is given, but this encoder has no transform that uses it")
            return ()
        ids = self.transform.language_ids(language)
        if any(values.ndim and len(values) != sentences for values in ids):
            raise ValueError(f"{max(map(np.size, ids))} languages for {sentences} sentences")
        return ids

    def _run(
        self,
        slot: Slot,
        ids: Sequence[Int[np.ndarray, "_"]],
        languages: tuple[np.ndarray, ...],
        layers: tuple[int, ...],
        normalize: bool,
    ) -> jax.Array:
        batch = self.tokenizer.batch([ids[i] for i in slot.sentences], slot.rows, slot.width)
        rows = tuple(_rows(values, slot) for values in languages)
        placed = jax.device_put((*batch, rows), split(self.mesh))
        return self._forward(
            self.model, self._steps, *placed, layers=layers, pooling=self.spec.pooling, normalize=normalize
        )

    def _batch_sizes(self) -> BatchSizes:
        devices = self.mesh.devices
        # On a CPU 1,024 tokens a call stay in cache (measured: 8.9k tokens/s of 384-wide blocks on
        # two cores, 6.4k at 4,096) and one row is a good call; an accelerator wants many
        # tokens, and a small call costs it little more than its launch.
        full, small = (1024, 0) if devices.flat[0].platform == "cpu" else (32768, 4096)
        return BatchSizes(full, small, devices.size)


def _forward(
    model: Encoder,
    steps: tuple[Step, ...],
    ids: TokenIds,
    lengths: Lengths,
    language_ids: tuple[jax.Array, ...],
    *,
    layers: tuple[int, ...],
    pooling: str,
    normalize: bool,
) -> PooledLayers:
    pooled: dict[int, jax.Array] = {}
    # By default a float32 product is a bfloat16 pass on TPU and TF32 on GPU.
    precision = "float32" if model.dtype == jnp.float32 else None
    with jax.default_matmul_precision(precision):
        for layer, hidden in enumerate(model.hidden_states(ids, lengths)):
            if layer in layers:
                pooled[layer] = POOLINGS[pooling](hidden, lengths)
    result = jnp.stack([pooled[layer] for layer in layers])
    for step, which in zip(steps, language_ids, strict=True):
        result = jax.vmap(affine, in_axes=(None, 0, None))(step, result, which)
    if normalize:
        result = result / jnp.maximum(jnp.linalg.norm(result, axis=-1, keepdims=True), 1e-30)
    return result


def _rows(values: np.ndarray, slot: Slot) -> np.ndarray:
    """Language ids of a slot's rows; a filler row takes language 0, its vector is dropped."""
    rows = np.zeros(slot.rows, np.int32)
    rows[: len(slot.sentences)] = values if values.ndim == 0 else values[slot.sentences]
    return rows


def _to_numpy(slots: Iterable[Slot], run: Callable[[Slot], jax.Array], shape: tuple[int, ...]) -> np.ndarray:
    """Runs the slots with a few in flight: the host copies one result while the next compute."""
    result = np.empty(shape, np.float32)
    waiting: deque[tuple[Slot, jax.Array]] = deque()

    def collect() -> None:
        slot, value = waiting.popleft()
        result[:, slot.sentences] = np.asarray(value)[:, : len(slot.sentences)]

    for slot in slots:
        value = run(slot)
        value.copy_to_host_async()
        waiting.append((slot, value))
        if len(waiting) > _IN_FLIGHT:
            collect()
    while waiting:
        collect()
    return result


def _to_device(slots: Iterable[Slot], run: Callable[[Slot], jax.Array], shape: tuple[int, ...]) -> jax.Array:
    parts, places, rows = [], np.empty(shape[1], np.int64), 0
    for slot in slots:
        parts.append(run(slot))
        places[slot.sentences] = rows + np.arange(len(slot.sentences))
        rows += slot.rows
    if not parts:
        return jnp.zeros(shape, jnp.float32)
    return _gather(parts, places)


@jax.jit
def _gather(parts: list[PooledLayers], places: Int[AnyArray, " sentence"]) -> Float[jax.Array, "layer sentence dim"]:
    return jnp.concatenate(parts, axis=1)[:, places]


def _tracked(slots: list[Slot], sentences: int, show: bool) -> Iterator[Slot]:
    if not show:
        yield from slots
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("encode"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} sentences")]
    with Progress(*columns, TimeRemainingColumn()) as progress:
        task = progress.add_task("encode", total=sentences)
        for slot in slots:
            yield slot
            progress.update(task, advance=len(slot.sentences))
