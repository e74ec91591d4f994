"""Vectors that several files of tests put into folders."""

import numpy as np
import pytest


@pytest.fixture(scope="package")
def x():
    """Vectors of two sides, ``[2, 1040, 8]``."""
    return np.random.default_rng(5).standard_normal((2, 1040, 8)).astype(np.float32)
