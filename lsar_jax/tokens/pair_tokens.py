"""Turns pairs of sentences into one row of tokens each, as for natural language inference."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from lsar_jax.checks import whole_number
from lsar_jax.tokens.tokenizer import FastTokenizer, Tokenizer, check_no_template, check_sentences

__all__ = ["PairTokens", "tokenize_pairs"]


class PairTokens(NamedTuple):
    """The tokens of a pair.

    Attributes:
      ids: token ids of both sentences, with special tokens, ``[token]`` int32.
      second: position of the second segment; the number of tokens for checkpoints without segments, as XLM-R.
    """

    ids: Int[np.ndarray, " token"]
    second: int


def tokenize_pairs(
    tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], max_length: int, language: str | None = None
) -> list[PairTokens]:
    """Tokenizes pairs to at most ``max_length`` tokens; the longer sentence is cut.

    A tokenizer without a rule for pairs puts its special tokens around the first sentence, and its last ones after
    the second too.

    Raises:
      ValueError: a sentence is not text, or ``max_length`` leaves no room for a token of each.
    """
    for side in (0, 1):
        check_sentences([pair[side] for pair in pairs])
    check_no_template(tokenizer, "pairs")
    before, after = tokenizer.specials
    by_rule = tokenizer.backend.num_special_tokens_to_add(True) if isinstance(tokenizer, FastTokenizer) else 0
    specials = by_rule if by_rule > before + after else before + 2 * after
    whole_number("max_length", max_length, specials + 2, 1 << 20, "the special tokens, and one of each sentence")
    if isinstance(tokenizer, FastTokenizer) and by_rule > before + after:
        with tokenizer.lock:
            tokenizer.backend.enable_truncation(max_length, direction=tokenizer.side)
            encodings = tokenizer.backend.encode_batch(list(pairs))
            tokenizer.backend.no_truncation()
        types = [[*encoding.type_ids, 1] for encoding in encodings]
        return [PairTokens(np.array(x.ids, np.int32), t.index(1)) for x, t in zip(encodings, types, strict=True)]
    sides = [tokenizer([pair[side] for pair in pairs], max_length, [language] * len(pairs))[0] for side in (0, 1)]
    result = []
    for first, second in zip(*sides, strict=True):
        a, b = first[before : len(first) - after], second[before : len(second) - after]
        while len(a) + len(b) > max_length - specials:
            a, b = (a[:-1], b) if len(a) > len(b) else (a, b[:-1])
        end = first[len(first) - after :]
        ids = np.concatenate([first[:before], a, end, b, end])
        result.append(PairTokens(ids, len(ids)))
    return result
