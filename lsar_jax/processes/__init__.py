"""Processes, on one machine or many, that compute together: connected by ``jax.distributed``.

Without ``start_processes`` there is one. A function that says so is a collective: every process must call it, in the
same order, and if another one ends it raises ConnectionError.

jax's service has no password and no encryption: whoever reaches its port can end the job, or take part in it. Without a
network that you trust, ``127.0.0.1`` alone is safe.
"""

from lsar_jax.processes.collectives import (
    agreed,
    check_alike,
    from_first,
    gather,
    is_first,
    own_rows,
    share,
    wait_for_all,
)
from lsar_jax.processes.start import start_processes

__all__ = [
    "agreed",
    "check_alike",
    "from_first",
    "gather",
    "is_first",
    "own_rows",
    "share",
    "start_processes",
    "wait_for_all",
]
