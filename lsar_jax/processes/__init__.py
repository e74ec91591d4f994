"""Processes, on one machine or many, that share a job: started by ``jax.distributed``, over a folder that all can see.

Without ``start_processes`` there is one. A function that says so is a collective: every process must call it, in the
same order, and if another one ends it raises ConnectionError.
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
