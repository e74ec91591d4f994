"""Readers of evaluation data, and commands that create it."""
