"""What the programs of an alignment's step are compiled for, and what they give away."""

import jax
import numpy as np
import pytest

from lsar_jax.mesh import split
from tests.compilations import count_compilations
from tests.train.test_align_steps import KEY, programs
from train.align.batches import ChunkSizes, batch_of
from train.align.examples import Examples


@pytest.fixture(scope="module")
def examples():
    """Four pairs whose sentences have 23 tokens, and twelve of 7; all with two links."""
    rng = np.random.default_rng(0)
    lengths = [23] * 4 + [7] * 12
    source, target = ([rng.integers(5, 60, n).astype(np.int32) for n in lengths] for _ in range(2))
    links = [np.array([[1, 2], [3, 4]], np.int32)] * 16
    return Examples(source, target, links, np.zeros(16, np.int32), ("de",))


def test_another_combination_of_chunks_needs_no_other_programs(examples):
    made, (_, trained, _) = programs(2, objective="strong", stay_close_hidden=0.5)
    state = made.init(trained, KEY)
    shapes, counts = [], []
    for rows in ([0, 1, *range(4, 10)], range(16), [0, 1, *range(4, 16)]):
        batch = batch_of(examples, list(rows), ChunkSizes(96, 24, 2), 0)
        shapes.append([chunk.ids.shape for chunk in batch.chunks])
        with count_compilations() as compiled:
            state, _ = made.step(state, batch, KEY)
        counts.append(len(compiled))
    assert shapes == [[(4, 24), (12, 8)], [(4, 24)] * 2 + [(12, 8)] * 2, [(4, 24), (12, 8), (12, 8)]]
    assert counts[0] > 0
    assert counts[2] == 0


@pytest.mark.parametrize("cached", [False, True])
def test_sums_are_added_up_where_they_are_and_rows_stay_split(examples, cached):
    made, (_, trained, _) = programs(2, objective="strong", cached=cached)
    given, outputs = [], []

    def seen(run, kept, of):
        def wrapped(*arguments):
            result = run(*arguments)
            kept.append(of(arguments, result))
            return result

        return wrapped

    for name in ("_back", "_again"):
        setattr(made, name, seen(getattr(made, name), given, lambda arguments, _: arguments[0]))
    name = "_encode" if cached else "_encode_kept"
    setattr(made, name, seen(getattr(made, name), outputs, lambda _, result: result[0] if cached else result[0][0]))
    made.step(made.init(trained, KEY), batch_of(examples, range(16), ChunkSizes(96, 24, 2), 0), KEY)
    assert len(given) == len(outputs) == 4
    assert all(x.is_deleted() for x in jax.tree.leaves(given))
    for embedded in outputs:
        assert embedded.sharding.is_equivalent_to(split(made._mesh), 2)
