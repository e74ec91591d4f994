"""``python -m train.disentangle``: trains meaning and language heads with DREAM, MEAT and ORACLE."""
