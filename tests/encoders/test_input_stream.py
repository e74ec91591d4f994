"""Text as a stream: it is tokenized ahead of the device, and let go once it is encoded."""

import threading

import numpy as np
import pytest

from lsar_jax.encoders import pipeline
from tests.encoders.test_sentence_encoder import texts


@pytest.mark.slow
def test_a_stream_is_not_held(tiny):
    """Sentences that were encoded are let go while the stream still runs."""

    class Text(str):
        alive = 0

        def __init__(self, _):
            Text.alive += 1

        def __del__(self):
            Text.alive -= 1

    most = 0

    def stream():
        nonlocal most
        for i in range(20_000):
            most = max(most, Text.alive)
            yield Text("abc" if i % 2 else "abcdefgh")

    assert tiny.encode(stream()).shape == (20_000, 32)
    assert Text.alive == 0
    # Five chunks of 2,048: three ahead, one with the encoder and one being read.
    assert most <= 10_240


def test_the_tokenizer_runs_ahead_of_a_stream(tiny, rng, monkeypatch):
    """Later chunks are tokenized, in another thread, before the first is encoded."""
    threads, events = set(), []
    tokenizer, run = tiny.tokenizer, pipeline.run_batch
    tokenize = type(tokenizer).__call__

    def tokenizing(self, *args):
        threads.add(threading.current_thread())
        events.append("tokens")
        return tokenize(self, *args)

    monkeypatch.setattr(type(tokenizer), "__call__", tokenizing)
    monkeypatch.setattr(pipeline, "run_batch", lambda *args: events.append("device") or run(*args))
    many = texts(rng, 10_000, 6)
    expected = tiny.encode(many)
    threads.clear()
    events.clear()
    np.testing.assert_array_equal(np.asarray(tiny.encode(iter(many), output="jax")), expected)
    assert threading.main_thread() not in threads
    assert events.count("tokens") == 5
    assert 1 <= events.index("device") < 5


def test_one_chunk_takes_no_thread(tiny, monkeypatch):
    expected = tiny.encode(["abc", "hij"])
    monkeypatch.setattr(threading.Thread, "start", None)
    np.testing.assert_array_equal(tiny.encode(["abc", "hij"]), expected)


def test_an_error_in_the_stream_reaches_the_caller_and_ends_the_threads(tiny, unchecked):
    def broken():
        yield from ["abc"] * 3000
        raise RuntimeError("the file ended early")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="the file ended early"):
        tiny.encode(broken())
    with pytest.raises(ValueError, match="sentence 9000 is of type int"):
        tiny.encode(["abc"] * 9000 + [5])
    assert threading.active_count() == before
