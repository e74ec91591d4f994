"""``python -m eval TASK``: the evaluations; not part of the installed package."""
