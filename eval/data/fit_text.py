"""The text that transforms are fitted on, as selected with ``--fit-on``."""

from collections.abc import Sequence
from pathlib import Path

from lsar_jax import corpora
from lsar_jax.corpora.sentence_filters import check_count
from lsar_jax.corpora.tfds import prepared_languages
from lsar_jax.languages import language_code

__all__ = ["fit_texts", "text_languages"]


def fit_texts(place: str, languages: Sequence[str], count: int) -> dict[str, list[str]]:
    """Returns the text to fit on, for each of the languages that has any.

    Args:
      place: udhr, a folder of text files, ``tfds:NAME/{}`` or ``hub:ID``.
      languages: language codes; a Hub dataset must have all of them.
      count: maximum number of sentences per language.

    Raises:
      FileNotFoundError: ``place`` is of no known kind, or does not exist.
      ValueError: ``count`` is below 1.
    """
    check_count(count)
    wanted = list(dict.fromkeys(language_code(code) for code in languages))
    kind, _, name = place.partition(":")
    if place == "udhr":
        known = corpora.udhr()
        return {code: known[code][:count] for code in wanted if code in known}
    if kind == "tfds" and name:
        places = prepared_languages(name)
        return {code: corpora.prepared(places[code], count=count) for code in wanted if code in places}
    if kind == "hub" and name:
        id, _, revision = name.partition("@")
        return {code: corpora.hub(id, code, revision=revision or None, count=count) for code in wanted}
    if not Path(place).is_dir():
        raise FileNotFoundError(f"--fit-on {place} is not udhr, a folder, tfds:NAME/{{}} or hub:ID")
    there = corpora.language_files(place, ".txt")
    return corpora.text_folder(place, [code for code in wanted if code in there], count)


def text_languages(place: str) -> list[str]:
    """Returns the codes of all languages that the text to fit on has; ``place`` is as for ``fit_texts``.

    Raises:
      FileNotFoundError: ``place`` does not exist.
      ValueError: ``place`` is on the Hub, where a dataset may have hundreds of languages.
    """
    kind, _, name = place.partition(":")
    if place == "udhr":
        return list(corpora.udhr())
    if kind == "tfds" and name:
        return list(prepared_languages(name))
    if kind == "hub" and name:
        raise ValueError(f"--fit-languages is all, but --fit-on {place} is on the Hub; fit on the tested languages")
    return list(corpora.language_files(place, ".txt"))
