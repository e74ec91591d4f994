"""Measuring: one file a task, run as ``python -m eval TASK``; see ``python -m eval --help``."""
