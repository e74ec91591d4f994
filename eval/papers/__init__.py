"""Published numbers, the cards of the papers' tables and figures, and ``python -m eval repro``, which runs them."""
