"""One code a language: BCP 47, every other code an alias.

``deu``, ``ger``, ``deu_Latn``, ``de-AT`` and ``de`` are one language, ``de``. Aliases, macro-languages
(``cmn`` is ``zh``, ``arb`` is ``ar``) and likely scripts are CLDR's, by ``langcodes``. A
script is kept only where it is not the language's usual one (``zh-Hant``, ``sr-Latn``);
territory and variant are dropped. Groups that are not languages (domains, registers) may be
called ``x-anything``, BCP 47's private use.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeVar

import langcodes

__all__ = ["AUTO", "canonical_keys", "check_known", "code_or_none", "language_code", "own_name"]

T = TypeVar("T")

# In place of a language that a transform is to find itself.
AUTO = "auto"

# CLDR turns Tagalog into Filipino; the papers, their data and IANA call the language tl.
_OWN_CHOICE = {"fil": "tl"}


@cache
def language_code(code: str) -> str:
    """Returns the BCP 47 code of a language given by any of its codes.

    Args:
      code: BCP 47, ISO 639-1, 639-2 or 639-3, with ``-`` or ``_`` between subtags.

    Raises:
      ValueError: ``code`` is not a registered language.
    """
    tag = str(code).strip().replace("_", "-")
    try:
        valid = bool(tag) and langcodes.tag_is_valid(tag)
        language = langcodes.Language.get(langcodes.standardize_tag(tag, macro=True)) if valid else None
    except langcodes.LanguageTagError:
        language = None
    if language is None:
        raise ValueError(
            f"{code!r} is not a language code; use BCP 47 or ISO 639 (de, deu, zh, cmn), "
            "or x-NAME for a group that is not a language"
        )
    if language.private:
        return language.to_tag().lower()
    subtag = language.language or "und"
    if subtag == "und":
        raise ValueError(f"{code!r} names no language; use x-NAME for a group that is not a language")
    # A territory may say the script: Taiwan writes Chinese in Hant.
    script = language.maximize().script
    if script == langcodes.Language.get(subtag).maximize().script:
        script = None
    subtag = _OWN_CHOICE.get(subtag, subtag)
    return f"{subtag}-{script}" if script else subtag


def canonical_keys(by_language: Mapping[str, T]) -> dict[str, T]:
    """Returns ``by_language`` under BCP 47 codes, in their alphabetical order.

    Raises:
      ValueError: a key is not a language code, or two keys are the same language.
    """
    seen: dict[str, str] = {}
    for key in by_language:
        code = language_code(key)
        if code in seen:
            raise ValueError(f"{seen[code]!r} and {key!r} are the same language, {code!r}")
        seen[code] = key
    return {code: by_language[seen[code]] for code in sorted(seen)}


def check_known(code: str, known: Iterable[str], where: str) -> str:
    """Returns the BCP 47 form of ``code``; raises ValueError if it is not among the BCP 47 codes ``known``."""
    return own_name(code, known, where)


def own_name(language: str, names: Iterable[str], where: str) -> str:
    """Returns the name that a dataset has for a language.

    Args:
      language: any code of it; one of ``names`` comes first.
      names: of the dataset's languages; what is not a language code is passed over.
      where: the dataset, for errors.

    Raises:
      ValueError: it has none, or several.
    """
    names = list(names)
    if language in names:
        return language
    code = language_code(language)
    same = [name for name in names if code_or_none(name) == code]
    if len(same) == 1:
        return same[0]
    if same:
        raise ValueError(f"language {language!r} is {' and '.join(same)} in {where}; say which")
    raise ValueError(f"language {language!r} is not in {where}; known are {', '.join(names) or 'none'}")


def code_or_none(name: str) -> str | None:
    """Returns the BCP 47 code of a language, or None where ``name`` is of none."""
    try:
        return language_code(name)
    except ValueError:
        return None
