"""The text that transforms are fitted on, as selected with ``--fit-on``."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lsar_jax import corpora
from lsar_jax.corpora.tfds import prepared_languages

__all__ = ["FitText", "fit_text", "udhr_text"]


class FitText(NamedTuple):
    """A text to fit on.

    Attributes:
      name: its name in results.
      languages: lists the codes of its languages.
      read: reads up to so many sentences of each of the given languages that it has.
    """

    name: str
    languages: Callable[[], Sequence[str]]
    read: Callable[[Sequence[str], int], Mapping[str, Sequence[str]]]


def udhr_text(part: str) -> FitText:
    """Returns a part of the UDHR: ``all`` or ``fit``."""
    known = corpora.udhr(part)
    return _of(f"udhr {part}", known, lambda code, count: known[code][:count])


def _of(name: str, codes: Collection[str], read: Callable[[str, int], list[str]]) -> FitText:
    """A text whose languages are known and read one by one."""
    return FitText(name, lambda: list(codes), lambda asked, n: {c: read(c, n) for c in asked if c in codes})


def fit_text(place: str) -> FitText:
    """Opens a text to fit on: udhr, a folder of text files, ``tfds:NAME/{}``, or ``hub:ID``.

    The languages of a dataset on the Hub cannot be listed, and it must have all that are read.
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
        return _of(place, folders, lambda code, count: corpora.prepared(folders[code], count=count))
    if not Path(place).is_dir():
        raise FileNotFoundError(f"--fit-on {place} is not udhr, a folder, tfds:NAME/{{}} or hub:ID")
    files = corpora.language_files(place, ".txt")
    return _of(place, files, lambda code, count: corpora.text_folder(place, [code], count)[code])
