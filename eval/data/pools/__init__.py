"""Pools of texts in many languages, and queries whose relevant texts are known."""
