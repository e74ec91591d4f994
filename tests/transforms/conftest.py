"""Embeddings of six made-up languages: meaning + a language's own offset."""

import numpy as np
import pytest

CODES = ("de", "en", "fr", "ja", "th", "zh")


@pytest.fixture(scope="session")
def x():
    """From language to [30 to 55, 40] float32, with a common offset and a strong language part."""
    rng = np.random.default_rng(5)
    offsets = 4 * rng.standard_normal((len(CODES), 40))
    common = 10 * rng.standard_normal(40)
    rows = [rng.standard_normal((30 + 5 * i, 40)) + offset + common for i, offset in enumerate(offsets)]
    return {code: x.astype(np.float32) for code, x in zip(CODES, rows, strict=True)}
