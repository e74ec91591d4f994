"""Texts and their embeddings by group and language, as tasks read, transform and score them."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["Embedded", "Key", "Texts", "fill"]

# (group, language). Group ``en`` has the English translations of that language's sentences; groups that begin with
# ``fit`` have text to fit on.
Key = tuple[str, str]
Texts = Mapping[Key, Sequence[str]]
# Embeddings at one layer.
Embedded = Mapping[Key, Float[np.ndarray, "_ dim"]]


def fill(template: str, name: str, texts: Sequence[str]) -> list[str]:
    """Puts each text in place of its name, question or passage, in a template; raises ValueError if it is not there."""
    if f"{{{name}}}" not in template:
        raise ValueError(f"--{name}-text is {template!r}; it needs {{{name}}}")
    return [template.replace(f"{{{name}}}", text) for text in texts]
