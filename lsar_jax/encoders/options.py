"""The options of encoding, shared by all methods that take them, and checks of those that depend on the tokenizer."""

from collections.abc import Iterable, KeysView, Mapping, Set
from typing import Literal, TypedDict

from lsar_jax.checks import whole_number
from lsar_jax.tokens.tokenizer import Tokenizer, check_sentences

__all__ = [
    "EncodeOptions",
    "StreamOptions",
    "check_iterable",
    "check_length",
    "check_names",
    "check_prompt",
]


class StreamOptions(TypedDict, total=False):
    """Options of every method that encodes a stream of text; ``SentenceEncoder.encode`` explains them."""

    layers: Iterable[int] | None
    language: str | Iterable[str] | None
    prompt: str | None
    max_length: int | None
    token_budget: int | None
    show_progress: bool


class EncodeOptions(StreamOptions, total=False):
    """Options of the methods that return embeddings."""

    normalize: bool
    output: Literal["numpy", "jax"]


def check_names(method: str, options: StreamOptions, known: type) -> None:
    """Raises TypeError if an option is not a key of the TypedDict ``known``."""
    names = known.__annotations__
    for name in options:
        if name not in names:
            raise TypeError(f"{method}() got an unexpected option {name!r}; its options are {', '.join(names)}")


def check_iterable(sentences: str | Iterable[str]) -> Iterable[str]:
    """Returns the sentences one after another; a single one is a list of one.

    Raises:
      ValueError: it is not text and not an ordered, one-dimensional iterable.
    """
    if isinstance(sentences, str):
        return [sentences]
    # The elements of a set come in another order in each process, and those of a mapping are its keys.
    unordered = isinstance(sentences, Mapping | Set) and not isinstance(sentences, KeysView)
    if isinstance(sentences, bytes) or unordered or not isinstance(sentences, Iterable):
        raise ValueError(f"sentences must be a str or an ordered iterable of str, not a {type(sentences).__name__}")
    shape = getattr(sentences, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ValueError(f"sentences is an array of shape {tuple(shape)}; give a list of str, or an array of shape [n]")
    return sentences


def check_length(max_length: int | None, tokenizer: Tokenizer) -> int:
    """Returns the maximum number of tokens per sentence; by default the checkpoint's.

    Raises:
      ValueError: it is not a whole number, leaves no room for text, or exceeds the checkpoint's maximum.
    """
    if max_length is None:
        return tokenizer.max_length
    # The special tokens and one token of text.
    least = sum(tokenizer.specials) + 1
    return whole_number("max_length", max_length, least, tokenizer.max_length, "the range of this checkpoint")


def check_prompt(prompt: str, tokenizer: Tokenizer, limit: int) -> str:
    """Returns ``prompt``; raises ValueError if it is not text, or leaves no room for text in ``limit`` tokens."""
    if not isinstance(prompt, str):
        raise ValueError(f"prompt is {prompt!r}; it must be a str")
    if prompt:
        check_sentences([prompt], what="prompt")
        if len(tokenizer([prompt], limit, [None])[0][0]) >= limit:
            raise ValueError(
                f"the prompt {prompt!r:.60} leaves no room for text in {limit} tokens; shorten it or raise max_length"
            )
    return prompt
