"""Tasks of the training loop: steps on a state of several seeds, whose arrays have a leading seed axis."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

__all__ = [
    "StepTerms", "Steps", "TrainingTask", "ValidationTerms", "as_seed", "each_seed", "of_seed", "where_seed",
]  # fmt: skip

T = TypeVar("T")

# The loss terms of each step, and those of a validation.
StepTerms = Mapping[str, Float[Array, "seed step"]]
ValidationTerms = Mapping[str, Float[Array, " seed"]]


class Steps(NamedTuple):
    """Steps of one program call.

    Attributes:
      order: their batches, ``[seed, step, ...]``.
      epoch: number of the epoch.
      first: number of the first step in the epoch.
      active: which seeds are still training; the others stay as they are.
    """

    order: Any
    epoch: int
    first: int
    active: Bool[Array, " seed"]


class TrainingTask(Protocol):
    """Something to train: pure steps on a state, for several seeds in parallel.

    Attributes:
      seeds: random seeds, one run each; every array of the state has a leading seed axis.
      learning_rate: the learning rate, for the error of a loss that is not finite.
      apart: names of terms that are logged but do not count in the loss, such as a discriminator's own.
    """

    seeds: tuple[int, ...]
    learning_rate: float
    apart: tuple[str, ...] = ()

    def start(self) -> Any:
        """Returns the initial state, including random keys: a tree of arrays on their devices."""

    def kept(self, state: Any) -> Any:
        """Returns the part of the state to keep at its best epoch: a tree of arrays with a leading seed axis."""

    def total(self, epochs: int) -> int:
        """Returns the number of steps in ``epochs`` epochs."""

    def order(self, state: Any, epoch: int) -> Any:
        """Returns the batches of an epoch, ``[seed, step, ...]``."""

    def steps(self, state: Any, steps: Steps) -> tuple[Any, StepTerms]:
        """Takes one step per batch; returns the new state and the loss terms at each step."""

    def validate(self, state: Any) -> ValidationTerms:
        """Returns the mean of each loss term over the validation data."""


def each_seed(function: Callable[..., T], *arguments: Any) -> T:
    """``vmap`` over seeds; one seed is passed without its axis, which makes products slower on CPUs."""
    if len(jax.tree.leaves(arguments)[0]) > 1:
        return jax.vmap(function)(*arguments)
    return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], arguments)))


@jax.jit
def where_seed(chosen: Bool[Array, "*seed"], new: Any, old: Any) -> Any:
    """Returns ``new`` for the chosen seeds, and ``old`` for the others, two trees of arrays."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(chosen.reshape(chosen.shape + (1,) * (new.ndim - chosen.ndim)), new, old)

    return jax.tree.map(choose, new, old)


@jax.jit
def as_seed(tree: Any) -> Any:
    """Returns a tree of arrays with a leading seed axis, as the only seed."""
    return jax.tree.map(lambda x: x[None], tree)


@jax.jit
def of_seed(tree: Any, number: Any) -> Any:
    """Returns the arrays of one seed, of a tree of arrays with a leading seed axis."""
    return jax.tree.map(lambda x: x[number], tree)
