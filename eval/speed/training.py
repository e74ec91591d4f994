"""Training speed compared with a plain PyTorch loop of the same objective, in the same run on the same kind of device.

    pip install torch
    python -m eval headsbench

The objective is MEAT with ORACLE as in its released code, on random embeddings, with the same initial weights and
batches. The PyTorch version is straightforward: a loop, losses from ``torch.nn.functional``, the cosines of all pairs
as a matrix, and two optimizers. The final losses of both are printed first. Two upper bounds on the speed are shown
too: one from the matrix products of the heads, forward and backward (``2 x 2 x 2n x d x 2d`` operations; the embeddings
need no gradient), at the measured rate of that product; the other from the bytes of the batch, read once, and of Adam's
reads and writes, at the speed of numpy's copy.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eval.speed.peer import import_torch
from eval.speed.timing import HERE, Measured, times
from lsar_jax.cli.console import console, print_table
from lsar_jax.objectives.disentangle import Objective

__all__ = ["HeadsBench"]

_LANGUAGES = 11


@dataclass(frozen=True)
class HeadsBench:
    """Measures steps per second of MEAT with ORACLE, here and in PyTorch.

    Attributes:
      dim: width of the embeddings.
      batch: number of pairs per step.
      pairs: number of pairs in the data.
      steps: number of steps per timed run.
      repeats: number of timed runs of each version, which take turns; the fastest counts.
      seeds: number of seeds that lsar_jax trains in parallel in a second measurement.
    """

    dim: int = 384
    batch: int = 512
    pairs: int = 50_000
    steps: int = 90
    repeats: int = 5
    seeds: int = 5

    def run(self) -> list[Measured]:
        """Times both versions, prints the table and returns the times."""
        if self.steps * self.batch > self.pairs:
            raise ValueError(
                f"--steps {self.steps} with --batch {self.batch} need more than one epoch of {self.pairs} pairs; raise "
                "--pairs"
            )
        from train.disentangle.steps import PairTable, epoch_order, init, run

        rng = np.random.default_rng(0)
        table = rng.standard_normal((2 * self.pairs, self.dim), np.float32)
        rows = np.array_split(np.arange(self.pairs), _LANGUAGES - 1)
        pairs = PairTable.of(jnp.asarray(table), [(part, part + self.pairs) for part in rows])
        objective, rate = Objective("meat", True, "code", "all"), 1e-4
        state, keys = init((0,), self.dim, _LANGUAGES, rate)
        order = np.asarray(epoch_order(keys, 0, self.pairs, self.batch))[:, : self.steps]
        peer = _Peer(table, np.asarray(pairs.language), state, rate)

        def ours(seeds: int) -> Callable[[], float]:
            state, keys = init(tuple(range(seeds)), self.dim, _LANGUAGES, rate)
            held = [state]
            chosen = jnp.asarray(np.repeat(order, seeds, axis=0))
            active = jnp.ones(seeds, bool)

            def call() -> float:
                held[0], terms = run(
                    held[0], pairs, chosen, keys, 0, 0, active,
                    objective=objective, learning_rate=rate, mesh=None,
                )  # fmt: skip
                return float(
                    sum(np.asarray(values)[0, -1] for name, values in terms.items() if name != "discriminator")
                )

            return call

        one, several = ours(1), ours(self.seeds)
        started = time.perf_counter()
        first = one()
        console.print(f"compiled and ran {self.steps} steps in {time.perf_counter() - started:.1f} s")
        theirs = peer.train(order[0])
        console.print(f"loss after {self.steps} steps: {first:.5f}, PyTorch {theirs:.5f}")
        several()
        seconds: dict[str, list[float]] = {HERE: [], f"{HERE}, {self.seeds} seeds": [], "PyTorch": []}
        for _ in range(self.repeats):
            for name, call in zip(seconds, (one, several, lambda: peer.train(order[0])), strict=True):
                seconds[name] += times(call, 1)
        best = {name: self.steps / min(values) for name, values in seconds.items()}
        best[f"{HERE}, {self.seeds} seeds"] *= self.seeds
        operations = 2 * 2 * (2 * self.batch) * self.dim * (2 * self.dim)
        bound = _product_rate(self.batch, self.dim) / operations
        parameters = 2 * self.dim * (self.dim + 1) + _LANGUAGES * (self.dim + 1)
        # Bytes of the batch, and per parameter: the gradient, and the value and both moments, read and written.
        read = 4 * (2 * self.batch * self.dim + 7 * parameters)
        speed = _copy_rate()
        console.print(
            f"{operations / 1e9:.2f} GFLOP per step: at most {bound:.0f} steps/s at the rate of this product; "
            f"{read / 1e6:.1f} MB per step: at most {speed / read:.0f} steps/s at {speed / 1e9:.1f} GB/s"
        )
        rows_of_table: list[list[str | float]] = [
            [name, value, value / best["PyTorch"], f"{100 * value / bound:.0f}%"] for name, value in best.items()
        ]
        title = f"MEAT with ORACLE, width {self.dim}, batch {self.batch}, {jax.devices()[0].device_kind}"
        print_table(title, ["", "steps/s", "x PyTorch", "% of matmul bound"], rows_of_table)
        case = f"MEAT with ORACLE, width {self.dim}"
        return [Measured(case, name, 1000 / value, "1000 steps", 100 * value / bound) for name, value in best.items()]


class _Peer:
    """The same objective as a plain PyTorch loop."""

    def __init__(self, table: np.ndarray, language: np.ndarray, state: Any, rate: float) -> None:
        self.torch, self.device = import_torch()
        torch = self.torch
        half = len(table) // 2
        self.source, self.target = (torch.from_numpy(x).to(self.device) for x in (table[:half], table[half:]))
        self.language = torch.from_numpy(language.astype(np.int64)).to(self.device)
        self.start = jax.device_get(state)
        self.rate = rate

    def train(self, order: np.ndarray) -> float:
        """Trains from scratch on the batches; returns the last loss of the heads."""
        torch = self.torch
        functional = torch.nn.functional
        meaning, language, probe = (self._linear(head) for head in (*self.start.heads, self.start.probe))
        heads = torch.optim.Adam([*meaning.parameters(), *language.parameters()], lr=self.rate)
        discriminator = torch.optim.Adam(probe.parameters(), lr=self.rate)
        n = order.shape[1]
        plus, minus = torch.ones(n, device=self.device), -torch.ones(n, device=self.device)
        english = torch.zeros(n, dtype=torch.int64, device=self.device)
        uniform = torch.full((n, _LANGUAGES), 1 / _LANGUAGES, device=self.device)
        loss = torch.zeros(())

        def every_cosine(x: Any) -> Any:
            unit = functional.normalize(x, dim=1)
            return unit @ unit.T

        for rows in torch.from_numpy(order.astype(np.int64)).to(self.device):
            s, t, labels = self.source[rows], self.target[rows], self.language[rows]
            guess = functional.cross_entropy(probe(meaning(s).detach()), english)
            guess = guess + functional.cross_entropy(probe(meaning(t).detach()), labels)
            discriminator.zero_grad()
            guess.backward()
            discriminator.step()
            sm, tm, sl, tl = meaning(s), meaning(t), language(s), language(t)
            cel = functional.cosine_embedding_loss
            loss = cel(sm + sl, s, plus) + cel(tm + tl, t, plus) + cel(sm + tl, t, plus) + cel(tm + sl, s, plus)
            loss = loss + cel(sl, tl, minus)
            loss = loss + functional.cross_entropy(probe(sm), uniform) + functional.cross_entropy(probe(tm), uniform)
            loss = loss + (2 - every_cosine(sl) - every_cosine(tl)).mean() + cel(sl, tl, minus)
            heads.zero_grad()
            loss.backward()
            heads.step()
        return float(loss.detach())

    def _linear(self, head: Any) -> Any:
        torch = self.torch
        matrix, offset = (torch.from_numpy(np.array(part[0])) for part in head)
        layer = torch.nn.Linear(matrix.shape[1], matrix.shape[0])
        with torch.no_grad():
            layer.weight.copy_(matrix)
            layer.bias.copy_(offset)
        return layer.to(self.device)


def _product_rate(batch: int, dim: int) -> float:
    """Returns the FLOP/s of the product of a batch with both heads."""
    x, w = jnp.ones((2 * batch, dim)), jnp.ones((dim, 2 * dim))
    product = jax.jit(lambda x, w: jnp.matmul(x, w, precision=jax.lax.Precision.HIGHEST))
    product(x, w).block_until_ready()
    return 2 * 2 * batch * dim * 2 * dim / min(times(lambda: product(x, w).block_until_ready(), 50))


def _copy_rate() -> float:
    """Returns the bytes per second that a copy reads."""
    x = np.ones(1 << 26, np.uint8)
    return x.nbytes / min(times(x.copy, 5))
