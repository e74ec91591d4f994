"""Folders, files and tables of text or vectors that ``--texts`` names, by language."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from lsar_jax.corpora.records import Records, has_columns, input_path
from lsar_jax.corpora.row_files import file_rows
from lsar_jax.embeddings.manifest import FILE_NAME, WORK
from lsar_jax.languages import code_or_none, language_code

__all__ = ["Texts", "is_encoded", "stem_of", "texts_of"]


class Texts(NamedTuple):
    """Files by language.

    Attributes:
      files: files and encoded folders of each language, in the order of the codes.
      tables: those of them that have text of several languages, each of which has them, and the column ``language``.
    """

    files: dict[str, list[Path]]
    tables: Collection[Path]


def texts_of(
    items: Sequence[str], column: str | None = None, *, vectors: bool = True, languages: Sequence[str] = ()
) -> Texts:
    """Finds the files of each language; a table is read to its end for its languages.

    Args:
      items: each a folder, whose files are read as if each were named; a file or an encoded folder that is named after
        its language; a table with the column ``language``; or LANGUAGE=PATH, which folders then leave out.
      column: the column of sentences in tables; by default, ``text``.
      vectors: whether to find vectors and encoded folders, too, in folders.
      languages: the languages to read, if they were chosen: files that name no language are then left out.

    Raises:
      ValueError: there is nothing to read, a folder has two files of a language, a file is not named after one, or a
        table lacks a column or names what is no language.
    """
    files: dict[str, list[Path]] = {}
    named = [("", "", item) if Path(item).exists() else item.partition("=") for item in items]
    tables, given = set[Path](), {input_path(name) for _, sign, name in named if sign}
    for item, (code, sign, name) in zip(items, named, strict=True):
        inside: dict[str, Path] = {}
        found = [input_path(name)] if sign else _files_in(input_path(item), vectors)
        for path in [path for path in found if sign or path not in given]:
            codes = [language_code(code)] if sign else _languages_of(path, column, item, vectors, bool(languages))
            if len(codes) > 1:
                tables.add(path)
            elif codes and (other := inside.setdefault(codes[0], path)) != path:
                raise _refusal(f"{other} and {path} are both for {codes[0]!r}; name the files", other)
            for code in codes:
                files.setdefault(code, []).append(path)
    return Texts(dict(sorted(files.items())), tables)


def _files_in(path: Path, vectors: bool) -> list[Path]:
    """Returns what there is to read in a folder, or the path itself if it is a file or an encoded folder."""
    if is_encoded(path) or (path.exists() and not path.is_dir()):
        return [path]
    folder = path if path.is_dir() else path.parent
    there = [file for file in sorted(folder.glob("*")) if not file.name.startswith(".")]
    found = [file for file in there if (is_encoded(file) and vectors) or (file.is_file() and _is_read(file, vectors))]
    if found and path.is_dir():
        return found
    # A file whose language is not known, if there is one, is the likeliest.
    example = min(found or [folder / "german.txt"], key=lambda file: code_or_none(stem_of(file)) is not None)
    code = code_or_none(stem_of(example)) or code_or_none(stem_of(path)) or "de"
    has = ", ".join(file.name for file in there[:10]) + ", ..." * (len(there) > 10) or "nothing"
    raise _refusal(f"there is no text at {path}; {folder} has {has}; give a file's language", f"{code}={example}")


def stem_of(path: Path) -> str:
    """The name of a file without its suffixes, or of a folder."""
    return path.name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem


def is_encoded(path: Path) -> bool:
    """Whether ``lsar-jax encode`` wrote a folder, or began to."""
    return (path / FILE_NAME).is_file() or (path / WORK).is_dir()


def _is_read(path: Path, vectors: bool) -> bool:
    return path.name.lower().removesuffix(".gz").endswith((".txt", ".npy")[: 1 + vectors]) or has_columns(path)


def _languages_of(path: Path, column: str | None, item: str, vectors: bool, chosen: bool) -> list[str]:
    """Returns the languages of a table with a column of them, or the language that a path is named after.

    If the languages to read were ``chosen``, a path may have none.
    """
    columns = [*next(file_rows(path), ("", {}))[1]] if has_columns(path) else []
    wanted = column or ("vector" if vectors and "text" not in columns and "vector" in columns else "text")
    lacking = [name for name in ("language", wanted) if name not in columns]
    if not lacking:
        return sorted({code for code, _ in Records([path], "language", "language").by_language()})
    if "language" in lacking and (code := code_or_none(stem_of(path))):
        return [code]
    if chosen:
        return []
    why = f"has no column {lacking[0]}, only {', '.join(columns)}" if columns else "is not named after a language"
    if "language" not in lacking:
        raise ValueError(f"{path} {why}; name that of the sentences by --text")
    if columns:
        why += "; rename that of the languages, if there are several"
    raise _refusal(f"{path} {why}; move it, or give its code", *([item] if Path(item).is_dir() else []), f"de={path}")


def _refusal(why: str, *words: object) -> ValueError:
    """An error that ends in what to give in place of the paths that were given."""
    return ValueError(f"{why}, such as {shlex.join(map(str, words))}")
