r"""Text whose line i has the same content in all languages: FLORES, NTREX, or files of the user's.

A folder has a file for each language, such as ``de.txt``; ``deu_Latn.devtest`` or ``devtest.deu_Latn`` (FLORES-200 and
FLORES+); ``newstest2019-ref.deu.txt``, with English in ``newstest2019-src.eng.txt`` (NTREX-128). Of several files of a
language, such as those of ``por`` and ``por-BR``, the one whose name has no territory is read.
``hub:mteb/FloresBitextMining`` and ``hub:mteb/NTREXBitextMining`` have one configuration with a column for each
language; other datasets may have a configuration for each language, with the column ``text``.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.data.tatoeba import check_not_blank
from lsar_jax import corpora
from lsar_jax.corpora.tables import Data, Tables, named_tables, one_split
from lsar_jax.languages import code_or_none, language_code, own_name

__all__ = ["read_parallel"]

_NAMES = (
    r"newstest2019-(?:src|ref)\.([\w-]+)\.txt",
    r"([\w-]+)\.devtest",
    r"devtest\.([\w-]+)",
    r"([\w-]+)\.txt",
)


def read_parallel(data: Data, languages: Sequence[str] = (), where: str = "") -> dict[str, list[str]]:
    """Reads the lines of each language, by default of all.

    Args:
      data: a folder of files, ``hub:ID`` or ``tfds:NAME``.
      languages: codes of the languages to read.
      where: where to get the files, for the error.

    Raises:
      FileNotFoundError: the folder does not exist, or a language has no file.
      ValueError: a language is unknown or is there twice, a line is blank, or languages differ in their lines.
    """
    tables = named_tables(data)
    texts = _of_files(Path(data), languages, where) if tables is None else _of_tables(tables, languages)
    for code, lines in texts.items():
        check_not_blank(lines, f"{data}, {code}")
    counts = {code: len(lines) for code, lines in texts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the languages of {data} differ in their number of lines: {counts}")
    return texts


def _of_files(folder: Path, languages: Sequence[str], where: str) -> dict[str, list[str]]:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; {where or 'give one of files such as de.txt'}")
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = next(filter(None, (re.fullmatch(name, path.name) for name in _NAMES)), None)
        if match and (code := code_or_none(match[1])):
            found.setdefault(code, {})[match[1]] = path
        elif match and match.re.pattern == _NAMES[-1] and not languages:
            raise ValueError(f"{path} is not named after a language; rename it, or choose the languages to read")
    codes = list(dict.fromkeys(map(language_code, languages))) or sorted(found)
    missing = [code for code in codes if code not in found]
    if missing or not codes:
        lacks = f"file for {', '.join(missing)}" if missing else "file such as de.txt or deu_Latn.devtest"
        raise FileNotFoundError(f"{folder} has no {lacks}; it has {', '.join(sorted(found)) or 'none'}")
    texts = {}
    for code in codes:
        names = [name for name in found[code] if not re.search("-[A-Z]{2}$", name)] or list(found[code])
        if len(names) > 1:
            raise ValueError(f"{' and '.join(str(found[code][name]) for name in names)} are for {code}; remove one")
        texts[code] = corpora.lines(found[code][names[0]])
    return texts


def _of_tables(tables: Tables, languages: Sequence[str]) -> dict[str, list[str]]:
    by_config = [config for config in tables.configs if code_or_none(config)]
    if by_config:
        names = [own_name(code, by_config, tables.name) for code in languages] or by_config
        texts: dict[str, list[Any]] = {
            name: [row.get("text") for row in tables.rows(name, one_split(tables, name, ""))] for name in names
        }
    else:
        if len(tables.configs) != 1:
            raise ValueError(f"{tables.name} has {', '.join(tables.configs) or 'nothing'}; expected one configuration")
        [config] = tables.configs
        split = "devtest" if "devtest" in tables.splits(config) else one_split(tables, config, "")
        rows = list(tables.rows(config, split))
        # Not the column id, which is a code of Indonesian too.
        there = [name for name in (rows[0] if rows else ()) if re.fullmatch(r"[a-z]{3}_[A-Z][a-z]{3}", name)]
        names = [own_name(code, there, tables.name) for code in languages] or there
        texts = {name: [row[name] for row in rows] for name in names}
    result: dict[str, list[str]] = {}
    for name, lines in texts.items():
        if wrong := next((number for number, line in enumerate(lines, 1) if not isinstance(line, str)), None):
            raise ValueError(f"{tables.name}, {name}, row {wrong} has no text")
        if result.setdefault(language_code(name), lines) is not lines:
            raise ValueError(f"{tables.name} has {language_code(name)} twice; name each language once")
    if not result:
        raise ValueError(f"{tables.name} has no column or configuration named after a language")
    return result
