"""The options of encoding, shared by all methods that take them."""

from collections.abc import Iterable
from typing import Literal, TypedDict

__all__ = ["EncodeOptions", "StreamOptions", "check_names"]


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
