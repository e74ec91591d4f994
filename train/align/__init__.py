"""``python -m train.align``: aligns an encoder on parallel text."""
