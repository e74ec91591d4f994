"""``python -m train.word_pairs``: aligned words of parallel text."""
