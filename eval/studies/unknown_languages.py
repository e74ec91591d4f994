"""How well an identifier of languages tells that it does not know a language.

    python -m eval unknown

An identifier is fitted on half of the UDHR, once with all languages and once without each of them. The first gives the
share of texts in known languages that are taken for unknown, and the others that of texts in the language left out that
are wrongly taken for another one; the texts are the other half, and Tatoeba, which is another kind of text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.data.tatoeba import XTREME_36, read_pairs
from eval.evaluate import encode_texts
from lsar_jax import Moments, corpora
from lsar_jax.cli.console import console, print_table
from lsar_jax.cli.embed import open_encoder
from lsar_jax.corpora.tables import Data
from lsar_jax.moments import pool_moments
from lsar_jax.transforms import fit_identifier

__all__ = ["UnknownLanguages"]

# Values of novelty above which a language is unknown, and sentences of a language of Tatoeba.
_THRESHOLDS = (2.0, 3.0, 4.0, 5.0, 6.0)
_COUNT = 100


@dataclass(frozen=True)
class UnknownLanguages:
    """Counts wrong answers of an identifier in languages that it knows, and in languages that it does not.

    Attributes:
      encoder: bundled, a preset, a folder, or a Hub id.
      layers: hidden-state layers to test.
      data: Tatoeba: a folder, hub:ID or tfds:NAME; left out if the folder does not exist.
    """

    encoder: str = "bundled"
    layers: tuple[int, ...] = (8, 12)
    data: Data = Path("data/tatoeba")

    def run(self) -> None:
        """Encodes the texts and prints the table."""
        encoder = open_encoder(self.encoder, self.layers, None, None)
        declaration = corpora.udhr()
        texts = {("udhr", code): paragraphs for code, paragraphs in declaration.items()}
        if isinstance(self.data, str) or self.data.is_dir():
            pairs = read_pairs(self.data, [code for code in XTREME_36 if code in declaration])
            texts |= {("tatoeba", code): other[:_COUNT] for code, (_, other) in pairs.items()}
        else:
            console.print(f"there is no folder {self.data}, so that only the declaration is tested")
        encoded = encode_texts(encoder, texts, self.layers, 128)
        rows: list[list[str | float]] = []
        for index, layer in enumerate(self.layers):
            x = {code: encoded["udhr", code][index] for code in declaration}
            moments = {
                code: Moments.from_embeddings(rows[corpora.UDHR_PARTS["fit"]], second_moment=True)
                for code, rows in x.items()
            }
            tested = {"udhr": {code: rows[corpora.UDHR_PARTS["test"]] for code, rows in x.items()}}
            if other := {code: rows[index] for (name, code), rows in encoded.items() if name == "tatoeba"}:
                tested["tatoeba"] = other
            for name, sentences in tested.items():
                known, unknown = _novelties(moments, sentences)
                for threshold in _THRESHOLDS:
                    shares = 100 * float((known > threshold).mean()), 100 * float((unknown <= threshold).mean())
                    rows.append([f"{name}, layer {layer}, threshold {threshold:g}", *shares])
        print_table(
            "Wrong answers, in percent of the texts",
            ["", "in known languages: taken for unknown", "in a language left out: taken for another"],
            rows,
        )


def _novelties(
    moments: Mapping[str, Moments], tested: Mapping[str, Float[np.ndarray, "vector dim"]]
) -> tuple[Float[np.ndarray, " vector"], Float[np.ndarray, " vector"]]:
    """Returns the novelty of all texts to an identifier of all languages, and to those that do not know their own."""
    identifier = fit_identifier(pool_moments(moments))
    known = [identifier.novelty(rows) for rows in tested.values()]
    unknown = []
    for code, rows in tested.items():
        others = {other: m for other, m in moments.items() if other != code}
        unknown.append(fit_identifier(pool_moments(others)).novelty(rows))
    return np.concatenate(known), np.concatenate(unknown)
