"""Flax modules: the blocks, the pooling of hidden states, and what follows it."""
