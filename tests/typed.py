"""The types of results, as a type checker must know them; mypy reads this file, by ``files`` in pyproject.toml."""

from typing import assert_type

import jax
import numpy as np

from lsar_jax import EncodeReport, SentenceEncoder

__all__ = ["results"]


def results(encoder: SentenceEncoder, text: list[str]) -> tuple[list[np.ndarray], list[jax.Array]]:
    """Returns what each method gives for either ``output``."""
    of_numpy = [encoder.encode(text), encoder.encode_query(text, output="numpy"), encoder.encode_document(text)]
    of_jax = [method(text, output="jax") for method in (encoder.encode_query, encoder.encode_document)]
    assert_type(encoder.encode_with_report(text), tuple[np.ndarray, EncodeReport])
    assert_type(encoder.encode_with_report(text, output="jax"), tuple[jax.Array, EncodeReport])
    return of_numpy, [*of_jax, encoder.encode(text, output="jax", normalize=True)]
