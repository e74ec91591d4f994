"""Training of transforms that the library can apply: ``python -m train.disentangle``."""
