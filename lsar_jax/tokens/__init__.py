"""Tokenizers, and batching of token ids into a few fixed shapes."""
