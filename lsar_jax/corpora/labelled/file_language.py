"""The language that a file of labelled text is named after."""

import re
from pathlib import Path

from lsar_jax.languages import code_or_none

__all__ = ["language_of_file"]

_CODE = r"([a-z]{2,3}(?:-[A-Z][a-z]{3})?)"
# What files of labelled text are called that is also the ISO 639-3 code of a language.
_WORDS = ("all", "bio", "dev", "gum", "kdt", "ner", "pos", "pud", "raw", "set", "tag", "txt")


def language_of_file(path: str | Path) -> str | None:
    """Returns the language that a file is named after, or None.

    The code is the first or the last part of the name: de in ``de_pud-ud-test.conllu``, ``de.tsv``, ``dev-de.tsv`` and
    ``multinli.train.de.tsv``. A code of three letters counts only if there is none of two. Words that files of labelled
    text are called, such as ``dev`` and ``pos``, are not taken for codes.

    Args:
      path: a path, of which only the name counts.

    Raises:
      ValueError: the file is named after two languages.

    Example:
      >>> from lsar_jax.corpora import labelled
      >>> [labelled.language_of_file(name) for name in ("de_pud-ud-test.conllu", "dev-de.tsv", "xnli.dev.tsv")]
      ['de', 'de', None]
    """
    stem = Path(path).stem
    found = re.findall(rf"^{_CODE}(?=[-_.]|$)", stem) + re.findall(rf"(?:^|[-_.]){_CODE}$", stem)
    codes = [one for one in found if one not in _WORDS and code_or_none(one) is not None]
    short = [one for one in codes if len(one.partition("-")[0]) == 2] or codes
    languages = list(dict.fromkeys(code_or_none(one) for one in short))
    if len(languages) > 1:
        raise ValueError(f"{path} is named after the languages {' and '.join(short)}; rename it")
    return languages[0] if languages else None
