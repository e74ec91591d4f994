"""The options of an encoder, and how a command opens it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from lsar_jax import embeddings
from lsar_jax.checkpoints.locate import is_folder
from lsar_jax.checks import check_option
from lsar_jax.console.output import console
from lsar_jax.corpora.records import Records, has_columns
from lsar_jax.encoders import SentenceEncoder, load_encoder
from lsar_jax.models.encoder import Encoder
from lsar_jax.transforms import Transform

__all__ = ["EncoderOptions", "InputOptions"]


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """The encoder of text.

    Attributes:
      encoder: bundled, a preset, a folder, a Hub id, or FILE.py:FUNCTION.
      revision: commit, tag or branch of a Hub id.
      adapter: name of the adapter that is merged into the weights, where there are several.
      pooling: pooling of the tokens, such as mean, cls, last or mean+cls; by default, the checkpoint's own.
      dtype: float32 or bfloat16, for parameters and matrix products.
      max_length: maximum number of tokens per sentence.
      final_norm: apply the norm after the last block, which most decoders have, to a layer below, too.
      prompt: text put before each sentence, or the name of one of the checkpoint's prompts; by default, its own.
    """

    encoder: str = "bundled"
    revision: str | None = None
    adapter: str | None = None
    pooling: str | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_length: int = 128
    final_norm: bool = False
    prompt: str | None = None

    def open(
        self, layer: int | None = None, *, dim: int | None = None, param_dtype: str | None = None
    ) -> SentenceEncoder:
        """Loads the encoder with its blocks up to ``layer``, or with all blocks; arguments as of ``load_encoder``."""
        started = time.perf_counter()
        encoder = load_encoder(
            self.encoder, revision=self.revision, adapter=self.adapter, layer=layer, pooling=self.pooling, dim=dim,
            final_norm=self.final_norm, dtype=self.dtype, param_dtype=param_dtype,
        )  # fmt: skip
        if self.prompt is not None:
            if "\\n" in self.prompt:
                raise ValueError(f"--prompt has a backslash and an n; in bash, write a line break as $'{self.prompt}'")
            encoder = encoder.with_prompt(self.prompt)
        devices = encoder.mesh.devices
        console.print(
            f"encoder {encoder.spec.id}, blocks 1 to {encoder.spec.layer}, {encoder.spec.pooling} pooling, "
            f"{encoder.spec.dtype}, on {devices.size} x {devices.flat[0].device_kind}; "
            f"loaded in {time.perf_counter() - started:.1f} s"
        )
        return encoder

    def open_transformer(self, layer: int | None, done: str) -> SentenceEncoder:
        """Loads a transformer with float32 parameters, up to ``layer`` or whole; ``done`` is a word of its error."""
        encoder = self.open(layer, param_dtype="float32")
        if not isinstance(encoder.model, Encoder):
            raise ValueError(f"{encoder.spec.id} is not a transformer; only transformers can be {done}")
        if layer is None and encoder.spec.layer != encoder.model.config.blocks:
            encoder = self.open(encoder.model.config.blocks, param_dtype="float32")
        return encoder


@dataclass(frozen=True, kw_only=True)
class InputOptions(EncoderOptions):
    """The encoder of an input, which may be text or vectors.

    Attributes:
      encoder: encoder of text: bundled, a preset, a folder or a Hub id. Omit it for vectors.
      layer: hidden-state layer; by default, the transform's, or the checkpoint's.
      max_length: maximum number of tokens per sentence; by default, the checkpoint's.
      text: column of the sentences in files with columns; by default, text.
    """

    encoder: str | None = None  # type: ignore[assignment]
    max_length: int | None = None  # type: ignore[assignment]
    layer: int | None = None
    text: str | None = None

    def check_text(self, text: Sequence[Path]) -> None:
        """Raises an error for text without an encoder or that cannot be read, and for an option that needs text."""
        if text:
            Records(text, self.text)
        if text and self.encoder is None:
            choices = "bundled, a preset, a folder or a Hub id"
            raise ValueError(f"{text[0]} is read as text, which needs an encoder; give --encoder {choices}")
        for field in () if text else fields(InputOptions):
            value = getattr(self, field.name)
            check_option(value == field.default, "left out: there is no text to encode", **{field.name: value})

    def encoder_files(self) -> list[Path]:
        """The folder and the files of an encoder that is a folder, which no output may replace."""
        if not self.encoder or not is_folder(self.encoder):
            return []
        folder = Path(self.encoder)
        # A part of the encoder may be a link to another folder.
        linked = [path for link in folder.iterdir() if link.is_symlink() and link.is_dir() for path in link.iterdir()]
        return [folder, *(path for path in (*folder.rglob("*"), *linked) if path.is_file())]

    def load(self, transform: Transform | None = None, dim: int | None = None) -> SentenceEncoder:
        """Opens the encoder, by default up to the layer that a transform was fitted on."""
        source = None if transform is None else transform.source
        return self.open(source.layer if self.layer is None and source else self.layer, dim=dim)

    def encode_file(self, encoder: SentenceEncoder, path: Path, folder: Path, language: str | None) -> None:
        """Encodes a file of text into a folder; its language is for encoders that use it."""
        language, text = language if encoder.uses_language else None, self.text if has_columns(path) else None
        options: dict[str, Any] = {"language": language, "text": text, "max_length": self.max_length}
        embeddings.encode(encoder, [path], folder, **options, show_progress=True)
