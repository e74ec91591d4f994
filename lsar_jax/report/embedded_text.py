"""A text with its embeddings at each layer, as the report and the explorer read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lsar_jax import corpora
from lsar_jax.console.output import console
from lsar_jax.embeddings.cache import encode_all
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.options.text_folder import TextFolderOptions
from lsar_jax.options.user_text import UserText, finds_lines, read_user_vectors
from lsar_jax.report.measured import spanned_rank
from lsar_jax.spec import EncoderSpec

__all__ = ["Embedded", "embed", "embed_reference"]

# Language -> embeddings at each layer.
Layers = Mapping[str, Float[np.ndarray, "layer _ dim"]]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text with its embeddings, and the reference text that is searched in its place if it is not aligned.

    Attributes:
      specs: the encoder at each layer; of vectors, only a name is known.
      x: language -> embeddings of the sentences at each layer.
      reference: language -> paragraphs of the Universal Declaration of Human Rights; empty for aligned text, vectors
        and languages that it does not have.
      reference_x: their embeddings.
    """

    text: UserText
    specs: Sequence[EncoderSpec]
    x: Layers
    reference: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference_x: Layers = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The name of the score in search; empty without search."""
        if self.text.aligned:
            return "accuracy of pairs" if self.text.pairs else "mAP"
        return "mAP on the UDHR" if self.reference else ""

    @cached_property
    def spans(self) -> dict[int, int]:
        """Layer -> the number of dimensions that the means of the languages span, where they differ.

        At the embedding output the vector of the first token may be the same for all sentences.
        """
        means = np.stack([rows.mean(axis=1) for rows in self.x.values()], axis=1)
        spans = {spec.layer: spanned_rank(of) for spec, of in zip(self.specs, means, strict=True)}
        if not any(spans.values()):
            raise ValueError("the languages have the same mean at every layer; give different texts")
        return {layer: span for layer, span in spans.items() if span}

    def at(self, layer: int) -> dict[str, Float[np.ndarray, "_ dim"]]:
        """Language -> embeddings at a layer."""
        return self._at(self.x, layer)

    def reference_at(self, layer: int) -> dict[str, Float[np.ndarray, "_ dim"]]:
        """Language -> embeddings of the reference text at a layer."""
        return self._at(self.reference_x, layer)

    def _at(self, x: Layers, layer: int) -> dict[str, Float[np.ndarray, "_ dim"]]:
        [number] = [number for number, spec in enumerate(self.specs) if spec.layer == layer]
        return {code: rows[number] for code, rows in x.items()}


def embed(
    options: TextFolderOptions,
    text: UserText,
    encoder: SentenceEncoder | None,
    layers: Sequence[int],
    *,
    cache: Path | None,
    quiet: bool = False,
) -> Embedded:
    """Encodes a text, or reads its vectors; it counts as not aligned if its embeddings say so and the user does not.

    Args:
      options: place of the text and of its vectors.
      text: the text.
      encoder: the encoder; None for vectors.
      layers: its layers.
      cache: folder for embeddings.
      quiet: do not print how the text is read.
    """
    if encoder is None:
        assert options.vectors is not None
        x = {code: rows[None] for code, rows in read_user_vectors(options.vectors, options.place, text).items()}
        specs = [EncoderSpec(f"{options.vectors}", "", 0, "", "")]  # only their name is known
    else:
        x = encode_all(encoder, text.sentences, layers, options.max_length, {code: code for code in text.codes}, cache)
        specs = [replace(encoder.spec, layer=layer) for layer in layers]
    embedded = Embedded(text, specs, x)
    if text.pairs or not text.aligned or options.aligned != "auto":
        return embedded
    if not finds_lines(embedded.at([*embedded.spans][-1])):
        embedded = replace(embedded, text=text.not_aligned())
    if not quiet:
        console.print(f"the text is read as {embedded.text.form} (--aligned reads it otherwise)")
    return embedded


def embed_reference(embedded: Embedded, encoder: SentenceEncoder, max_length: int, cache: Path | None) -> Embedded:
    """Adds the paragraphs of the Universal Declaration of Human Rights in the languages of the text that it has."""
    known = corpora.udhr("all")
    codes = [code for code in embedded.text.codes if code in known]
    if len(codes) < 2:
        return embedded
    reference = corpora.udhr("all", codes)
    layers = [spec.layer for spec in embedded.specs]
    x = encode_all(encoder, reference, layers, max_length, {code: code for code in codes}, cache)
    return replace(embedded, reference=reference, reference_x=x)
