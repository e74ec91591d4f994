"""The learning rate by step."""

import optax

__all__ = ["linear_schedule"]


def linear_schedule(learning_rate: float, warmup: int, steps: int) -> optax.Schedule:
    """Returns a learning rate that rises for ``warmup`` steps and then falls to 0 until ``steps``, both linearly."""
    rise = optax.linear_schedule(0.0, learning_rate, warmup)
    fall = optax.linear_schedule(learning_rate, 0.0, steps - warmup)
    return optax.join_schedules([rise, fall], [warmup])
