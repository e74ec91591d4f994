r"""Text whose line i has the same content in all languages: FLORES, NTREX, or files of the user's.

A folder has a file for each language, such as ``de.txt``; ``deu_Latn.devtest`` or ``devtest.deu_Latn`` (FLORES-200 and
FLORES+); ``newstest2019-ref.deu.txt``, with English in ``newstest2019-src.eng.txt`` (NTREX-128). Of several files of a
language, such as ``por`` and ``por-BR``, the one whose name has no territory is read.
``hub:mteb/FloresBitextMining`` and ``hub:mteb/NTREXBitextMining`` have one configuration with a column for each
language; other datasets may have a configuration for each language, with the column ``text``.
"""

import re
from collections.abc import Sequence

from eval.data.tatoeba import check_not_blank
from lsar_jax import corpora
from lsar_jax.corpora.by_language import add_once, chosen, named_files
from lsar_jax.corpora.tables import Data, Tables, named_tables, numbered_rows, text_in
from lsar_jax.languages import code_or_none, language_code

__all__ = ["read_parallel"]

_NAMES = (r"newstest2019-(?:src|ref)\.([\w-]+)\.txt", r"([\w-]+)\.devtest", r"devtest\.([\w-]+)", r"([\w-]+)\.txt")


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
    if (tables := named_tables(data)) is None:
        form, advice = "file for {}, such as de.txt or deu_Latn.devtest", where or "give one of files such as de.txt"
        paths = named_files(data, _NAMES, languages or None, form, advice, territories=True)
        texts = {code: corpora.lines(path) for code, path in paths.items()}
    else:
        texts = _of_tables(tables, languages)
    for code, lines in texts.items():
        check_not_blank(lines, f"{data}, {code}")
    counts = {code: len(lines) for code, lines in texts.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the languages of {data} differ in their number of lines: {counts}")
    return texts


def _of_tables(tables: Tables, languages: Sequence[str]) -> dict[str, list[str]]:
    names: dict[str, str] = {}
    by_config = [config for config in tables.configs if code_or_none(config)]
    if not by_config:
        if len(tables.configs) != 1:
            raise ValueError(f"{tables.name} has {', '.join(tables.configs) or 'nothing'}; expected one configuration")
        [config] = tables.configs
        rows = list(numbered_rows(tables, config, "devtest" if "devtest" in tables.splits(config) else ""))
    # Not the column id, which is a code of Indonesian too.
    for name in by_config or [column for column in rows[0][1] if re.fullmatch(r"[a-z]{3}_[A-Z][a-z]{3}", column)]:
        add_once(names, language_code(name), name)
    texts = {}
    for code, name in chosen(names, languages or None, tables.name, "text in {}").items():
        column, lines = ("text", numbered_rows(tables, name)) if by_config else (name, rows)
        texts[code] = [text_in(row, column, where) for where, row in lines]
    return texts
