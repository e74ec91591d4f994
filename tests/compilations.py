"""Counts what XLA compiles."""

from contextlib import contextmanager

import jax


@contextmanager
def count_compilations():
    """Yields a list that grows by one for each program compiled inside the block."""
    compiled = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.clear_event_listeners()
