"""Text in, embeddings out: tokens, hidden states and pooling in one call.

There is one jitted program per batch shape; rows are split over the ``data`` axis of a mesh, and weights over its
``model`` axis. Layers are pooled as the blocks run, so several cost one forward pass, and no more memory for hidden
states than one. Text is a stream: a thread tokenizes ahead of the device, sentences are packed into rows of a few
widths, and results are fetched a few batches late. Only the embeddings and a bounded number of sentences are held.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import jax
import numpy as np
from jax.sharding import Mesh

from lsar_jax.checkpoints.export import export
from lsar_jax.checks import check_flags
from lsar_jax.encoders.collectors import COLLECTIVES, Collector, MomentsResult, collector
from lsar_jax.encoders.encode_report import Counts, EncodeReport, log_report
from lsar_jax.encoders.input_stream import read_batches
from lsar_jax.encoders.migration_hints import Output, SentenceTransformersNames, check_names
from lsar_jax.encoders.options import (
    EncodeCall,
    EncodeOptions,
    StreamOptions,
    check_prompt,
    check_transform,
    encode_call,
    language_rows,
    ordered,
    prompt_text,
    prompt_tokens,
)  # fmt: skip
from lsar_jax.encoders.program import EncoderModel, Program, compiled
from lsar_jax.encoders.progress import count_meter
from lsar_jax.languages import AUTO, check_given
from lsar_jax.mesh import replicated, shares, split
from lsar_jax.models.architectures import Architecture
from lsar_jax.models.laser import Laser
from lsar_jax.models.pooling import pooled_width
from lsar_jax.models.projection import Projection
from lsar_jax.moments import Moments
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.packing import BatchSizes, PackedBatch, batch
from lsar_jax.tokens.tokenizer import Tokenizer
from lsar_jax.transforms import Transform

__all__ = ["SentenceEncoder"]

_log = logging.getLogger("lsar_jax")


@dataclass(eq=False, repr=False)
class SentenceEncoder(SentenceTransformersNames):
    """A sentence encoder on its devices; create one with ``load_encoder``.

    Attributes:
      model: a Flax module, replicated over ``mesh``.
      tokenizer: tokenizer of the checkpoint.
      spec: identifies the embeddings that ``encode`` returns.
      mesh: the devices, with one axis ``data``.
      pooling: one of ``lsar_jax.models.pooling.POOLINGS``, or several joined by ``+``.
      projection: layers that the checkpoint applies after pooling ``spec.layer``, or None.
      prompts: strings that the checkpoint expects before a sentence, by name.
      include_prompt: whether the tokens of a prompt are pooled, as almost all checkpoints want it.
      languages: row of the model's language embedding by code; None if it has none.
      architecture: names of the weights in a checkpoint.
      transform: the transform applied on the device, or None.
      applied: ``Transform.applied`` of it, and of one that is in the checkpoint, as ``to_sentence_transformers`` says.

    Example:
      >>> encoder = lj.load_encoder("bundled", layer=2)
      >>> text = lj.corpora.udhr("fit", ["de", "en", "fr"])
      >>> lsar = lj.transforms.fit_lsar({code: encoder.moments(paragraphs) for code, paragraphs in text.items()})
      >>> encoder.with_transform(lsar).encode(text["de"], normalize=True).shape
      (25, 384)
      >>> encoder.encode("Guten Tag", layers=(0, 2)).shape  # one string, two layers
      (2, 384)
    """

    model: EncoderModel
    tokenizer: Tokenizer
    spec: EncoderSpec
    mesh: Mesh
    _: KW_ONLY
    pooling: str = "mean"
    projection: Projection | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    include_prompt: bool = True
    languages: Mapping[str, int] | None = None
    architecture: Architecture | None = None
    transform: Transform | None = None
    applied: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.projection, self._on_device = jax.device_put((self.projection, self.transform), replicated(self.mesh))
        self._warned: set[str] = set()
        self._forward = compiled(self.mesh, isinstance(self.model, Laser))

    def __repr__(self) -> str:
        spec, devices = self.spec, self.mesh.devices
        parts = [f"{spec.id!r}", f"layer={spec.layer}", f"pooling={spec.pooling!r}", f"dtype={spec.dtype!r}"]
        parts += [f"dim={self.dim}", f"max_length={self.tokenizer.max_length}"]
        names = "final_norm", "prompt", "transform"
        parts += [f"{name}={value!r}" for name in names if (value := getattr(spec, name))]
        return f"SentenceEncoder({', '.join(parts)}, devices='{devices.size} x {devices.flat[0].device_kind}')"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"the encoder {self.spec.id} cannot be pickled or deep-copied, because its weights are on the devices "
            "of this process; call load_encoder in each process, and pickle its transform or its embeddings instead"
        )

    @property
    def dim(self) -> int:
        """The width of an embedding."""
        return self.dim_of(self.spec.layer)

    def dim_of(self, layer: int) -> int:
        """Returns the width of an embedding of a loaded layer."""
        if layer == self.spec.layer and self.projection is not None and self.projection.dim is not None:
            return self.projection.dim
        return pooled_width(self.pooling, self.model.config.widths[layer])

    @property
    def uses_language(self) -> bool:
        """Whether the tokenizer splits, or the model embeds, a sentence by its language."""
        return self.tokenizer.uses_language or self.languages is not None

    @property
    def needs_language(self) -> bool:
        """Whether a sentence cannot be encoded without its language: it is embedded, or the first token."""
        return self.languages is not None or getattr(self.tokenizer, "language_id", None) is not None

    @property
    def prompt(self) -> str:
        """The string put before a sentence by default."""
        return self.spec.prompt

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, output: Literal["numpy"] = "numpy", **options: Unpack[EncodeOptions]
    ) -> np.ndarray: ...

    @overload
    def encode(
        self, sentences: str | Iterable[str], *, output: Literal["jax"], **options: Unpack[EncodeOptions]
    ) -> jax.Array: ...

    def encode(
        self, sentences: str | Iterable[str], *, output: Output = "numpy", **options: Unpack[EncodeOptions]
    ) -> np.ndarray | jax.Array:
        """Returns the embeddings of ``sentences`` in their order, as float32.

        A sentence's vector does not depend on its neighbours: whatever the batch, the order, the row that it shares and
        the devices, the relative difference is at most 1e-5. The same input gives the same bytes.

        Args:
          sentences: any strings, from a list, an iterator or a generator; their text is not kept. An empty string is
            encoded as its special tokens; text beyond ``max_length`` is truncated, counted and logged as a warning.
          output: ``"numpy"``, or ``"jax"`` for an array on the devices of the mesh: split by sentences if the
            devices divide their number, otherwise replicated.
          **options: any of the following.

            - ``layers``: loaded layers to return together, from one forward pass; by default ``spec.layer``.
            - ``language``: required if a transform or model depends on it, and used by tokenizers that do: one code, or
              one per sentence; ``"auto"`` lets the transform's identifier detect it. Sentences in none of the
              languages that it knows are taken for the nearest one, counted and logged as a warning.
            - ``prompt``: put before each sentence: text, such as ``"query: "`` for multilingual-e5, to which no space
              is added, or the name of one of ``prompts``. One plain word is always a name. By default ``prompt``, the
              checkpoint's own, which is usually empty.
            - ``normalize``: whether to divide each vector by its length, after the transform.
            - ``max_length``: maximum tokens per sentence, special tokens included; by default the checkpoint's maximum.
            - ``token_budget``: token positions of a full batch on each device; by default 32,768, and 512 on a CPU. A
              smaller budget needs less memory, but a batch has at least one row, which holds the longest sentence.
            - ``show_progress``: whether to show the share that is done and the time left: in a bar on a terminal or in
              a notebook, and elsewhere in a line every 30 seconds. Or a function that takes the number of sentences of
              each batch.

        Returns:
          ``[n, dim]``; ``[k, n, dim]`` for k ``layers``; without the axis ``n`` for one string.

        Raises:
          TypeError: an option is unknown.
          ValueError: a sentence is not text or has a lone surrogate, a layer is not loaded, a length is out of
            range, a language is missing or unknown, or an embedding is not finite.
        """
        result, report = self.encode_with_report(sentences, output=output, **options)
        log_report(report)
        return result

    def encode_with_report(
        self, sentences: str | Iterable[str], *, output: Output = "numpy", **options: Unpack[EncodeOptions]
    ) -> tuple[Any, EncodeReport]:
        """Returns the result of ``encode``, with its options and errors, and an ``EncodeReport``; nothing is logged."""
        check_names("encode", options, (*EncodeOptions.__annotations__, "output"))

        def collect(specs: Sequence[EncoderSpec], total: int | None) -> Collector:
            return collector(output, len(specs), total, self.dim_of(specs[0].layer), self.mesh)

        result, report = self.encode_into(collect, sentences, encode_call(self, options))
        return result[..., 0, :] if isinstance(sentences, str) else result, report

    def moments(
        self, sentences: Iterable[str], *, second_moment: bool = False, **options: Unpack[StreamOptions]
    ) -> Moments | list[Moments]:
        """Returns the moments of what ``encode`` would return, while holding at most one batch of embeddings.

        Args:
          sentences: sentences of one language, from a list, an iterator or a generator.
          second_moment: whether to keep the scatter, which LIR, whitening, LEACE and identifiers need.
          **options: as for ``encode``, except ``normalize`` and ``output``; ``layers`` gives a list.

        Raises:
          TypeError: an option is unknown.
          ValueError: as for ``encode``; also if there are no sentences.
        """
        check_names("moments", options, StreamOptions.__annotations__)
        check_flags(second_moment=second_moment)
        if isinstance(sentences, str):
            raise ValueError("sentences is a single str; give a list or an iterator of str")

        def collect(specs: Sequence[EncoderSpec], total: int | None) -> Collector:
            return MomentsResult(specs, self.mesh, second_moment)

        result, report = self.encode_into(collect, sentences, encode_call(self, options))
        log_report(report)
        return result

    def warm_up(self, **options: Unpack[EncodeOptions]) -> int:
        """Compiles every program that ``encode`` may need with these options, and returns their number.

        There are at most six for a stream of text, and up to 16 for single sentences of up to 512 tokens, by their
        lengths. All languages share their programs, except ``"auto"``. Those that order results on the device
        (``output="jax"``) are compiled when they are needed. Options and errors are as for ``encode``.
        """
        check_names("warm_up", options, EncodeOptions.__annotations__)
        check_given(options.get("language"))
        call = encode_call(self, options)
        shapes = self._batch_sizes(call).shapes(call.max_length)
        for shape in shapes:
            jax.block_until_ready(self._run(self._program(call), batch([], shape, shares(self.mesh))))
        return len(shapes)

    def with_transform(self, transform: Transform) -> "SentenceEncoder":
        """Returns an encoder that applies ``transform`` on the device, after its current transform, if any.

        Raises:
          ValueError: the transform was fitted in another space or on another width; or it is already applied.
        """
        place = f"the encoder {self.spec.id}"
        check_transform(transform, self.spec.raw(), self.dim, self.applied, place, self.transform)
        chain = transform if self.transform is None else self.transform.then(transform)
        spec = self.spec.raw().after(chain.name, chain.digests)
        return replace(self, spec=spec, transform=chain, applied=self.applied | transform.applied)

    def with_prompt(self, prompt: str) -> "SentenceEncoder":
        """Returns an encoder that puts ``prompt`` before each sentence, unless ``encode`` is given another.

        Another prompt means another embedding space: the encoder accepts only transforms fitted with its prompt.

        Args:
          prompt: text, or the name of one of ``prompts``, as for ``encode``.

        Raises:
          ValueError: the prompt is a word that is not a name, it leaves no room for text, or the encoder already has a
            transform.
        """
        if self.transform is not None:
            raise ValueError(
                "the encoder already has a transform; set the prompt first, then add a transform fitted with it"
            )
        text = check_prompt(prompt_text(prompt, self.prompts), self.tokenizer, self.tokenizer.max_length)
        return replace(self, spec=replace(self.spec, prompt=text))

    def to_sentence_transformers(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes a folder with which transformers and sentence-transformers compute the same vectors.

        It holds the blocks up to ``spec.layer``, the tokenizer, the pooling, the layers after it, and a shared
        transform as one Dense layer, in float32; with ``overwrite``, it replaces a folder that this method wrote.
        BERT's own pooler is not written; transformers reports that it initializes a new one, which is not used.

        Raises:
          FileExistsError: ``folder`` exists and is not to be replaced, or has other files, such as ``.git`` or ONNX.
          ValueError: such a folder cannot express the encoder: XLM, LASER, the mean without special tokens, a layer
            of a decoder without its final norm, or a transform that depends on the language.
        """
        check_flags(overwrite=overwrite)
        export(self, Path(folder), overwrite=overwrite)

    def encode_into(
        self,
        collect: Callable[[Sequence[EncoderSpec], int | None], Collector],
        sentences: str | Iterable[str],
        call: EncodeCall,
    ) -> tuple[Any, EncodeReport]:
        """Encodes text into the collector that ``collect`` makes; without ``layers``, the result is of one layer."""
        started = time.perf_counter()
        texts = ordered(sentences)
        total = len(texts) if isinstance(texts, Sequence | np.ndarray) else None
        if self.transform is not None and self.transform.source and call.prompt not in {self.prompt, *self._warned}:
            self._warned.add(call.prompt)
            _log.warning("the transform was fitted with the prompt %r, but %r is used", self.prompt, call.prompt)
        program = self._program(call)
        gather = collect([replace(self.spec, layer=layer, prompt=call.prompt) for layer in call.layers], total)

        counts = Counts()
        batches = read_batches(
            texts, total, call, rows=partial(language_rows, self), tokenizer=self.tokenizer,
            sizes=self._batch_sizes(call), counts=counts,
        )  # fmt: skip
        # Closed as soon as something fails, so that the tokenizer's thread ends.
        with closing(batches), count_meter(call.show_progress, total) as advance:
            # Batches whose embeddings a collector has from an earlier run are only counted.
            for part in islice(batches, gather.kept):
                counts.add(part, None)
            for part in batches:
                embedded, unknown = self._run(program, part)
                gather.add(part, embedded)
                counts.add(part, unknown)
                advance(len(part.sentences))
        result, seconds = gather.result(counts.sentences), time.perf_counter() - started
        return result[0] if call.one_layer else result, counts.report(call.max_length, seconds)

    def _program(self, call: EncodeCall) -> Program:
        auto = isinstance(call.language, str) and call.language == AUTO
        unpooled = 0 if self.include_prompt else prompt_tokens(call.prompt, self.tokenizer)
        return Program(self.pooling, self.tokenizer.specials, call.layers, call.normalize, auto, unpooled)

    def _run(self, program: Program, part: PackedBatch) -> tuple[jax.Array, jax.Array | None]:
        steps = 0 if self.transform is None else len(self.transform.steps)
        arrays = part.ids(self.tokenizer.pad_id), part.lengths, part.places
        languages = tuple(part.languages((self.languages is not None) + steps))
        inputs = jax.device_put((*arrays, languages), split(self.mesh))
        arguments = program, self.model, self.projection, self._on_device, *inputs
        if self.mesh.size == shares(self.mesh):
            return self._forward(*arguments)
        # Where weights are split, the devices wait for each other, so that one batch must end before another starts.
        with COLLECTIVES:
            return jax.block_until_ready(self._forward(*arguments))

    def _batch_sizes(self, call: EncodeCall) -> BatchSizes:
        return BatchSizes.for_devices(list(self.mesh.devices.flat)[: shares(self.mesh)], call.token_budget)
