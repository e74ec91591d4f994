"""Flax modules: encoders, pooling of hidden states, and projection of pooled embeddings."""
