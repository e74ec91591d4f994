"""Training objectives: pure functions of arrays, for any optimizer and loop."""

from lsar_jax.objectives import disentangle

__all__ = ["disentangle"]
