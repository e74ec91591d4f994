"""Training objectives: pure functions of arrays, for any optimizer and loop."""

from lsar_jax.objectives import align, disentangle, language_penalty, parsing, tagging

__all__ = ["align", "disentangle", "language_penalty", "parsing", "tagging"]
