"""Training of what the library applies: ``python -m train.disentangle``."""
