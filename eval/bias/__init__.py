"""``python -m eval bias``: how strongly one's own text is placed by its language, and which transform to use on it."""
