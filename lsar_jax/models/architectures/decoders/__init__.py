"""Architectures of decoders: those of Llama's kind, and those of Gemma's."""
