"""``python -m train.disentangle``: heads of meaning and language, by DREAM, MEAT and ORACLE."""
