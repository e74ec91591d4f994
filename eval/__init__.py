"""Evaluations, run by ``python -m eval TASK``; not part of the installed package."""
