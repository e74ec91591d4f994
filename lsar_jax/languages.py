"""Language codes: every language has one canonical BCP 47 code, and all other codes are aliases of it.

``deu``, ``ger``, ``deu_Latn``, ``de-AT`` and ``de`` all mean the language ``de``. Aliases, macrolanguages (``cmn``
becomes ``zh``, ``arb`` becomes ``ar``) and likely scripts come from CLDR through ``langcodes``. A script is kept only
if it is not the usual one of the language (``zh-Hant``, ``sr-Latn``); territories and variants are dropped. Names of
Wikipedias that are not BCP 47 (``fiu-vro``, ``zh-classical``) are aliases too; where ISO 639 gives a name to another
language, it is that language (``als`` is Albanian, and Wikipedia's is ``gsw``; ``nrm`` is Narom, not Norman). Codes
of families (``roa``) and of no language (``mul``) are refused; groups that are not languages (domains, registers, text
whose language is not known) can be named ``x-anything``, a BCP 47 private-use tag.
"""

import csv
from collections.abc import Iterable, Mapping, Set
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import langcodes

__all__ = [
    "AUTO",
    "canonical_keys",
    "check_codes",
    "check_given",
    "code_or_none",
    "language_code",
    "own_name",
    "script_of",
    "spaces_words",
]

T = TypeVar("T")

#: Passed instead of a language code if the transform is to detect the language.
AUTO = "auto"

# Codes and what they stand for, by kind, from ``languages.csv``:
# - choice: CLDR maps Tagalog to Filipino; the papers, their data and IANA use the code tl. To it, Bokmål is not
#   Norwegian, as Mandarin is Chinese, but Dari is Persian and Twi is Akan, beside which FLORES-200 has them.
# - wikipedia: names of Wikipedias that are not BCP 47, or that begin with the code of a family.
# - none: what names no language.
# - family: those of ISO 639-5 in BCP 47 but Berber and Nahuatl, which Tatoeba and Wikipedia take for languages.
# - unspaced: scripts that put no spaces between words.
# - script: usual scripts of languages, some of FLORES-200, that CLDR does not know, and to which langcodes therefore
#   gives Latin.
_CODES: dict[str, dict[str, str]] = {}
with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    for _row in csv.DictReader(_file):
        _CODES.setdefault(_row["kind"], {})[_row["code"]] = _row["meaning"]


def language_code(code: object) -> str:
    """Returns the BCP 47 code of a language, with its script if that is not the usual one.

    Args:
      code: BCP 47, ISO 639-1, 639-2 or 639-3, or the name of a Wikipedia, with ``-`` or ``_`` between subtags.

    Raises:
      ValueError: ``code`` is not a string, or not a registered language, as the code of a family is.

    Example:
      >>> from lsar_jax.languages import language_code
      >>> [language_code(code) for code in ("deu", "de-AT", "cmn", "zh_TW", "sr-Latn", "x-law")]
      ['de', 'de', 'zh', 'zh-Hant', 'sr-Latn', 'x-law']
    """
    if not isinstance(code, str):
        hint = ""
        if str(code) in ("nan", "<NA>", "NaT", "None"):
            hint = "; it is missing, or pandas read the code 'nan', Min Nan, without keep_default_na=False"
        raise ValueError(f"a language is {code!r:.80}, which is not a string such as 'de'{hint}")
    return _code_of(str(code))  # not a subclass, which errors would show


@cache
def _code_of(code: str) -> str:
    tag = code.strip().replace("_", "-").lower()
    tag = _CODES["wikipedia"].get(tag, tag)
    try:
        valid = bool(tag) and langcodes.tag_is_valid(tag)
        language = langcodes.Language.get(langcodes.standardize_tag(tag, macro=True)) if valid else None
    except langcodes.LanguageTagError:
        language = None
    # A subtag of a language that is not registered after another (en-deu, de-cmn) would be dropped.
    if language is None or language.extlangs:
        raise ValueError(
            f"{code!r} is not a language code; use BCP 47 or ISO 639 (de, deu, zh, cmn), "
            "or x-NAME for a group that is not a language"
        )
    if language.private:
        return language.to_tag().lower()
    subtag = language.language or "und"
    if (family := subtag in _CODES["family"]) or subtag in _CODES["none"]:
        what = "is a family of languages; name one of them, or" if family else "does not name a language;"
        raise ValueError(f"{code!r} {what} use x-NAME for a group that is not a language")
    # A territory can imply a script: Chinese is written in Hant in Taiwan.
    script = language.script or _CODES["script"].get(subtag) or language.maximize().script
    usual = _usual_script(subtag)
    # Hangul alone is not another script than Hangul with Chinese characters.
    if script == usual or (script, usual) == ("Hang", "Kore"):
        script = None
    choice = _CODES["choice"]
    subtag = choice.get(tag.partition("-")[0], choice.get(subtag, subtag))
    return f"{subtag}-{script}" if script else subtag


def canonical_keys(by_language: Mapping[str, T]) -> dict[str, T]:
    """Returns ``by_language`` with its keys turned into BCP 47 codes, in alphabetical order.

    Raises:
      ValueError: a key is not a language code, or two keys are the same language.
    """
    keys: dict[str, str] = {}
    for key in by_language:
        code = language_code(key)
        if code in keys:
            raise ValueError(f"{keys[code]!r} and {key!r} are the same language, {code!r}")
        keys[code] = key
    return {code: by_language[keys[code]] for code in sorted(keys)}


def check_given(language: Any) -> Any:
    """Returns ``language``, as a list if it is of pyarrow.

    Raises:
      ValueError: it is not None, a code, or an ordered iterable of codes, one per sentence.
    """
    language = language.to_pylist() if hasattr(language, "to_pylist") else language
    wrong = isinstance(language, bytes | Mapping | Set) or not isinstance(language, str | Iterable | None)
    if wrong or (not isinstance(language, str) and len(getattr(language, "shape", (1,))) != 1):
        raise ValueError(f"language is {language!r:.80}; give one code, such as 'de', or a list with one per sentence")
    return language


def check_codes(language: str | Iterable[str], first: int = 0) -> list[str]:
    """Returns the codes that ``check_given`` lets pass, as a list.

    Raises:
      ValueError: one of them is not a language code (the error names its row, counted from ``first``), or
        ``check_given`` refuses ``language``.
    """
    given = check_given(language)
    codes = [given] if isinstance(given, str) else list(given)
    for row, code in enumerate(codes, first):
        try:
            language_code(code)
        except ValueError as error:
            raise error if codes == [language] else ValueError(f"row {row}: {error}") from error
    return codes


def own_name(language: object, names: Iterable[str], where: str) -> str:
    """Returns the name that a dataset, a transform or a model uses for a language.

    Args:
      language: any code of the language; an exact match in ``names``, and then its BCP 47 code, takes precedence.
      names: its names of languages; names that are not language codes are ignored.
      where: what uses the names, for error messages.

    Raises:
      ValueError: no name, or more than one, matches the language, or ``language`` is not a language code.

    Example:
      >>> from lsar_jax.languages import own_name
      >>> own_name("de", ["deu_Latn", "fra_Latn"], "FLORES")
      'deu_Latn'
    """
    names = list(names)
    if isinstance(language, str) and language in names:
        return language
    code = language_code(language)
    if code in names:
        return code
    same = [name for name in names if code_or_none(name) == code]
    if len(same) == 1:
        return same[0]
    several = f"matches {' and '.join(same)} in {where}; name one of them"
    unknown = f"is not in {where}; known languages are {', '.join(names) or 'none'}"
    raise ValueError(f"language {language!r} {several if same else unknown}")


def code_or_none(name: str) -> str | None:
    """Returns the BCP 47 code of a language, or None if ``name`` is not a language code."""
    try:
        return language_code(name)
    except ValueError:
        return None


def script_of(code: str) -> str:
    """Returns the ISO 15924 code of the script that a language code stands for; empty for ``x-NAME``.

    Example:
      >>> from lsar_jax.languages import script_of
      >>> [script_of(code) for code in ("de", "sr", "sr-Latn", "hin_Latn")]
      ['Latn', 'Cyrl', 'Latn', 'Latn']
    """
    subtag, _, script = language_code(code).partition("-")
    if subtag == "x":
        return ""
    return script or _usual_script(subtag)


def spaces_words(code: str) -> bool:
    """Whether the script of a language separates words by spaces, as Chinese, Japanese, Thai and Tibetan do not."""
    return script_of(code) not in _CODES["unspaced"]


def _usual_script(subtag: str) -> str:
    return _CODES["script"].get(subtag) or str(langcodes.Language.get(subtag).maximize().script)
