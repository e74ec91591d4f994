"""XLM's text to token ids, by the tokenizer that transformers has for it.

Moses normalisation and tokenisation in the sentence's language (English unless told otherwise),
words of Chinese and Thai by their own tools, lower case without accents where the checkpoint
says so, then BPE. It is Python and the slowest tokenizer of the papers' encoders; a thread
runs it ahead of the device.
"""

from pathlib import Path

from lsar_jax.extras import missing_extra
from lsar_jax.tokens.tokenizer import SlowTokenizer

__all__ = ["xlm_tokenizer"]

# The languages whose words XLM took from another tool, and where transformers takes them from.
_TOOLS = {"zh": "rjieba", "th": "pythainlp", "ja": "KyTea with Mykytea-python"}


def xlm_tokenizer(folder: Path, vocabulary: int, longest: int) -> SlowTokenizer:
    """Opens the tokenizer of an XLM folder: ``vocab.json`` and ``merges.txt``.

    Args:
      folder: of the checkpoint.
      vocabulary: rows of the embeddings.
      longest: tokens at most, special tokens included.

    Raises:
      FileNotFoundError: the tokenizer's files are not there.
      ImportError: the ``xlm`` extra is not installed.
      ValueError: more tokens than embeddings.
    """
    from transformers import XLMTokenizer

    lacking = [name for name in ("vocab.json", "merges.txt") if not (folder / name).is_file()]
    if lacking:
        raise FileNotFoundError(f"there is no {' and no '.join(lacking)} in {folder}, which XLM's tokenizer needs")
    try:
        tokenizer = XLMTokenizer.from_pretrained(folder, local_files_only=True)
    except ImportError as error:
        raise missing_extra(["sacremoses"], "xlm", "XLM's tokenizer") from error
    # Not get_vocab(): ids that transformers adds of its own never come out of a sentence.
    highest = max(tokenizer.encoder.values())
    if highest >= vocabulary:
        raise ValueError(f"the tokenizer of {folder} has the id {highest}, the model embeds 0 to {vocabulary - 1}")

    def encode(sentence: str, language: str | None) -> list[int]:
        try:
            pieces = tokenizer._tokenize(sentence, lang=language or "en")
        except (ImportError, AttributeError) as error:
            if language not in _TOOLS:
                raise
            raise ImportError(
                f"XLM's words of {language!r} need {_TOOLS[language]}, which is not "
                "installed; without language= the sentence is split as English"
            ) from error
        return tokenizer.convert_tokens_to_ids(pieces)

    before, after = (tokenizer.bos_token_id,), (tokenizer.sep_token_id,)
    limit = min(longest, int(tokenizer.model_max_length))
    names = ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")
    files = tuple(folder / name for name in names if (folder / name).is_file())
    return SlowTokenizer(encode, before, after, tokenizer.pad_token_id, limit, uses_language=True, files=files)
