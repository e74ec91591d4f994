"""Batches come in their order, while several programs are compiled."""

import threading

import numpy as np
import pytest

from lsar_jax.encoders.dispatch import run_slots
from lsar_jax.tokens.buckets import Sentence, Slot


def slots_of(shapes):
    return [Slot([Sentence(number, np.zeros(1, np.int32))], *shape) for number, shape in enumerate(shapes)]


def test_every_batch_is_run_once_and_every_program_compiled_once(rng):
    slots = slots_of([(int(rows), 8) for rows in rng.integers(1, 6, 200)])
    in_threads, here = [], threading.current_thread()

    def call(slot):
        if threading.current_thread() is not here:
            in_threads.append(slot.rows)
        return slot.sentences[0].number

    known = {(1, 8)}
    results = list(run_slots(call, slots, known))
    assert [number for _, number in results] == list(range(200))
    assert all(slot.sentences[0].number == number for slot, number in results)
    assert sorted(in_threads) == [2, 3, 4, 5], "only the first batch of an unknown shape is run in a thread"
    assert known == {(rows, 8) for rows in range(1, 6)}


def test_several_programs_compile_at_a_time_and_not_too_many_batches_wait():
    """The first program is done only once the second has begun; the stream is not read to its end meanwhile."""
    begun, taken, read = threading.Event(), [], []

    def call(slot):
        if slot.rows == 3:
            begun.set()
        if slot.rows == 2 and slot.sentences[0].number == 0:
            assert begun.wait(20)
            read.append(len(taken))
        return slot.rows

    def stream():
        for slot in slots_of([(2, 8), (3, 8), *[(2, 8)] * 100]):
            taken.append(slot)
            yield slot

    assert [rows for _, rows in run_slots(call, stream(), set())] == [2, 3] + [2] * 100
    assert read[0] < 25


@pytest.mark.parametrize("at", [0, 3])
def test_an_error_ends_the_call(at):
    def call(slot):
        if slot.sentences[0].number == at:
            raise ValueError(f"batch {at}")
        return 0

    with pytest.raises(ValueError, match=f"batch {at}"):
        list(run_slots(call, slots_of([(1, 8), (2, 8), (1, 8), (1, 8), (3, 8)]), set()))
    assert not [one for one in threading.enumerate() if one.name.startswith("compile")]
