"""A text with its embeddings at each layer, as the report and the explorer read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lsar_jax import corpora
from lsar_jax.checks import check_option
from lsar_jax.console.output import console
from lsar_jax.embeddings.cache import encode_all
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.ranking import pool_precision
from lsar_jax.options.text_folder import TextFolderOptions
from lsar_jax.options.user_text import UserText, finds_lines, read_user_text, read_user_vectors
from lsar_jax.report.held_out import Search
from lsar_jax.report.measured import ByLanguage, spanned_rank
from lsar_jax.spec import EncoderSpec

__all__ = ["Embedded", "embed", "embed_reference", "search_reference"]

# Most lines of translations that are searched.
_TRANSLATIONS = 200

# Language -> embeddings at each layer.
Layers = Mapping[str, Float[np.ndarray, "layer _ dim"]]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text with its embeddings, and the reference text that is searched in its place if it is not aligned.

    Attributes:
      specs: the encoder at each layer; of vectors, only a name is known.
      x: language -> embeddings of the sentences at each layer.
      reference: language -> paragraphs of the Universal Declaration of Human Rights, or the translations that the user
        gave; empty for aligned text, vectors and languages that the declaration does not have.
      reference_x: their embeddings.
      declared: whether the reference text is the declaration.
    """

    text: UserText
    specs: Sequence[EncoderSpec]
    x: Layers
    reference: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference_x: Layers = field(default_factory=dict)
    declared: bool = True

    @property
    def metric(self) -> str:
        """The name of the score in search; empty without search."""
        if self.text.aligned:
            return "accuracy of pairs" if self.text.pairs else "mAP"
        return f"mAP on the {'UDHR' if self.declared else 'translations'}" if self.reference else ""

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

    def search_at(self, layer: int) -> Search | None:
        """The search of the reference text at a layer; None without it."""
        if not self.reference:
            return None
        x = self.at(layer) if self.declared else None
        return partial(search_reference, self._at(self.reference_x, layer), x)

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
      options: where the text and its vectors are.
      text: the text.
      encoder: the encoder; None for vectors.
      layers: its layers.
      cache: folder for embeddings.
      quiet: do not print how the text is read.
    """
    if encoder is None:
        assert options.vectors is not None
        given = read_user_vectors(options.vectors, options.items, text, options.text)
        x = {code: rows[None] for code, rows in given.items()}
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


def embed_reference(
    embedded: Embedded, encoder: SentenceEncoder, max_length: int, cache: Path | None,
    translations: Path | None = None, most: int | None = None,
) -> Embedded:  # fmt: skip
    """Adds a reference text: translations of the user's in a folder, or by default the declaration; or its first lines.

    Raises:
      ValueError: the translations are not in two languages of the text, line by line.
    """
    known = corpora.udhr("all")
    if translations is not None:
        given = read_user_text([str(translations)], (), _TRANSLATIONS, "auto", 0)
        known = given.sentences if given.aligned and not given.pairs else {}
    codes = [code for code in embedded.text.codes if code in known]
    if translations is not None:
        right = f"a folder with as many lines in the files of two or more of {', '.join(embedded.text.codes)}, but"
        has = {code: len(lines) for code, lines in given.sentences.items()}
        check_option(len(codes) >= 2, f"{right} has {has} different ones", translations=translations)
    if len(codes) < 2:
        return embedded
    reference = {code: known[code][:most] for code in codes}
    layers = [spec.layer for spec in embedded.specs]
    x = encode_all(encoder, reference, layers, max_length, {code: code for code in codes}, cache)
    if translations is not None and most is None and not finds_lines({code: rows[-1] for code, rows in x.items()}):
        console.print(f"lines of {translations} hardly find each other; make sure that line i translates line i")
    return replace(embedded, reference=reference, reference_x=x, declared=translations is None)


def search_reference(
    reference: ByLanguage, x: ByLanguage | None, method: Method
) -> tuple[QueryScores, tuple[float, ...]]:
    """Returns the average precision of aligned lines as queries for their translations, in percent.

    Lines of another kind than the text ``x`` of the fit stand in for it twice, and their scores are the means of both:
    as they are, where the means of their languages differ in other ways than those of ``x``, and with the means of
    ``x``; the mean of each is returned too. A line is moved by the mean of the lines of the other half: it has no part
    in that, as a held-out line has none in the means of the text.
    """
    if x is None:
        return pool_precision(method.transform_languages(reference)), ()
    half = np.arange(len(next(iter(reference.values())))) % 2
    moved = {
        code: rows + x[code].mean(axis=0) - np.stack([rows[half != part].mean(axis=0) for part in (0, 1)])[half]
        for code, rows in reference.items()
    }
    both = [pool_precision(method.transform_languages(rows)) for rows in (reference, moved)]
    scores = np.stack([found.values for found in both])
    return replace(both[0], values=scores.mean(axis=0)), tuple(scores.mean(axis=1).tolist())
