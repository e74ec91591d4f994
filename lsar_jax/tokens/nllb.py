"""The tokenizer of NLLB and SONAR, whose first token is the language of the sentence.

Languages are named as in FLORES-200, by ISO 639-3 and a script: ``eng_Latn``. Any code of a language names it here.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lsar_jax.files import read_json
from lsar_jax.languages import code_or_none, language_code, own_name
from lsar_jax.tokens.hugging_face import fast_tokenizer
from lsar_jax.tokens.tokenizer import FastTokenizer

__all__ = ["flores_name", "nllb_tokenizer"]

# The language of FLORES-200 that a macrolanguage stands for, where several are, or where CLDR names none.
_MACROLANGUAGES = {
    "ak": "aka_Latn", "fa": "pes_Arab", "ff": "fuv_Latn", "no": "nob_Latn", "ps": "pbt_Arab", "qu": "quy_Latn",
}  # fmt: skip
_END = "</s>"


def nllb_tokenizer(folder: Path, vocabulary: int, longest: int) -> FastTokenizer:
    """Opens the tokenizer of a folder, which puts the language before a sentence, and ``</s>`` after it.

    Arguments are as of ``fast_tokenizer``. Without a language, the first token is ``eng_Latn``, as in transformers.

    Raises:
      FileNotFoundError: there is no tokenizer.
      ValueError: a file is damaged, a token has no embedding, or there are no languages.
    """
    from tokenizers import processors

    path = folder / "tokenizer_config.json"
    if path.is_file() and read_json(path, dict).get("legacy_behaviour"):
        raise ValueError(f"{path}: legacy_behaviour is True, which puts the language last; only False is supported")
    tokenizer = fast_tokenizer(folder, vocabulary, longest)
    backend = tokenizer.backend
    added = {token.content: row for row, token in backend.get_added_tokens_decoder().items()}
    rows = {name: row for name, row in added.items() if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", name)}
    if not rows or backend.token_to_id(_END) is None:
        raise ValueError(f"the tokenizer of {folder} lacks {_END} or tokens for languages, such as eng_Latn")
    first = "eng_Latn" if "eng_Latn" in rows else next(iter(rows))
    # The file may have the post-processor of a target language, or that of the first versions.
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {_END}",
        pair=f"{first} $A $B {_END}",
        special_tokens=[(first, rows[first]), (_END, backend.token_to_id(_END))],
    )
    return replace(tokenizer, language_id=lambda language: rows[flores_name(language, rows, str(folder.name))])


def flores_name(language: str, names: Iterable[str], where: str) -> str:
    """Returns the name in FLORES-200 of a language.

    Args:
      language: any code of the language. Without a script, it may stand for the only name of the language, although
        its script is not the usual one (Korean is ``kor_Hang``).
      names: the names to choose from.
      where: what uses the names, for error messages.

    Raises:
      ValueError: no name, or more than one, matches the language, or ``language`` is not a language code.

    Example:
      >>> from lsar_jax.tokens.nllb import flores_name
      >>> names = ["eng_Latn", "kor_Hang", "pes_Arab", "prs_Arab", "zho_Hans", "zho_Hant"]
      >>> [flores_name(code, names, "NLLB") for code in ("en", "ko", "fa", "prs", "zh", "zh-TW")]
      ['eng_Latn', 'kor_Hang', 'pes_Arab', 'prs_Arab', 'zho_Hans', 'zho_Hant']
    """
    names = list(names)
    if language in names:
        return language
    code = language_code(language)
    same = (
        [name for name in names if name.partition("_")[0] == language]
        or [name for name in names if name == _MACROLANGUAGES.get(code)]
        or [name for name in names if code_or_none(name) == code]
        or [name for name in names if (code_or_none(name) or "").partition("-")[0] == code]
    )
    return same[0] if len(same) == 1 else own_name(language, names, where)
