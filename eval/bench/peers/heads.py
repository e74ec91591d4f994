"""Training of heads beside a plain PyTorch loop of the same objective.

The objective is MEAT with ORACLE as in its released code, on random embeddings, with the same initial weights and
batches; PyTorch computes the cosines of all pairs as a matrix, and has two optimizers. The answer is the loss after the
steps of one call. The bound is the time of the matrix products of the heads, forward and backward (``2 x 2 x 2n x d x
2d`` operations; the embeddings need no gradient), at the measured rate of that product.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eval.bench.peers.timing import HERE, Timing, fastest, import_torch, product_rate
from lsar_jax.objectives.disentangle import Objective
from train.disentangle.steps import PairTable, epoch_order, init, run
from train.training_task import Steps

__all__ = ["heads"]

_LANGUAGES, _RATE = 11, 1e-4
_OBJECTIVE = Objective("meat", True, "code", "all")


def heads(
    dim: int = 384, batch: int = 512, pairs: int = 50_000, steps: int = 90, repeats: int = 5, seeds: int = 5
) -> Iterator[Timing]:
    """Times steps of MEAT with ORACLE, and of several seeds that lsar_jax trains in parallel."""
    table = np.random.default_rng(0).standard_normal((2 * pairs, dim), np.float32)
    rows = np.array_split(np.arange(pairs), _LANGUAGES - 1)
    data = PairTable.of(jnp.asarray(table), [(part, part + pairs) for part in rows])
    state, keys = init((0,), dim, _LANGUAGES, _RATE)
    order = np.asarray(epoch_order(keys, 0, pairs, batch))[:, :steps]
    several = f"{HERE}, {seeds} seeds"
    calls = {
        HERE: _ours(data, order, dim, 1),
        several: _ours(data, order, dim, seeds),
        "PyTorch": _torch(table, np.asarray(data.language), order[0], jax.device_get(state)),
    }
    seconds, losses = fastest(calls, repeats)
    needed = steps * 2 * 2 * (2 * batch) * dim * (2 * dim) / product_rate((2 * batch, dim, 2 * dim))
    for version, took in seconds.items():
        took /= seeds if version == several else 1
        case, answer = f"MEAT with ORACLE, width {dim}", f"loss {losses[version]:.5f}"
        yield Timing(case, version, 1000 * took / steps, "1000 steps", 100 * needed / took, answer)


def _ours(data: PairTable, order: np.ndarray, dim: int, seeds: int) -> Callable[[], float]:
    """Makes the call that trains for some steps, from where the call before it stopped, and returns the last loss."""
    state, keys = init(tuple(range(seeds)), dim, _LANGUAGES, _RATE)
    chosen, active = jnp.asarray(np.repeat(order, seeds, axis=0)), jnp.ones(seeds, bool)

    def call() -> float:
        nonlocal state
        options: Any = {"objective": _OBJECTIVE, "learning_rate": _RATE, "mesh": None}
        state, terms = run(state, data, Steps(chosen, 0, 0, active), keys, **options)
        return float(sum(np.asarray(values)[0, -1] for name, values in terms.items() if name != "discriminator"))

    return call


def _torch(table: np.ndarray, language: np.ndarray, order: np.ndarray, start: Any) -> Callable[[], float]:
    """Makes the call that trains from the start in PyTorch."""
    torch, device = import_torch()
    functional = torch.nn.functional
    cel = functional.cosine_embedding_loss
    source, target = (torch.from_numpy(x).to(device) for x in np.split(table, 2))
    languages, batches = (torch.from_numpy(x.astype(np.int64)).to(device) for x in (language, order))
    n = order.shape[1]
    plus, english = torch.ones(n, device=device), torch.zeros(n, dtype=torch.int64, device=device)
    uniform = torch.full((n, _LANGUAGES), 1 / _LANGUAGES, device=device)

    def linear(head: Any) -> Any:
        matrix, offset = (torch.from_numpy(np.array(part[0])) for part in head)
        layer = torch.nn.Linear(matrix.shape[1], matrix.shape[0])
        layer.load_state_dict({"weight": matrix, "bias": offset})
        return layer.to(device)

    def cosines(x: Any) -> Any:
        unit = functional.normalize(x, dim=1)
        return unit @ unit.T

    def call() -> float:
        meaning, language, probe = map(linear, (*start.heads, start.probe))
        adam = torch.optim.Adam([*meaning.parameters(), *language.parameters()], lr=_RATE)
        discriminator = torch.optim.Adam(probe.parameters(), lr=_RATE)
        for rows in batches:
            s, t = source[rows], target[rows]
            guess = functional.cross_entropy(probe(meaning(s).detach()), english)
            guess = guess + functional.cross_entropy(probe(meaning(t).detach()), languages[rows])
            discriminator.zero_grad()
            guess.backward()
            discriminator.step()
            sm, tm, sl, tl = meaning(s), meaning(t), language(s), language(t)
            loss = cel(sm + sl, s, plus) + cel(tm + tl, t, plus) + cel(sm + tl, t, plus) + cel(tm + sl, s, plus)
            loss = loss + 2 * cel(sl, tl, -plus) + (2 - cosines(sl) - cosines(tl)).mean()
            loss = loss + functional.cross_entropy(probe(sm), uniform) + functional.cross_entropy(probe(tm), uniform)
            adam.zero_grad()
            loss.backward()
            adam.step()
        return float(loss.detach())

    return call
