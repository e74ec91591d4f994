"""Text and embeddings whose answers are known."""

import numpy as np

from lsar_jax.options.user_text import UserText

__all__ = ["CODES", "LINES", "aligned", "planted", "write"]

CODES = ("de", "en", "fr")
LINES = [
    f"{first} {second}"
    for first in ("red", "blue", "green", "old", "new")
    for second in ("house", "car", "ship", "road", "tree")
]


def write(folder, lines, codes=CODES, ending=".txt"):
    folder.mkdir(exist_ok=True)
    for code in codes:
        (folder / f"{code}{ending}").write_text("".join(f"{code} {line}\n" if line else "\n" for line in lines))
    return folder


def planted(rng, lines=60, dim=24, *, codes=CODES, noise=0.2, apart=4.0):
    """Embeddings of the same meanings in several languages, each around a mean of its own."""
    meaning = rng.normal(size=(lines, dim))
    return {
        code: (meaning + noise * rng.normal(size=meaning.shape) + apart * rng.normal(size=dim)).astype(np.float32)
        for code in codes
    }


def aligned(x, sentence=""):
    """A text whose line i has the same content in all languages."""
    lines = len(next(iter(x.values())))
    sentences = {code: [f"{code} {line} {sentence}" for line in range(lines)] for code in x}
    return UserText(sentences, dict.fromkeys(x, np.arange(lines)), {}, True)
