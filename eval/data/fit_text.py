"""The text that transforms are fitted on, as selected with ``--fit-on``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lsar_jax import corpora
from lsar_jax.corpora.tfds import prepared_languages

__all__ = ["FitText", "fit_text", "udhr_text"]


class FitText(NamedTuple):
    """A text to fit on.

    Attributes:
      name: its name in results.
      languages: returns the codes of all its languages.
      read: returns up to so many sentences of each of the given languages that it has.
    """

    name: str
    languages: Callable[[], Sequence[str]]
    read: Callable[[Sequence[str], int], Mapping[str, Sequence[str]]]


def udhr_text(part: str) -> FitText:
    """Returns a part of the UDHR: ``all`` or ``fit``."""

    def read(codes: Sequence[str], count: int) -> dict[str, list[str]]:
        known = corpora.udhr(part)
        return {code: known[code][:count] for code in codes if code in known}

    return FitText(f"udhr {part}", lambda: list(corpora.udhr(part)), read)


def fit_text(place: str) -> FitText:
    """Opens a text to fit on.

    Args:
      place: udhr, a folder of text files, ``tfds:NAME/{}``, or ``hub:ID``, whose languages cannot be listed, and which
        must have all that are read.

    Raises:
      FileNotFoundError: ``place`` is of no known kind, or does not exist.
    """
    kind, _, name = place.partition(":")
    if place == "udhr":
        return udhr_text("all")
    if kind == "hub" and name:
        id, _, revision = name.partition("@")

        def unknown() -> Sequence[str]:
            raise ValueError(f"--fit-languages is all, but --fit-on {place} is on the Hub; fit on the tested languages")

        return FitText(
            place,
            unknown,
            lambda codes, n: {code: corpora.hub(id, code, revision=revision or None, count=n) for code in codes},
        )
    if kind == "tfds" and name:
        folders = prepared_languages(name)
        return FitText(
            place,
            lambda: list(folders),
            lambda codes, n: {code: corpora.prepared(folders[code], count=n) for code in codes if code in folders},
        )
    if not Path(place).is_dir():
        raise FileNotFoundError(f"--fit-on {place} is not udhr, a folder, tfds:NAME/{{}} or hub:ID")
    files = corpora.language_files(place, ".txt")
    return FitText(
        place,
        lambda: list(files),
        lambda codes, n: corpora.text_folder(place, [code for code in codes if code in files], n),
    )
