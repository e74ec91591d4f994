"""Files and tables of several languages: one for each language, and those that are asked for."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lsar_jax.languages import code_or_none, language_code

__all__ = ["add_once", "chosen", "folder_at", "group_by", "language_files", "named_files"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def folder_at(folder: str | Path, advice: str = "give another folder") -> Path:
    """Returns the path of a folder that is there; raises FileNotFoundError, which ends in the advice, if it is not."""
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; {advice}")
    return Path(folder)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Returns the items of each language, or of whatever the key is, in their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def add_once(found: dict[str, T], key: str, value: T) -> None:
    """Adds what there is for a language or pair; raises ValueError if there is something else for it."""
    if (known := found.setdefault(key, value)) != value:
        raise ValueError(f"{known} and {value} are both for {key!r}; keep only one of them")


def chosen(
    found: Mapping[str, T], languages: Iterable[str] | None, where: object, form: str = "file for {}", advice: str = ""
) -> dict[str, T]:
    """Returns what there is for some languages.

    Args:
      found: what there is, by BCP 47 code.
      languages: codes of the languages, in the order of the result; None for all.
      where: the folder or dataset, for errors.
      form: what a language needs, with ``{}`` for its code, for errors.
      advice: where to get it, for errors.

    Raises:
      FileNotFoundError: there is nothing for a language, or for any.
    """
    codes = list(found) if languages is None else list(dict.fromkeys(map(language_code, languages)))
    missing = [code for code in codes if code not in found]
    if missing or not codes:
        lacking = ", ".join(form.format(code) for code in missing or ["LANGUAGE"])
        raise FileNotFoundError(f"{where} has no {lacking}; it has {', '.join(sorted(found)) or 'none'}{advice}")
    return {code: found[code] for code in codes}


def language_files(folder: str | Path, suffix: str, languages: Iterable[str] | None = None) -> dict[str, Path]:
    """Returns the files ``{language}{suffix}`` in a folder by language, in alphabetical order of the codes.

    Args:
      folder: folder of files, each named with any code of its language.
      suffix: suffix of the file names, including its dot.
      languages: codes of the languages to read; by default, all available.

    Raises:
      FileNotFoundError: the folder does not exist, or a language has no file.
      ValueError: two files are for the same language, or ``languages`` is not given and a file is not named
        after a language.
    """
    return dict(sorted(named_files(folder, [f"(.*){re.escape(suffix)}"], languages, f"{{}}{suffix}").items()))


def named_files(
    folder: str | Path, patterns: Sequence[str], languages: Iterable[str] | None, form: str,
    advice: str = "give another folder", *, territories: bool = False,
) -> dict[str, Path]:  # fmt: skip
    """Returns the file of each language, in the order of the languages, else of their codes; see ``language_files``.

    Args:
      folder: folder of files.
      patterns: regular expressions of whole file names, whose first group is the language; only the files of the last
        must all be named after one.
      languages: codes of the languages to read; None for all.
      form: what a language needs, with ``{}`` for its code, for errors.
      advice: where to get the files, for errors.
      territories: whether a file that names a territory, such as ``por-BR``, gives way to one that names none.
    """
    wanted = None if languages is None else [language_code(code) for code in languages]
    found: dict[str, Path] = {}
    # Files of territories, and of languages that are not read, where there may be several.
    others: dict[str, Path] = {}
    for path in sorted(folder_at(folder, advice).iterdir()):
        match = next(filter(None, (re.fullmatch(pattern, path.name) for pattern in patterns)), None)
        code = match and code_or_none(match[1])
        if match and code:
            if (territories and re.search("-[A-Z]{2}$", match[1])) or (wanted is not None and code not in wanted):
                others.setdefault(code, path)
            else:
                add_once(found, code, path)
        elif match and match.re.pattern == patterns[-1] and wanted is None:
            raise ValueError(f"{path} is not named after a language; rename it, or choose languages, or {advice}")
    return chosen(dict(sorted((others | found).items())), wanted, folder, form, f"; {advice}")
