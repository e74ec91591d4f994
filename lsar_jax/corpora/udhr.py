"""The Universal Declaration of Human Rights, bundled with the library in 40 languages."""

import json
from collections.abc import Iterable
from importlib.resources import files

from lsar_jax.checks import check_choice
from lsar_jax.languages import own_name

__all__ = ["UDHR_PARTS", "udhr"]

# The paragraphs of each part; those of ``fit`` and ``test`` alternate.
UDHR_PARTS = {"all": slice(None), "fit": slice(0, None, 2), "test": slice(1, None, 2)}


def udhr(part: str = "all", languages: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Returns the Universal Declaration of Human Rights in up to 40 languages.

    The paragraphs of articles 1 to 30 are aligned: paragraph i has the same content in every language.

    Args:
      part: ``all`` for all 50 paragraphs, ``fit`` for the 25 at even positions (0, 2, ...), or ``test`` for the
        25 at odd positions.
      languages: codes of the languages to return; by default, all 40. The result is in alphabetical order.

    Raises:
      ValueError: the part or a language is unknown.

    Example:
      >>> text = lj.corpora.udhr("fit", ["deu", "en"])
      >>> {code: len(paragraphs) for code, paragraphs in text.items()}
      {'de': 25, 'en': 25}
      >>> text["de"][0][:34], text["en"][0][:30]
      ('Alle Menschen sind frei und gleich', 'All human beings are born free')
    """
    check_choice("part", part, UDHR_PARTS)
    data = json.loads(files("lsar_jax").joinpath("corpora/data/udhr.json").read_text(encoding="utf-8"))
    known = sorted(data["languages"])
    codes = known if languages is None else sorted({own_name(x, known, "the UDHR") for x in languages})
    return {code: data["languages"][code]["paragraphs"][UDHR_PARTS[part]] for code in codes}
