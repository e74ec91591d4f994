"""What only some tests need; .ci/run installs it, and a skip is a failure there."""

import importlib
import os

import pytest

__all__ = ["missing", "need"]


def need(module):
    """Returns the module, or skips the test; fails it where LSAR_JAX_REQUIRE_TORCH is set."""
    try:
        return importlib.import_module(module)
    except ImportError:
        missing(f"{module} is not installed")


def missing(what):
    """Skips the test, or the whole file; fails it where LSAR_JAX_REQUIRE_TORCH is set."""
    if os.environ.get("LSAR_JAX_REQUIRE_TORCH"):
        pytest.fail(f"LSAR_JAX_REQUIRE_TORCH is set, and {what}", pytrace=False)
    pytest.skip(what, allow_module_level=True)
