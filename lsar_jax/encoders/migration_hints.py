"""Names of sentence-transformers: the two methods that an encoder has too, and what to write instead of the others."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lsar_jax.files import read_table

__all__ = ["Output", "SentenceTransformersNames", "check_names"]

#: Whether embeddings are returned as an array of numpy or of jax.
Output = Literal["numpy", "jax"]
# What to write instead of an option or an attribute.
_INSTEAD = {row["name"]: row["instead"] for row in read_table(Path(__file__).with_suffix(".csv"))}


def check_names(method: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError, which says what to write instead, if an option of ``method`` is not ``known``."""
    for name in options:
        if name not in known:
            instead = _INSTEAD.get(name, f"its options are {', '.join(known)}")
            raise TypeError(f"{method}() got an unexpected option {name!r}; {instead}")


class SentenceTransformersNames:
    """The methods of sentence-transformers that a ``SentenceEncoder`` has; its other attributes raise a hint."""

    # Unseen by type checkers, which would take any attribute to exist.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            _check_attribute(self, name)
            # Raises the error of a property that itself lacks something, or Python's own.
            return object.__getattribute__(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            _check_attribute(self, name)  # it would have no effect
            object.__setattr__(self, name, value)

    def encode_query(self, sentences: str | Iterable[str], **options: Any) -> Any:
        """Returns ``encode(sentences, prompt="query")``, or without that prompt if ``prompts`` lacks it.

        Another ``prompt`` may be given; options and errors are as for ``encode``.
        """
        return self._encode(sentences, options, "query")

    def encode_document(self, sentences: str | Iterable[str], **options: Any) -> Any:
        """Returns ``encode`` with the first prompt named ``document``, ``passage`` or ``corpus``, or without one.

        Another ``prompt`` may be given; options and errors are as for ``encode``.
        """
        return self._encode(sentences, options, "document", "passage", "corpus")

    def _encode(self: Any, sentences: str | Iterable[str], options: Mapping[str, Any], *names: str) -> Any:
        prompt = next((name for name in names if name in self.prompts), None)
        return self.encode(sentences, **{"prompt": prompt, **options})


def _check_attribute(encoder: Any, name: str) -> None:
    if name in _INSTEAD:
        raise AttributeError(f"a SentenceEncoder has no {name!r}; {_INSTEAD[name]}", name=name, obj=encoder)
