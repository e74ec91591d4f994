"""Text in, embeddings out: tokens, hidden states and pooling in one call.

One jitted program a batch shape, parameters replicated and rows split over the ``data`` axis
of a mesh. Every layer asked for is pooled as the blocks run, so that several layers cost one
forward pass and no more memory than one.

Text is a stream: a thread tokenizes ahead of the device, sentences wait in buckets of their
length until a batch is full, and results are fetched some batches late. What is held is
the embeddings and a bounded number of sentences.
"""

import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh

from lsar_jax.batching import BatchSizes, Buckets, Slot, token_batch
from lsar_jax.checks import whole_number
from lsar_jax.chunks import Chunk, LanguageTables, read_chunks, slot_languages
from lsar_jax.encoders.families import Family
from lsar_jax.forward import Encoder, forward
from lsar_jax.head import Head
from lsar_jax.mesh import replicated, split
from lsar_jax.moments import Moments
from lsar_jax.report import Counts, EncodeReport
from lsar_jax.results import Collector, MomentsResult, collector
from lsar_jax.spec import EncoderSpec
from lsar_jax.streams import ahead, progress
from lsar_jax.tokenization import Tokenizer, check_sentences
from lsar_jax.transforms.base import AUTO, Transform

__all__ = ["SentenceEncoder"]

_log = logging.getLogger("lsar_jax")


class SentenceEncoder:
    """An encoder on its devices; made by ``load_encoder``.

    Attributes:
      model: a Flax module, replicated over ``mesh``.
      tokenizer: of the checkpoint.
      spec: names the embeddings that ``encode`` returns.
      mesh: the devices, one axis ``data``.
      pooling: hidden states to an embedding, one of ``lsar_jax.pooling.POOLINGS``.
      head: what the checkpoint applies after the pooling of ``spec.layer``, or None.
      prompts: strings that the checkpoint wants before a sentence, by their names.
      prompt: what is put before a sentence unless ``encode`` is told otherwise.
      languages: of the model's language embeddings, code to row; None if it has none.
      family: the names of its weights in a checkpoint, for ``to_sentence_transformers``.
      transform: applied on the device, or None.
    """

    def __init__(
        self,
        model: Encoder,
        tokenizer: Tokenizer,
        spec: EncoderSpec,
        mesh: Mesh,
        *,
        pooling: str = "mean",
        head: Head | None = None,
        prompts: Mapping[str, str] | None = None,
        prompt: str = "",
        languages: Mapping[str, int] | None = None,
        family: Family | None = None,
        transform: Transform | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.spec = spec
        self.mesh = mesh
        self.pooling = pooling
        self.head = None if head is None else jax.device_put(head, replicated(mesh))
        self.prompts = dict(prompts or {})
        self.prompt = prompt
        self.languages = languages
        self.family = family
        self.transform = transform
        self._specials = tokenizer.specials
        self._tables = LanguageTables(spec.id, tokenizer.uses_language, languages, transform)
        self._transform = jax.device_put(transform, replicated(mesh))
        self._forward = jax.jit(
            forward,
            static_argnames=("pooling", "specials", "layers", "normalize", "auto"),
            out_shardings=split(mesh, axis=1),
        )

    @property
    def dim(self) -> int:
        """The width of an embedding."""
        width = self.model.config.widths[self.spec.layer]
        return width if self.head is None or self.head.dim is None else self.head.dim

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        layers: Iterable[int] | None = None,
        language: str | Iterable[str] | None = None,
        prompt: str | None = None,
        normalize: bool = False,
        max_length: int | None = None,
        token_budget: int | None = None,
        show_progress: bool = False,
        output: Literal["numpy", "jax"] = "numpy",
    ) -> np.ndarray | jax.Array:
        """Returns the embeddings of ``sentences``, float32, in their order.

        A sentence's vector does not depend on the others: whatever the batch and the devices
        the relative difference is at most 1e-5, and none when a batch has as many rows.

        Args:
          sentences: any strings, in a list or from an iterator or generator, whose text is not
            kept. One string gives one vector, none give ``[0, dim]``; an empty string is its
            special tokens, control characters are the tokenizer's affair, and what is longer
            than ``max_length`` is cut, counted and logged as a warning.
          layers: loaded layers to return together, from one forward pass.
          language: for a transform, tokenizer or model that depends on it, a code or one a
            sentence; ``"auto"`` lets the transform's identifier find it.
          prompt: put before each sentence, as ``"query: "`` for multilingual-e5; by default the
            checkpoint's own, which is mostly empty. ``prompts`` has those with a name.
          normalize: whether to divide each vector by its length (after the transform).
          max_length: the most tokens of a sentence, special tokens included; by default what
            the model takes.
          token_budget: token positions of a full batch on each device; by default 32,768, and
            1,024 on a CPU. Less needs less memory.
          show_progress: whether to draw a bar with the sentences a second.
          output: ``numpy``, or ``jax`` to leave the result on the devices of the mesh: split by
            sentences where their number divides, else whole on each.

        Returns:
          ``[n, dim]``; ``[k, n, dim]`` with k ``layers``; without ``n`` for one string.

        Raises:
          ValueError: not text, a lone surrogate, a layer that is not loaded, a length
            that the model does not take, a language that is missing or not known.
        """
        result, report = self.encode_with_report(
            sentences,
            layers=layers,
            language=language,
            prompt=prompt,
            normalize=normalize,
            max_length=max_length,
            token_budget=token_budget,
            show_progress=show_progress,
            output=output,
        )
        _log_truncated(report)
        return result

    def encode_with_report(
        self,
        sentences: str | Iterable[str],
        *,
        layers: Iterable[int] | None = None,
        language: str | Iterable[str] | None = None,
        prompt: str | None = None,
        normalize: bool = False,
        max_length: int | None = None,
        token_budget: int | None = None,
        show_progress: bool = False,
        output: Literal["numpy", "jax"] = "numpy",
    ) -> tuple[np.ndarray | jax.Array, EncodeReport]:
        """As ``encode``, with what was done: tokens, padding, sentences that were cut, seconds.

        Nothing is logged; ``report.truncated`` says how many sentences were cut.
        """
        if output not in ("numpy", "jax"):
            raise ValueError(f"output {output!r} is not one of numpy, jax")

        def gather(wanted: tuple[int, ...], total: int | None) -> Collector:
            return collector(output, len(wanted), total, self._width(wanted), self.mesh)

        result, report = self._encode_into(
            gather,
            sentences,
            layers=layers,
            language=language,
            prompt=prompt,
            normalize=normalize,
            max_length=max_length,
            token_budget=token_budget,
            show_progress=show_progress,
        )
        if layers is None:
            result = result[0]
        return result[..., 0, :] if isinstance(sentences, str) else result, report

    def moments(
        self,
        sentences: Iterable[str],
        *,
        layers: Iterable[int] | None = None,
        second_moment: bool = False,
        language: str | Iterable[str] | None = None,
        prompt: str | None = None,
        max_length: int | None = None,
        token_budget: int | None = None,
        show_progress: bool = False,
    ) -> Moments | list[Moments]:
        """Returns the moments of what ``encode`` would return, of which no more than a batch is held.

        Each device sums the rows that it encoded; what comes to the host is one sum a device,
        every half million sentences and at the end.

        Args:
          sentences: one language's, from a list, an iterator or a generator.
          layers: loaded layers to return a list of moments for, from one forward pass.
          second_moment: whether to keep the scatter, which LIR, whitening, LEACE and identifiers need.
          language: as for ``encode``.
          prompt: as for ``encode``.
          max_length: as for ``encode``.
          token_budget: as for ``encode``.
          show_progress: as for ``encode``.

        Raises:
          ValueError: as ``encode``, or no sentences.
        """
        if isinstance(sentences, str):
            raise ValueError("sentences is one str; moments are those of several")

        def gather(wanted: tuple[int, ...], total: int | None) -> Collector:
            return MomentsResult(len(wanted), self.mesh, second_moment)

        result, report = self._encode_into(
            gather,
            sentences,
            layers=layers,
            language=language,
            prompt=prompt,
            normalize=False,
            max_length=max_length,
            token_budget=token_budget,
            show_progress=show_progress,
        )
        _log_truncated(report)
        return result[0] if layers is None else result

    def warm_up(
        self,
        *,
        layers: Iterable[int] | None = None,
        normalize: bool = False,
        max_length: int | None = None,
        token_budget: int | None = None,
        auto: bool = False,
    ) -> int:
        """Compiles every program of the encoder that ``encode`` with these arguments may need.

        What puts results in order with ``output="jax"`` is compiled by the first calls.
        ``auto`` is for ``language="auto"``, whose programs are others.

        Returns:
          The number of programs: at most two a width.
        """
        wanted, limit = self._check_layers(layers), self._check_length(max_length)
        shapes = self._batch_sizes(token_budget).shapes(limit)
        idle = tuple(np.zeros((), np.int32) for _ in range(len(self._tables)))

        def compile(shape: tuple[int, int]) -> None:
            self._run(Slot(np.zeros(0, np.int64), [], *shape), [idle], wanted, normalize, auto).block_until_ready()

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
        return SentenceEncoder(
            self.model,
            self.tokenizer,
            replace(raw, transform=chained.name),
            self.mesh,
            pooling=self.pooling,
            head=self.head,
            prompts=self.prompts,
            prompt=self.prompt,
            languages=self.languages,
            family=self.family,
            transform=chained,
        )

    def to_sentence_transformers(self, folder: str | Path) -> None:
        """Writes a folder that transformers and sentence-transformers load, and that give our vectors.

        It has the blocks up to ``spec.layer``, tokenizer, pooling, what follows it, and the
        transform, if it is shared, as one Dense; float32. XLM's tokenizer splits every sentence
        as English there, as it does here without ``language``. BERT's own pooler is not written:
        transformers says so when it makes up one that nothing here uses.

        Raises:
          FileExistsError: there is something at ``folder``.
          ValueError: it cannot be said in such a folder: LASER, language embeddings, the mean
            without special tokens, a transform by language.
        """
        from lsar_jax.encoders.export import export

        export(self, Path(folder))

    def _encode_into(
        self,
        make: Callable[[tuple[int, ...], int | None], Collector],
        sentences: str | Iterable[str],
        *,
        layers: Iterable[int] | None,
        language: str | Iterable[str] | None,
        prompt: str | None,
        normalize: bool,
        max_length: int | None,
        token_budget: int | None,
        show_progress: bool,
    ) -> tuple[Any, EncodeReport]:
        """Returns what the collector, made from the layers and the total, has of all sentences."""
        started = time.perf_counter()
        if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
            raise ValueError(f"sentences are a str or several, not a {type(sentences).__name__}")
        texts: Iterable[str] = [sentences] if isinstance(sentences, str) else sentences
        if isinstance(texts, np.ndarray):
            texts = texts.ravel()
        total = len(texts) if isinstance(texts, Sequence | np.ndarray) else None
        wanted = self._check_layers(layers)
        limit = self._check_length(max_length)
        prompt = self._check_prompt(prompt, limit)
        sizes = self._batch_sizes(token_budget)

        counts, tables = Counts(), list[tuple[np.ndarray, ...]]()
        chunks = read_chunks(texts, total, language, prompt, self._tables)
        waiting = self._slots(chunks, Buckets(limit, sizes), limit, counts, tables)
        gather = make(wanted, total)
        auto = isinstance(language, str) and language == AUTO
        # Closed at once when something fails: the tokenizer's thread ends with it.
        with closing(waiting) as slots, progress(show_progress, total) as advance:
            for slot in slots:
                gather.add(slot, self._run(slot, tables, wanted, normalize, auto))
                counts.padded_tokens += slot.rows * slot.width
                advance(len(slot.sentences))
        return gather.result(counts.sentences), counts.report(limit, time.perf_counter() - started)

    def _check_layers(self, layers: Iterable[int] | None) -> tuple[int, ...]:
        if layers is None:
            return (self.spec.layer,)
        several = () if isinstance(layers, str) or not isinstance(layers, Iterable) else tuple(layers)
        if not several:
            raise ValueError(f"layers is {layers!r}; give one or more, as layers=({self.spec.layer},)")
        widths = self.model.config.widths
        wanted = tuple(whole_number("a layer", layer, 0, len(widths) - 1, "those loaded") for layer in several)
        if set(wanted) != {self.spec.layer}:
            if self.transform is not None:
                raise ValueError(f"the transform belongs to layer {self.spec.layer}, not to {wanted}")
            if self.head is not None:
                raise ValueError(
                    f"what follows the pooling in {self.spec.pooling!r} belongs to layer {self.spec.layer}, not to "
                    f"{wanted}; load the encoder with pooling={self.pooling!r} to compare layers"
                )
        if len({widths[layer] for layer in wanted}) > 1:
            raise ValueError(f"layers {wanted} are of widths {[widths[layer] for layer in wanted]}; ask for each alone")
        return wanted

    def _width(self, layers: tuple[int, ...]) -> int:
        return self.dim if layers[0] == self.spec.layer else self.model.config.widths[layers[0]]

    def _check_length(self, max_length: int | None) -> int:
        longest = self.tokenizer.max_length
        # The special tokens and one of text.
        least = sum(self._specials) + 1
        return (
            longest
            if max_length is None
            else whole_number("max_length", max_length, least, longest, "what the checkpoint takes")
        )

    def _check_prompt(self, prompt: str | None, limit: int) -> str:
        if prompt is None:
            prompt = self.prompt
        if not isinstance(prompt, str):
            raise ValueError(f"prompt is {prompt!r}; it must be a str")
        if prompt:
            check_sentences([prompt], what="prompt")
            tokens = len(self.tokenizer([prompt], limit, [None])[0][0])
            if tokens >= limit:
                raise ValueError(f"the prompt {prompt!r:.60} leaves no room for text in {limit} tokens")
        return prompt

    def _slots(
        self,
        chunks: Iterator[Chunk],
        buckets: Buckets,
        limit: int,
        counts: Counts,
        tables: list[tuple[np.ndarray, ...]],
    ) -> Generator[Slot, None, None]:
        """Yields device calls; a thread tokenizes the chunks that come next."""

        def tokenize(chunk: Chunk) -> tuple[Chunk, list[np.ndarray], int]:
            return chunk, *self.tokenizer(chunk.texts, limit, chunk.languages)

        for chunk, ids, cut in ahead(tokenize, chunks):
            counts.sentences += len(ids)
            counts.tokens += sum(map(len, ids))
            counts.truncated += cut
            tables.append(chunk.ids)
            yield from buckets.add(ids, chunk.first)
        yield from buckets.flush()

    def _run(
        self,
        slot: Slot,
        tables: Sequence[tuple[np.ndarray, ...]],
        layers: tuple[int, ...],
        normalize: bool,
        auto: bool,
    ) -> jax.Array:
        batch = token_batch(slot.ids, slot.rows, slot.width, self.tokenizer.pad_id)
        placed = jax.device_put((*batch, slot_languages(slot, tables)), split(self.mesh))
        static = {
            "pooling": self.pooling,
            "specials": self._specials,
            "layers": layers,
            "normalize": normalize,
            "auto": auto,
        }
        return self._forward(self.model, self.head, self._transform, *placed, **static)

    def _batch_sizes(self, token_budget: int | None = None) -> BatchSizes:
        devices = self.mesh.devices
        # On a CPU 1,024 tokens a call stay in cache (measured: 8.9k tokens/s of 384-wide blocks on
        # two cores, 6.4k at 4,096) and one row is a good call; an accelerator wants many
        # tokens, and a small call costs it little more than its launch.
        full, small = (1024, 0) if devices.flat[0].platform == "cpu" else (32768, 4096)
        if token_budget is not None:
            full = whole_number("token_budget", token_budget, 1, 1 << 30, "tokens of a batch on one device")
        return BatchSizes(full, min(small, full), devices.size)


def _log_truncated(report: EncodeReport) -> None:
    if report.truncated:
        _log.warning("%d of %d sentences were cut to %d tokens", report.truncated, report.sentences, report.max_length)
