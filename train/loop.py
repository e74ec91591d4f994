"""The loop of ``train.disentangle``: epochs of chunks of steps, validation, checkpoints, a log.

Each seed stops by itself: after ``patience`` epochs without a lower validation loss it is masked, until all have
stopped. A run that was killed goes on from its last checkpoint, and its log is cut back to there.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.mesh import replicated
from lsar_jax.objectives.disentangle import Heads, Objective
from train.checkpoint import Checkpoints
from train.heads import Pairs, epoch_order, init, run, validate

__all__ = ["Progress", "Settings", "Trained", "check_sizes", "train"]


@dataclass(frozen=True)
class Settings:
    """How to train.

    Attributes:
      objective: the losses.
      seeds: of initial weights, order and draws, one run each.
      learning_rate: of Adam.
      batch: pairs of a step.
      epochs: at most.
      patience: epochs without a lower validation loss until a seed stops.
      steps_per_call: steps of one program, and of one line of the log.
      checkpoint_seconds: between checkpoints.
    """

    objective: Objective
    seeds: tuple[int, ...] = (0,)
    learning_rate: float = 1e-5
    batch: int = 512
    epochs: int = 10_000
    patience: int = 10
    steps_per_call: int = 100
    checkpoint_seconds: float = 30.0


@dataclass
class Progress:
    """Where a run is; lists have one entry a seed.

    Attributes:
      epoch: the current one, from 0.
      step: of this epoch, steps that were taken.
      taken: steps of all epochs.
      lines: of the log.
      best: lowest validation loss.
      best_epoch: when it was.
      waited: epochs since then.
      active: which seeds go on.
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
    def start(cls, seeds: int) -> "Progress":
        """Returns the position before the first step."""
        return cls(best=[float("inf")] * seeds, best_epoch=[-1] * seeds, waited=[0] * seeds, active=[True] * seeds)


@dataclass(frozen=True)
class Trained:
    """The end of a run.

    Attributes:
      heads: the best of each seed, with an axis of seeds before their own.
      progress: where it ended.
      steps_per_second: of this call, all that was taken by its time; 0 where there was nothing left to do.
    """

    heads: Heads
    progress: Progress
    steps_per_second: float


def train(
    settings: Settings,
    pairs: Pairs,
    validation: Pairs,
    languages: int,
    folder: Path,
    mesh: jax.sharding.Mesh,
    show: Callable[[str], None] = lambda line: None,
) -> Trained:
    """Trains until every seed has stopped, from the last checkpoint if there is one.

    Args:
      settings: how.
      pairs: to train on, at least one batch.
      validation: pairs of the same table, to choose the best epoch by.
      languages: how many there are, English included.
      folder: of ``log.jsonl`` and ``checkpoints``.
      mesh: devices that share each batch.
      show: is given a line after every epoch, and every call of a program.

    Raises:
      ValueError: what ``check_sizes`` refuses, more epochs taken than ``settings`` has, or a loss that is not finite:
        the term, seed, epoch and step are named.
    """
    size = check_sizes(settings, len(pairs.source), len(validation.source), mesh)
    everywhere = replicated(mesh)
    table = jax.device_put(pairs.table, everywhere)
    # Both are rows of one table, which is on the devices once.
    rows = jax.device_put((pairs[1:], validation[1:]), everywhere)
    pairs, validation = Pairs(table, *rows[0]), Pairs(table, *rows[1])
    state, keys = init(settings.seeds, pairs.table.shape[1], languages, settings.learning_rate)
    state, keys = jax.device_put((state, keys), everywhere)
    best, progress = jax.tree.map(jnp.copy, state.heads), Progress.start(len(settings.seeds))
    shared: dict[str, Any] = {"objective": settings.objective, "mesh": mesh}
    with ExitStack() as stack:
        checkpoints = stack.enter_context(Checkpoints(folder / "checkpoints"))
        like = {"state": state, "best": best, "key": jax.random.key_data(keys)}
        if (found := checkpoints.restore(like)) is not None:
            arrays, position = found
            state, best, progress = arrays["state"], arrays["best"], Progress(**position)
            keys = jax.random.wrap_key_data(arrays["key"])
            if progress.epoch > settings.epochs:
                raise ValueError(f"{folder} has had {progress.epoch} epochs; --epochs is {settings.epochs}")
            show(f"going on after epoch {progress.epoch}, step {progress.step}")
        log = _Log(folder / "log.jsonl", progress.lines)
        stack.callback(log.close)
        started, before, saved = time.perf_counter(), progress.taken, time.perf_counter()
        validated = ""

        def save() -> None:
            progress.lines = log.lines
            arrays = {"state": state, "best": best, "key": jax.random.key_data(keys)}
            checkpoints.save(progress.taken, arrays, asdict(progress))

        while any(progress.active) and progress.epoch < settings.epochs:
            order = epoch_order(keys, progress.epoch, len(pairs.source), settings.batch)
            while progress.step < order.shape[1]:
                chunk = order[:, progress.step : progress.step + settings.steps_per_call]
                active = jnp.asarray(progress.active)
                clock = time.perf_counter()
                state, terms = run(
                    state, pairs, chunk, keys, progress.epoch, progress.step, active,
                    learning_rate=settings.learning_rate, **shared,
                )  # fmt: skip
                losses = {name: np.asarray(values) for name, values in terms.items()}
                _check(losses, settings, progress)
                speed = chunk.shape[1] / (time.perf_counter() - clock)
                progress.step += chunk.shape[1]
                progress.taken += chunk.shape[1]
                means = {name: values.mean(axis=1).tolist() for name, values in losses.items()}
                log.write("train", progress, means, speed)
                show(_line(progress, means, speed) + validated)
                if time.perf_counter() - saved > settings.checkpoint_seconds:
                    save()
                    saved = time.perf_counter()
            values = validate(state, validation, keys, size=size, **shared)
            terms = {name: np.asarray(value)[:, None] for name, value in values.items()}
            _check(terms, settings, progress)
            means = {name: value[:, 0].tolist() for name, value in terms.items()}
            log.write("validation", progress, means, None)
            totals = np.sum(list(means.values()), axis=0)
            better = np.array(progress.active) & (totals < np.array(progress.best))
            best = _keep(jnp.asarray(better), state.heads, best)
            _after_epoch(progress, better, totals, settings.patience)
            validated = f"; validation of epoch {progress.epoch - 1}: " + ", ".join(f"{one:.4f}" for one in totals)
            show(validated[2:])
        save()
    seconds = time.perf_counter() - started
    return Trained(best, progress, (progress.taken - before) / seconds)


def check_sizes(settings: Settings, pairs: int, validation: int, mesh: jax.sharding.Mesh) -> int:
    """Returns the size of a batch to validate on.

    Args:
      settings: its batch.
      pairs: how many there are to train on.
      validation: how many to validate on.
      mesh: devices that share each batch.

    Raises:
      ValueError: fewer pairs than a batch, a batch that the devices cannot share, or batches too small for the losses.
    """
    if settings.batch < 2 or settings.batch % mesh.size:
        raise ValueError(f"--batch is {settings.batch}; it must be at least 2 and a multiple of {mesh.size} devices")
    if pairs < settings.batch:
        raise ValueError(f"there are {pairs} pairs to train on; --batch is {settings.batch}")
    if validation < 2:
        raise ValueError(f"there is {validation} pair to validate on; at least 2 are needed")
    # Equal batches that leave out as few as can be, whatever the devices.
    size = validation // -(-validation // settings.batch)
    least = 4 if settings.objective.halves else 2
    if min(size, settings.batch) < least:
        raise ValueError(
            f"{validation} pairs to validate on are batches of {size}, and --batch is {settings.batch}; "
            f"{settings.objective.name} needs at least {least} of each"
        )
    return size


class _Log:
    """JSON lines, cut back to those that a checkpoint knows."""

    def __init__(self, path: Path, lines: int) -> None:
        kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines] if path.is_file() else []
        if len(kept) < lines:
            raise ValueError(
                f"{path} has {len(kept)} lines, and the last checkpoint knows of {lines}; choose another --out"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text("".join(kept), encoding="utf-8")
        partial.replace(path)
        self.lines = len(kept)
        self._file = path.open("a", encoding="utf-8")

    def write(
        self, event: str, progress: Progress, terms: Mapping[str, Sequence[float]], steps_per_second: float | None
    ) -> None:
        """Writes the terms of each seed, and their sum without the discriminator's, which the heads do not see."""
        loss = np.sum([values for name, values in terms.items() if name != "discriminator"], axis=0).tolist()
        line = {"event": event, "epoch": progress.epoch, "step": progress.step, "loss": loss, "terms": dict(terms)}
        if steps_per_second is not None:
            line["steps_per_second"] = round(steps_per_second, 1)
        self._file.write(json.dumps(line | {"active": progress.active}) + "\n")
        self._file.flush()
        self.lines += 1

    def close(self) -> None:
        self._file.close()


def _check(losses: Mapping[str, Float[np.ndarray, "seed step"]], settings: Settings, progress: Progress) -> None:
    active = np.array(progress.active)[:, None]
    bad = {name: ~np.isfinite(values) & active for name, values in losses.items()}
    steps = {name: int(np.argmax(where.any(axis=0))) for name, where in bad.items() if where.any()}
    if not steps:
        return
    name = min(steps, key=lambda name: steps[name])
    step = steps[name]
    seed = int(np.argmax(bad[name][:, step]))
    raise ValueError(
        f"the loss term {name} is {losses[name][seed, step]} at epoch {progress.epoch}, step {progress.step + step}, "
        f"seed {settings.seeds[seed]}; lower --learning-rate (it is {settings.learning_rate}), or look for "
        "embeddings that are not finite"
    )


@jax.jit
def _keep(better: Array, heads: Heads, best: Heads) -> Heads:
    return jax.tree.map(lambda new, old: jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old), heads, best)


def _after_epoch(progress: Progress, better: np.ndarray, totals: Float[np.ndarray, " seed"], patience: int) -> None:
    for seed, active in enumerate(progress.active):
        if better[seed]:
            progress.best[seed], progress.best_epoch[seed] = float(totals[seed]), progress.epoch
            progress.waited[seed] = 0
        elif active:
            progress.waited[seed] += 1
            progress.active[seed] = progress.waited[seed] < patience
    progress.epoch += 1
    progress.step = 0


def _line(progress: Progress, means: Mapping[str, Sequence[float]], speed: float) -> str:
    terms = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in means.items())
    going = f"{sum(progress.active)} of {len(progress.active)} seeds, " if len(progress.active) > 1 else ""
    best = f"best validation {np.mean(progress.best):.4f}, " if np.isfinite(progress.best).all() else ""
    return f"epoch {progress.epoch}, step {progress.step}: {going}{best}{terms}; {speed:.0f} steps/s"
