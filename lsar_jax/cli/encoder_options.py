"""The encoder of the text that a command reads: its options, and what it is loaded with."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from lsar_jax.checkpoints.locate import is_folder
from lsar_jax.corpora.records import Records
from lsar_jax.encoders import SentenceEncoder, load_encoder
from lsar_jax.transforms import Transform

__all__ = ["EncoderOptions", "with_prompt"]


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """The encoder of text.

    Attributes:
      encoder: encoder of text: bundled, a preset, a folder or a Hub id. Omit it for vectors.
      revision: commit, tag or branch of a Hub id.
      layer: hidden-state layer; by default, that of the transform, or the checkpoint's.
      pooling: pooling of the tokens; by default, the checkpoint's.
      dim: number of dimensions to keep of a Matryoshka embedding, which is normalised again; by default, all.
      final_norm: apply the norm after the last block to a layer below, too.
      prompt: text put before each sentence, or the name of one of the checkpoint's prompts; by default, its own.
      max_length: maximum number of tokens per sentence; by default, the checkpoint's.
      text: column of the sentences in files with columns; by default, text.
    """

    encoder: str | None = None
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    dim: int | None = None
    final_norm: bool = False
    prompt: str | None = None
    max_length: int | None = None
    text: str | None = None

    def check_text(self, text: Sequence[Path]) -> None:
        """Raises an error for text without an encoder or that cannot be read, and for an option that needs text."""
        if text:
            Records(text, self.text)
        if text and self.encoder is None:
            choices = "bundled, a preset, a folder or a Hub id"
            raise ValueError(f"{text[0]} is read as text, which needs an encoder; give --encoder {choices}")
        for field in () if text else fields(EncoderOptions):
            if getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name.replace('_', '-')} is given, but there is no text to encode; omit it")

    def encoder_files(self) -> list[Path]:
        """The folder and the files of an encoder that is a folder, which no output may replace."""
        if not self.encoder or not is_folder(self.encoder):
            return []
        folder = Path(self.encoder)
        # A part of the encoder may be a link to another folder.
        linked = [path for link in folder.iterdir() if link.is_symlink() and link.is_dir() for path in link.iterdir()]
        return [folder, *(path for path in (*folder.rglob("*"), *linked) if path.is_file())]

    def load(
        self, transform: Transform | None = None, dtype: Literal["float32", "bfloat16"] = "float32"
    ) -> SentenceEncoder:
        """Loads the encoder, by default up to the layer that a transform was fitted on."""
        assert self.encoder is not None
        layer = self.layer
        if layer is None and transform is not None and transform.source is not None:
            layer = transform.source.layer
        encoder = load_encoder(
            self.encoder, revision=self.revision, layer=layer, pooling=self.pooling, dim=self.dim,
            final_norm=self.final_norm, dtype=dtype,
        )  # fmt: skip
        return with_prompt(encoder, self.prompt)


def with_prompt(encoder: SentenceEncoder, prompt: str | None) -> SentenceEncoder:
    """Returns the encoder with the prompt of a command line, if there is one."""
    if prompt is None:
        return encoder
    if "\\n" in prompt:
        raise ValueError(f"--prompt has a backslash and an n; in bash, this is a line break: $'{prompt}'")
    return encoder.with_prompt(prompt)
