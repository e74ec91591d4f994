"""Text in, embeddings out: tokens, hidden states and pooling in one call.

Rows are split over the ``data`` axis of a mesh, and weights over its ``model`` axis. Layers are pooled as the blocks
run, so several cost one forward pass. ``lsar_jax.encoders.pipeline`` streams text through them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import jax
import numpy as np
from jax.sharding import Mesh

from lsar_jax.checkpoints.export import export
from lsar_jax.checks import check_flags
from lsar_jax.encoders.collectors import Collector, MomentsResult, collector
from lsar_jax.encoders.encode_report import EncodeReport, log_report
from lsar_jax.encoders.migration_hints import Output, SentenceTransformersNames, check_names
from lsar_jax.encoders.options import (
    EncodeOptions,
    StreamOptions,
    check_prompt,
    check_transform,
    encode_call,
    prompt_text,
)
from lsar_jax.encoders.pipeline import compile_programs, encode_into
from lsar_jax.encoders.program import EncoderModel
from lsar_jax.mesh import replicated
from lsar_jax.models.architectures import Architecture
from lsar_jax.models.pooling import pooled_width
from lsar_jax.models.projection import Projection
from lsar_jax.moments import Moments
from lsar_jax.spec import EncoderSpec
from lsar_jax.tokens.tokenizer import Tokenizer
from lsar_jax.transforms import Transform

__all__ = ["SentenceEncoder"]


@dataclass(eq=False, repr=False)
class SentenceEncoder(SentenceTransformersNames):
    """A sentence encoder on its devices; create one with ``load_encoder``.

    Attributes:
      model: a Flax module, replicated over ``mesh``.
      tokenizer: tokenizer of the checkpoint.
      spec: identifies the embeddings that ``encode`` returns.
      mesh: the devices.
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

    def __repr__(self) -> str:
        spec, devices = self.spec, self.mesh.devices
        parts = [f"{spec.id!r}", f"layer={spec.layer}", f"pooling={spec.pooling!r}", f"dtype={spec.dtype!r}"]
        parts += [f"dim={self.dim}", f"max_length={self.tokenizer.max_length}"]
        optional = {name: getattr(spec, name) for name in ("final_norm", "prompt", "transform")}
        parts += [f"{name}={value!r}" for name, value in optional.items() if value]
        return f"SentenceEncoder({', '.join(parts)}, devices='{devices.size} x {devices.flat[0].device_kind}')"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"the encoder {self.spec.id} cannot be pickled or deep-copied, because its weights are on the devices "
            "of this process; call load_encoder in each process, or pickle its transform or its embeddings"
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

        A sentence's vector does not depend on its neighbours or the devices: the relative difference is at most 1e-5;
        with a mixture of experts, rarely 1e-3, where rounding chooses another expert. The same input gives the same
        bytes.

        Args:
          sentences: any strings, from a list, an iterator or a generator; their text is not kept. Text beyond
            ``max_length`` is truncated, counted and logged as a warning.
          output: ``"numpy"``, or ``"jax"`` for an array on the devices, split by sentences if they divide their number.
          **options: any of the following.

            - ``layers``: loaded layers to return together, from one forward pass; by default ``spec.layer``.
            - ``language``: required if a transform, model or tokenizer depends on it: one code, or one per sentence;
              ``"auto"`` lets the transform's identifier detect it. Sentences in none of the languages that it knows
              are taken for the nearest one, counted and logged as a warning.
            - ``prompt``: text put before each sentence, such as ``"query: "``, or the name of one of ``prompts``, which
              one plain word always is. By default ``prompt``, the checkpoint's own, which is usually empty.
            - ``normalize``: whether to divide each vector by its length, after the transform.
            - ``max_length``: maximum tokens per sentence, special tokens included; by default the checkpoint's maximum.
            - ``token_budget``: token positions of a full batch on each device; by default 32,768, and 512 on a CPU.
            - ``show_progress``: whether to show the share that is done and the time left, in a bar or in a line every
              30 seconds; or a function of the number of sentences of a batch.

        Returns:
          ``[n, dim]``; ``[k, n, dim]`` for k ``layers``; without the axis ``n`` for one string.

        Raises:
          TypeError: an option is unknown.
          ValueError: a sentence or another argument is not as above, or an embedding is not finite.
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

        result, report = encode_into(self, collect, sentences, encode_call(self, options))
        return result[..., 0, :] if isinstance(sentences, str) else result, report

    def moments(
        self, sentences: Iterable[str], *, second_moment: bool = False, **options: Unpack[StreamOptions]
    ) -> Moments | list[Moments]:
        """Returns the moments of what ``encode`` would return, while holding at most one batch of embeddings.

        Args:
          sentences: sentences of one language, as for ``encode``.
          second_moment: whether to keep the scatter, which LIR, whitening, LEACE and identifiers need.
          **options: as for ``encode``, except ``normalize`` and ``output``; ``layers`` gives a list.

        Raises:
          TypeError, ValueError: as for ``encode``; also if there are no sentences.
        """
        check_names("moments", options, StreamOptions.__annotations__)
        check_flags(second_moment=second_moment)
        result, report = encode_into(
            self, lambda specs, _: MomentsResult(specs, self.mesh, second_moment), sentences, encode_call(self, options)
        )
        log_report(report)
        return result

    def warm_up(self, **options: Unpack[EncodeOptions]) -> int:
        """Compiles every program that ``encode`` may need with these options, and returns their number.

        There are at most six for a stream of text, and up to 16 for single sentences. Options are as for ``encode``.
        """
        check_names("warm_up", options, EncodeOptions.__annotations__)
        return compile_programs(self, encode_call(self, options))

    def with_transform(self, transform: Transform) -> "SentenceEncoder":
        """Returns an encoder that applies ``transform`` on the device, after its current transform, if any.

        Raises ValueError if it was fitted in another space or on another width, or is already applied.
        """
        place = f"the encoder {self.spec.id}"
        check_transform(transform, self.spec.raw(), self.dim, self.applied, place, self.transform)
        chain = transform if self.transform is None else self.transform.then(transform)
        spec = self.spec.raw().after(chain.name, chain.digests)
        return replace(self, spec=spec, transform=chain, applied=self.applied | transform.applied)

    def with_prompt(self, prompt: str) -> "SentenceEncoder":
        """Returns an encoder that puts ``prompt`` before each sentence, unless ``encode`` is given another.

        It is text, or the name of one of ``prompts``. The encoder accepts only transforms fitted with its prompt.
        Raises ValueError if it is a word that is not a name, leaves no room for text, or the encoder has a transform.
        """
        if self.transform is not None:
            raise ValueError("the encoder has a transform; set the prompt first, then add a transform fitted with it")
        text = check_prompt(prompt_text(prompt, self.prompts), self.tokenizer, self.tokenizer.max_length)
        return replace(self, spec=replace(self.spec, prompt=text))

    def to_sentence_transformers(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Writes a folder with which transformers and sentence-transformers compute the same vectors.

        It holds the blocks up to ``spec.layer``, what comes after them, and a shared transform as one Dense layer, in
        float32; with ``overwrite``, it replaces a folder that this method wrote.

        Raises:
          FileExistsError: ``folder`` exists and is not to be replaced, or has other files.
          ValueError: such a folder cannot express the encoder, or its transform, which depends on the language.
        """
        check_flags(overwrite=overwrite)
        export(self, Path(folder), overwrite=overwrite)
