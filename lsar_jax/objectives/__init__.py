"""Training objectives: pure functions of arrays, for any optimizer and loop."""

from lsar_jax.objectives import align, disentangle

__all__ = ["align", "disentangle"]
