"""The one logger of the library, which users silence or format by its name."""

import logging

__all__ = ["log"]

log = logging.getLogger("lsar_jax")
