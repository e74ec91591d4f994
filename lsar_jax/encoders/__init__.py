"""Encoders: one Flax module an architecture, and the reading of their checkpoints."""
