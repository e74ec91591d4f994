"""Batches come in their order, while several programs are compiled."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lsar_jax.encoders.dispatch import run_slots
from lsar_jax.tokens.buckets import Sentence, Slot


def slots_of(shapes):
    return [Slot([Sentence(number, np.zeros(1, np.int32))], shape) for number, shape in enumerate(shapes)]


def test_every_batch_is_run_once_and_every_program_compiled_once(rng):
    slots = slots_of([(int(rows), 8) for rows in rng.integers(1, 6, 200)])
    compiled, here = [], threading.current_thread()

    def call(slot):
        assert threading.current_thread() is here
        assert slot.shape in {(1, 8), *compiled}
        return slot.sentences[0].number

    def compile(shape):
        assert threading.current_thread() is not here
        compiled.append(shape)

    known = {(1, 8)}
    results = [(slot.sentences[0].number, number) for slot, number in run_slots(call, compile, slots, known)]
    assert results == [(number, number) for number in range(200)]
    assert sorted(compiled) == [(2, 8), (3, 8), (4, 8), (5, 8)]
    assert known == {(rows, 8) for rows in range(1, 6)}


def test_several_programs_compile_at_a_time_and_not_too_many_batches_wait():
    """The first program is done only once the second has begun; the stream is not read to its end meanwhile."""
    begun, taken, read = threading.Event(), [], []

    def compile(shape):
        if shape == (3, 8):
            begun.set()
        else:
            assert begun.wait(20)
            read.append(len(taken))

    def stream():
        for slot in slots_of([(2, 8), (3, 8), *[(2, 8)] * 100]):
            taken.append(slot)
            yield slot

    results = run_slots(lambda slot: slot.shape[0], compile, stream(), set())
    assert [rows for _, rows in results] == [2, 3] + [2] * 100
    assert read[0] < 25


def test_on_a_gpu_nothing_compiles_while_a_program_runs_for_the_first_time(monkeypatch):
    """In several calls at a time; and programs still compile in parallel."""
    monkeypatch.setattr("lsar_jax.encoders.dispatch._on_gpu", lambda: True)
    lock, compiling, running, most = threading.Lock(), [], [], []

    def compile(shape):
        with lock:
            compiling.append(shape)
            most.append(len(compiling))
        time.sleep(0.002)
        with lock:
            compiling.remove(shape)

    def run(number):
        known = set()

        def call(slot):
            if slot.shape not in known:
                running.append(slot)
                for _ in range(5):
                    assert not compiling
                    assert running == [slot]
                    time.sleep(0.0005)
                running.remove(slot)
            return slot.shape[0]

        rows = [number * 1000 + row for row in range(1, 25)] * 2
        return [value for _, value in run_slots(call, compile, slots_of([(row, 8) for row in rows]), known)] == rows

    with ThreadPoolExecutor(3) as calls:
        assert all(calls.map(run, range(3), timeout=60))
    assert max(most) > 1


@pytest.mark.parametrize("where", ["running", "compiling"])
@pytest.mark.parametrize("at", [0, 3])
def test_an_error_ends_the_call(at, where):
    slots = slots_of([(1, 8), (2, 8), (1, 8), (3, 8), (1, 8)])

    def call(slot):
        if where == "running" and slot.sentences[0].number == at:
            raise ValueError(f"batch {at}")

    def compile(shape):
        if where == "compiling" and shape == slots[at].shape:
            raise ValueError(f"batch {at}")

    with pytest.raises(ValueError, match=f"batch {at}"):
        list(run_slots(call, compile, slots, set()))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("compile")]
