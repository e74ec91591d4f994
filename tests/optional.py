"""What only some tests need; .ci/run installs it, and a skip is a failure there."""

import importlib
import os

import pytest

__all__ = ["need"]


def need(module):
    """Returns the module, or skips the test; fails it where LSAR_JAX_REQUIRE_TORCH is set."""
    try:
        return importlib.import_module(module)
    except ImportError:
        if os.environ.get("LSAR_JAX_REQUIRE_TORCH"):
            pytest.fail(f"LSAR_JAX_REQUIRE_TORCH is set, and {module} is not installed", pytrace=False)
        pytest.skip(f"{module} is not installed", allow_module_level=True)
