"""The training loop: epochs of chunked steps, with validation, early stopping, checkpoints and a log.

Each seed is masked after ``patience`` epochs without a lower validation loss, and training ends when all are. A killed
run resumes from its last checkpoint, with its log truncated to that point. Several processes take the same steps
together; process 0 writes the log and the checkpoints.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Bool, Float

from lsar_jax.checks import check_option
from lsar_jax.console.output import console
from lsar_jax.encoders.progress import Meter
from lsar_jax.mesh import fetched, placed
from lsar_jax.processes import agreed, from_first, is_first
from train.checkpoints import Checkpoints
from train.log import Log
from train.training_task import Steps, TrainingTask, where_seed

__all__ = ["LoopOptions", "Trained", "TrainingPosition", "train"]


@dataclass(frozen=True)
class LoopOptions:
    """How long to train, and how often to log and save.

    Attributes:
      epochs: maximum number of epochs.
      patience: number of epochs without a lower validation loss after which a seed stops.
      checkpoint_seconds: minimum time between checkpoints, in seconds.
    """

    epochs: int = 10_000
    patience: int = 10
    checkpoint_seconds: float = 30.0


@dataclass
class TrainingPosition:
    """The position of a run; each list has one entry per seed.

    ``step`` counts the steps of this epoch, ``taken`` the steps of all epochs, and ``lines`` the lines of the log.
    ``best`` is the lowest validation loss, ``waited`` the number of epochs since then, and an ``active`` seed is still
    training.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    lines: int = 0
    best: list[float] = field(default_factory=list)
    best_epoch: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    active: list[bool] = field(default_factory=list)

    @classmethod
    def start(cls, seeds: int) -> "TrainingPosition":
        """Returns the position before the first step."""
        return cls(best=[float("inf")] * seeds, best_epoch=[-1] * seeds, waited=[0] * seeds, active=[True] * seeds)

    def end_epoch(self, losses: Float[np.ndarray, " seed"], patience: int) -> Bool[np.ndarray, " seed"]:
        """Records an epoch's validation losses, and stops each seed after ``patience`` epochs without a lower one.

        Returns which of the seeds that were still training have reached their lowest loss.
        """
        better = np.array(self.active) & (losses < np.array(self.best))
        for seed in np.flatnonzero(self.active).tolist():
            if better[seed]:
                self.best[seed], self.best_epoch[seed], self.waited[seed] = float(losses[seed]), self.epoch, 0
            else:
                self.waited[seed] += 1
                self.active[seed] = self.waited[seed] < patience
        self.epoch, self.step = self.epoch + 1, 0
        return better


@dataclass(frozen=True)
class Trained:
    """The kept part of the state at each seed's best epoch and at the end, where the run ended, and its speed.

    The speed includes validation, and is 0 if there was nothing left to do.
    """

    best: Any
    last: Any
    position: TrainingPosition
    steps_per_second: float


def train(task: TrainingTask, options: LoopOptions, folder: Path, title: str, steps_per_call: int) -> Trained:
    """Trains until every seed has stopped, from the last checkpoint if there is one.

    A program call takes ``steps_per_call`` steps, and writes a line of the log.
    Writes ``log.jsonl``, its figure and ``checkpoints`` into the folder.

    Raises:
      ValueError: the run already has more epochs than ``options`` allows, or a loss is not finite.
    """
    with ExitStack() as stack:
        run = _TrainingRun(task, options, folder, steps_per_call, stack)
        position, started, before = run.position, time.perf_counter(), run.position.taken
        while any(position.active) and position.epoch < options.epochs:
            run.take_epoch()
        run.save()
    seconds = time.perf_counter() - started
    if is_first():
        from train.curves import draw_curves

        draw_curves(folder / "log.jsonl", title, folder)
    return Trained(run.best, task.kept(run.state), position, (position.taken - before) / seconds)


class _TrainingRun:
    """A run from its last checkpoint on: the state, its best part, and the open log and checkpoints."""

    def __init__(
        self, task: TrainingTask, options: LoopOptions, folder: Path, steps_per_call: int, stack: ExitStack
    ) -> None:
        self._steps_per_call = steps_per_call
        self._task, self._options, self._total = task, options, task.total(options.epochs)
        self._meter = stack.enter_context(Meter())
        self.state = task.start()
        self.best = jax.tree.map(jnp.copy, task.kept(self.state))
        self.position = TrainingPosition.start(len(task.seeds))
        self._checkpoints = stack.enter_context(Checkpoints(folder / "checkpoints")) if is_first() else None
        if (found := _restored(self._checkpoints, {"state": self.state, "best": self.best})) is not None:
            arrays, position = found
            self.state, self.best, self.position = arrays["state"], arrays["best"], TrainingPosition(**position)
            epochs = self.position.epoch
            check_option(epochs <= options.epochs, f"at least {epochs}, those of {folder}", epochs=options.epochs)
            if is_first():
                console.print(f"resuming after step {self.position.taken:,} of {self._total:,}")
        self._log = Log(folder / "log.jsonl" if is_first() else None, self.position.lines, task.apart, stack)
        self._saved = time.perf_counter()

    def take_epoch(self) -> None:
        """Takes what is left of an epoch, validates, and keeps the best part of each seed's state."""
        task, options, position = self._task, self._options, self.position
        order = task.order(self.state, position.epoch)
        while position.step < order.shape[1]:
            self._take(order[:, position.step : position.step + self._steps_per_call])
            if time.perf_counter() - self._saved > options.checkpoint_seconds:
                self.save()
                self._saved = time.perf_counter()
        losses = {name: value[:, None] for name, value in fetched(dict(task.validate(self.state))).items()}
        _check_finite(losses, task, position)
        means = {name: value[:, 0].tolist() for name, value in losses.items()}
        self._log.write("validation", position.epoch, position.step, means, active=position.active)
        # The losses of process 0, so that all processes stop together.
        totals = from_first(np.sum(list(means.values()), axis=0))
        better = position.end_epoch(totals, options.patience)
        self.best = _everywhere(where_seed(jnp.asarray(better), task.kept(self.state), self.best))

    def save(self) -> None:
        """Writes a checkpoint, from which a killed run goes on to the same numbers."""
        self.position.lines = self._log.lines
        if self._checkpoints is not None:
            arrays = {"state": self.state, "best": self.best}
            self._checkpoints.save(self.position.taken, arrays, asdict(self.position))

    def _take(self, chunk: Any) -> None:
        """Takes the steps of one program call, and logs their mean losses."""
        task, position, started = self._task, self.position, time.perf_counter()
        steps = Steps(chunk, position.epoch, position.step, jnp.asarray(position.active))
        self.state, terms = task.steps(self.state, steps)
        self.state, losses = _everywhere(self.state), fetched(dict(terms))
        _check_finite(losses, task, position)
        speed = float(f"{chunk.shape[1] / (time.perf_counter() - started):.4g}")
        position.step += chunk.shape[1]
        position.taken += chunk.shape[1]
        means = {name: values.mean(axis=1).tolist() for name, values in losses.items()}
        self._log.write("train", position.epoch, position.step, means, steps_per_second=speed, active=position.active)
        early = self._options.patience < self._options.epochs  # it may stop before the last of its steps
        so_far = f"step {position.taken:,} of {'at most ' if early else ''}{self._total:,}"
        self._meter(so_far, position.taken, self._total, _note(position, means), most=early)


def _everywhere(tree: Any) -> Any:
    """Returns arrays of several processes whole in each of them, so that process 0 alone can write them."""

    def whole(x: jax.Array) -> jax.Array:
        if x.is_fully_addressable or x.is_fully_replicated:
            return x
        assert isinstance(x.sharding, NamedSharding)
        return jax.device_put(x, NamedSharding(x.sharding.mesh, PartitionSpec()))

    return tree if jax.process_count() == 1 else jax.tree.map(whole, tree)


def _restored(checkpoints: Checkpoints | None, like: Any) -> tuple[Any, dict[str, Any]] | None:
    """Returns the last checkpoint, which process 0 reads, in every process."""
    whole = fetched(like)
    found = None if checkpoints is None else checkpoints.restore(whole, console.print)
    position = agreed(None if found is None else found[1])
    if position is None:
        return None
    arrays = from_first(whole if found is None else found[0])
    return jax.tree.map(lambda new, old: placed(new, old.sharding), arrays, like), position


def _check_finite(
    losses: Mapping[str, Float[np.ndarray, "seed step"]], task: TrainingTask, position: TrainingPosition
) -> None:
    for name, values in losses.items():
        bad = ~np.isfinite(values) & np.array(position.active)[:, None]
        if bad.any():
            step = int(np.argmax(bad.any(axis=0)))
            seed = int(np.argmax(bad[:, step]))
            raise ValueError(
                f"the loss term {name} is {values[seed, step]} at epoch {position.epoch}, step {position.step + step}, "
                f"seed {task.seeds[seed]}; lower --learning-rate (it is {task.learning_rate}), or check the input for "
                "values that are not finite"
            )


def _note(position: TrainingPosition, means: Mapping[str, Sequence[float]]) -> str:
    """The last loss terms and the best validation loss so far, as means over the seeds."""
    terms = [f"{name} {np.mean(value):.3f}" for name, value in means.items()]
    if np.isfinite(position.best).all():
        terms.append(f"best validation {np.mean(position.best):.4f}")
    if len(position.active) > 1:
        terms.append(f"training {sum(position.active)} of {len(position.active)} seeds")
    return ", ".join(terms)
