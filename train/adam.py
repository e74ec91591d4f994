"""Adam: its learning rate and its steps."""

from typing import Any

import jax
import optax

__all__ = ["linear_schedule", "updated"]


def linear_schedule(learning_rate: float, warmup: int, steps: int) -> optax.Schedule:
    """Returns a learning rate that rises for ``warmup`` steps and then falls to 0 until ``steps``, both linearly."""
    rise = optax.linear_schedule(0.0, learning_rate, warmup)
    return optax.join_schedules([rise, optax.linear_schedule(learning_rate, 0.0, steps - warmup)], [warmup])


def updated(adam: optax.GradientTransformation, gradients: Any, state: Any, values: Any) -> tuple[Any, Any]:
    """Returns the values after a step of Adam, and its state."""
    with jax.numpy_dtype_promotion("standard"):  # Adam raises a float to the power of a step
        updates, state = adam.update(gradients, state, values)
        return optax.apply_updates(values, updates), state
