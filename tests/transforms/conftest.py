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
    return {
        code: (rng.standard_normal((30 + 5 * i, 40)) + offsets[i] + common).astype(np.float32)
        for i, code in enumerate(CODES)
    }
