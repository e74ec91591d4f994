"""Where a long text can be cut before it is tokenized: the tokens of its beginning are then the first of the whole.

That is between a letter and a space, if nothing that the tokenizer does reaches across: of known normalizers, with
pre-tokenizers that split there, or with BPE and a vocabulary that has no such token.
"""

import json
import re
from typing import Any

__all__ = ["cut_place"]

_NORMALIZERS = (
    "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Strip",
    "StripAccents",
)  # fmt: skip
_AT_SPACES = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
# Of Qwen; Llama 3 takes three digits at a time.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = ({"Regex": _WORDS}, {"Regex": _WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")})
_SPLITS: tuple[dict[str, Any], ...] = (
    {"type": "Metaspace", "split": True}, {"type": "ByteLevel", "use_regex": True},
    *({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False} for pattern in _PATTERNS),
)  # fmt: skip
# Gemma's: after the first, the second finds no space.
_MARKED = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_AT_NONE = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}


def cut_place(backend: Any) -> re.Pattern[str] | None:
    """Returns the two characters that a text can be cut between, for a ``tokenizers.Tokenizer``; None if nowhere."""
    normalizers, splits = _parts(backend.normalizer), _parts(backend.pre_tokenizer)
    first = splits[0] if splits else {}
    at_spaces = first.get("type") in _AT_SPACES
    place = re.compile(r"[^\W\d_]" + (r"[ \n]" if at_spaces else " "))
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    if _MARKED in normalizers:
        normalizers.remove(_MARKED)
        vocabulary = backend.get_vocab(with_added_tokens=True)
        apart = type(backend.model).__name__ == "BPE" and splits in ([], [_AT_NONE]) and "▁" in vocabulary
        added += [token.replace("▁", " ") for token in vocabulary]
    else:
        apart = at_spaces or any(known.items() <= first.items() for known in _SPLITS)
    return place if apart and all(map(_local, normalizers)) and not any(map(place.search, added)) else None


def _parts(rule: Any) -> list[dict[str, Any]]:
    """Returns the settings of a normalizer or a pre-tokenizer, or of each one of a sequence."""
    state = {} if rule is None else json.loads(rule.__getstate__())
    return state.get("normalizers") or state.get("pretokenizers") or [state] * bool(state)


def _local(normalizer: dict[str, Any]) -> bool:
    """Whether a normalizer changes what is before a space as if nothing came after it, and keeps the space."""
    pattern = normalizer.get("pattern", {})
    replaced = pattern == {"Regex": " {2,}"} or not re.search(r"\s", pattern.get("String", " "))
    return normalizer["type"] in _NORMALIZERS or (normalizer["type"] == "Replace" and replaced)
