"""How a call of the library ended, and small inputs."""

from tests.conftest import TINY  # before jax, whose devices it sets

# isort: split
import contextlib
import io
from functools import cache

import numpy as np

import lsar_jax as lj
from lsar_jax.__main__ import main as lsar_jax

CODES, DIM = ("de", "en", "zh"), 8
TEXT = ("--encoder", TINY, "--layer", "1")
# Parts of other libraries' messages, which do not say what to do.
FOREIGN = ("broadcast", "has no attribute", "unpack", "list index", "Incompatible shapes", "pickle", "unsafe")


class Broke(Exception):
    """The library did what it must not."""


class Refused(Exception):
    """The library refused the input in its own words."""


class Killed(BaseException):
    """A job was stopped."""


def expect(right, what):
    if not right:
        raise Broke(what)


def allowed(call, *names):
    """Returns what a call returns; Refused for a clear error, which has one of ``names`` if there are any."""
    try:
        return call()
    except (ValueError, TypeError, OSError) as error:
        text = str(error)
        # Another library's subclasses, such as UnicodeDecodeError, are not in our words.
        clear = isinstance(error, OSError) or type(error).__module__.startswith("lsar_jax")
        clear = clear or type(error) in (ValueError, TypeError)
        clear = clear and 0 < len(text.splitlines()) < 24 and not any(part in text for part in FOREIGN)
        expect(clear and any(name in text for name in names or [""]), f"{type(error).__name__}: {text}")
        raise Refused(text) from error


def command(*words, names=()):
    """Runs ``lsar-jax``; Refused if it ends with one line of error."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        try:
            status = lsar_jax([str(word) for word in words])
        except SystemExit as end:
            raise Refused from end
    error = printed.getvalue()
    expect(not status or (error.startswith("error: ") and error.count("\n") == 1), f"not one line of error: {error}")
    allowed(lambda: failed(ValueError(error)) if status else None, *names)


def failed(error):
    raise error


@cache
def tiny():
    return lj.load_encoder(TINY, layer=1)


def close(x, y, atol=1e-3):
    return np.shape(x) == np.shape(y) and np.allclose(np.asarray(x, float), np.asarray(y, float), rtol=atol, atol=atol)


def drawn(rng, items):
    return list(items)[rng.integers(len(items))]


def texts(rng, count):
    return [f"{word} {' '.join(str(row))}" for row, word in enumerate(rng.choice(list("abcdefgh"), count))]


def vectors(rng, count=24):
    return {code: rng.standard_normal((count, DIM)).astype("f4") + place for place, code in enumerate(CODES)}
