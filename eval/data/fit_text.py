"""The text that transforms are fitted on, as selected with ``--fit-on``."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from lsar_jax import corpora
from lsar_jax.corpora.by_language import folder_at
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
    if kind == "tfds" and name:
        folders = prepared_languages(name)
        return _of(place, folders, lambda code, count: corpora.prepared(folders[code], count=count))
    if kind != "hub" or not name:
        files = corpora.language_files(folder_at(place, "--fit-on is udhr, a folder, tfds:NAME/{} or hub:ID"), ".txt")
        return _of(place, files, lambda code, count: corpora.text_folder(place, [code], count)[code])
    id, _, revision = name.partition("@")

    def unknown() -> Sequence[str]:
        raise ValueError(f"--fit-languages is all, but --fit-on {place} is on the Hub; fit on the tested languages")

    def read(codes: Sequence[str], count: int) -> Mapping[str, Sequence[str]]:
        return {code: corpora.hub(id, code, revision=revision or None, count=count) for code in codes}

    return FitText(place, unknown, read)
