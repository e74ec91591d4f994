"""The types of results, as a type checker must know them; mypy reads this file, by ``files`` in pyproject.toml."""

from typing import assert_type

import jax
import numpy as np

from lsar_jax import SentenceEncoder

__all__ = ["results"]


def results(encoder: SentenceEncoder, text: list[str]) -> tuple[list[np.ndarray], list[jax.Array]]:
    """Returns what each method gives for either ``output``."""
    of_numpy, of_jax = encoder.encode(text), encoder.encode(text, output="jax", normalize=True)
    assert_type(of_numpy, np.ndarray)
    assert_type(of_jax, jax.Array)
    return [of_numpy], [of_jax]
