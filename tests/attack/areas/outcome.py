"""What an attack on the library may lead to, and what the attacks have in common."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import lsar_jax as lj
from tests.conftest import TINY

__all__ = ["CODES", "DIM", "SPEC", "Broke", "Random", "Refused", "at_most", "refused", "tiny", "vectors"]

Random = np.random.Generator

SPEC = lj.EncoderSpec("bundled", "sha256:0", 8, "mean", "float32")
CODES = ("de", "en", "zh")
DIM = 16
# What a user may get; anything else is a fault of the library.
REFUSED = (ValueError, OSError, ImportError)
# Parts of messages that other libraries raise, which do not say what to do.
_FOREIGN = ("could not be broadcast", "has no attribute", "unpack", "list index", "Incompatible shapes")


class Broke(Exception):
    """The library did what it must not."""


class Refused(Exception):
    """The attack was refused, as it should be."""


def refused(call: Callable[[], Any]) -> Any:
    """Returns the result of a call; raises Refused if it was refused in a few lines, and Broke if in many."""
    try:
        return call()
    except REFUSED as error:
        # Weights that do not fit their config are listed, up to 20.
        if (
            not str(error)
            or len(str(error).splitlines()) > 23
            or any(part in str(error) for part in _FOREIGN)
            or str(error).startswith("'utf-8' codec")
        ):
            raise Broke(f"an error of {len(str(error).splitlines())} lines: {str(error)[:300]}") from error
        raise Refused from error


def vectors(rng: Random, count: int = 30) -> dict[str, np.ndarray]:
    return {code: rng.standard_normal((count, DIM)).astype(np.float32) + i for i, code in enumerate(CODES)}


@cache
def tiny() -> lj.SentenceEncoder:
    """The encoder of the repository."""
    return lj.load_encoder(str(TINY))


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Breaks what takes longer than some seconds."""

    def late(*_: Any) -> None:
        raise Broke(f"it hangs for {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
