"""Texts and their embeddings by group and language, as tasks read, transform and score them."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["Embedded", "Key", "Texts"]

# (group, language). Group ``en`` has the English translations of that language's sentences; groups that begin with
# ``fit`` have text to fit on.
Key = tuple[str, str]
Texts = Mapping[Key, Sequence[str]]
# Embeddings at one layer.
Embedded = Mapping[Key, Float[np.ndarray, "_ dim"]]
