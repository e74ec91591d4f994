"""XLM's tokenizer, as implemented in transformers.

It applies Moses normalisation and tokenisation in the sentence's language (English by default), splits Chinese and Thai
into words with separate tools, lower-cases and removes accents if the checkpoint asks for it, and applies BPE. It is
written in Python and the slowest tokenizer of the papers' encoders; a thread runs it ahead of the device.
"""

from pathlib import Path

from lsar_jax.extras import missing_extra
from lsar_jax.files import check_file
from lsar_jax.tokens.tokenizer import SlowTokenizer, check_ids

__all__ = ["xlm_tokenizer"]

# Languages that XLM splits into words with another tool, and the package that transformers uses for it.
_TOOLS = {"zh": "rjieba", "th": "pythainlp", "ja": "KyTea with Mykytea-python"}


def xlm_tokenizer(folder: Path, vocabulary: int, longest: int) -> SlowTokenizer:
    """Opens the tokenizer of an XLM folder; arguments as of ``fast_tokenizer``.

    Raises:
      FileNotFoundError: there is no ``vocab.json`` or ``merges.txt``.
      ImportError: the ``xlm`` extra is not installed.
      ValueError: a token has no embedding.
    """
    from transformers import XLMTokenizer

    needed = (folder / "vocab.json", folder / "merges.txt")
    further = (folder / "tokenizer_config.json", folder / "special_tokens_map.json")
    files = (*needed, *filter(Path.is_file, further))
    for path in files:
        check_file(path)
    try:
        tokenizer = XLMTokenizer.from_pretrained(folder, local_files_only=True)
    except ImportError as error:
        raise missing_extra(["sacremoses"], "xlm", "XLM's tokenizer") from error
    # Not get_vocab(): a sentence never yields the other ids that transformers itself adds.
    special = [tokenizer.bos_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id]
    check_ids(folder, [*tokenizer.encoder.values(), *special], vocabulary)

    def encode(sentence: str, language: str | None) -> list[int]:
        try:
            pieces = tokenizer._tokenize(sentence, lang=language or "en")
        except (ImportError, AttributeError) as error:
            raise ImportError(
                f"XLM needs {_TOOLS.get(language or '', 'another tool')}, which is not installed, to split "
                f"{language!r} into words ({error}); without language= the sentence is split as English"
            ) from error
        return tokenizer.convert_tokens_to_ids(pieces)

    before, after = (tokenizer.bos_token_id,), (tokenizer.sep_token_id,)
    limit = min(longest, int(tokenizer.model_max_length))
    return SlowTokenizer(encode, before, after, tokenizer.pad_token_id, limit, uses_language=True, files=files)
