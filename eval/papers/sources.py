"""The data that the cards read, from ``sources.toml``: where each set lies, and which languages a copy of it has."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from eval.data.tatoeba import files_of
from eval.papers.card import read_toml
from lsar_jax import corpora
from lsar_jax.corpora.builders import Bucc, Parallel, XquadR
from lsar_jax.files import sha256, text_sha256

__all__ = ["LANGUAGES", "SOURCES", "DataSource", "checksum_of"]


class DataSource(NamedTuple):
    """One set of data."""

    name: str  # on the page
    where: str  # what to put there, and where to get it
    path: str = ""  # empty for what comes with the library, and for prepared datasets
    revision: str = ""  # the commit that was read, if it is known
    read: str = "*"  # pattern of the files that are read
    checksum: str = ""  # of the copy that the numbers on the page are from, if there is one
    files: tuple[str, ...] = ()  # names or patterns, each of which the folder must have
    languages: tuple[str, ...] = ()  # codes that it must have


def _of_bitext(folder: Path) -> list[str]:
    return [code for pair in Parallel.known(folder) for code in pair.split("-")]


# The codes of the languages that a folder has, by set; others have no languages to look for.
LANGUAGES: dict[str, Callable[[Path], Iterable[str]]] = {
    **dict.fromkeys(("tatoeba", "tatoeba-2023"), files_of),
    **dict.fromkeys(("xquad-r", "mlqa-r"), XquadR.known),
    **dict.fromkeys(("bitext", "multiun", "opus-100", "oracle"), _of_bitext),
    **dict.fromkeys(("oscar", "wiki"), lambda folder: corpora.language_files(folder, ".txt")),
    "bucc": lambda folder: [pair.removesuffix("-en") for pair in Bucc.known(folder)],
    "amazon": lambda folder: [p.name.removesuffix("_test.tsv").replace("jp", "ja") for p in folder.glob("*_test.tsv")],
    "dictionaries": lambda folder: [path.name.removesuffix("-en.txt") for path in folder.glob("*-en.txt")],
}

SOURCES = {key: DataSource(**fields) for key, fields in read_toml(Path(__file__).with_name("sources.toml")).items()}


def checksum_of(folder: Path, pattern: str) -> str:
    """Computes what ``LC_ALL=C; cd FOLDER; sha256sum PATTERN | sha256sum`` prints; empty if no file has such a name."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    lines = [f"{sha256([path]).removeprefix('sha256:')}  {path.relative_to(folder).as_posix()}\n" for path in files]
    return text_sha256("".join(lines)) if lines else ""
