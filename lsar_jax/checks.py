"""Checks of arguments and of options.

Arguments are checked one by one, and errors name them as in Python; ``at_least``, ``above_zero``, ``below_one``,
``check_option`` and ``check_seeds`` take options of a command line as keyword arguments, and errors name them as
``--batch-size``.
"""

import math
import numbers
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.shapes import AnyArray

__all__ = [
    "above_zero",
    "as_float",
    "at_least",
    "below_one",
    "check_choice",
    "check_flags",
    "check_option",
    "check_seeds",
    "errors_of",
    "finite_numbers",
    "from_frame",
    "positive_number",
    "whole_number",
    "whole_numbers",
]


@contextmanager
def errors_of(where: object, kind: type[Exception] = ValueError, *kinds: type[Exception]) -> Iterator[None]:
    """Raises, for an error of these kinds, a ValueError that begins with ``where``: a file, a line or a language."""
    try:
        yield
    except (kind, *kinds) as error:
        # The message of the others may be no more than a name.
        what = repr(error) if isinstance(error, LookupError | TypeError | AttributeError) else error
        what = f"there is no {error}" if isinstance(error, KeyError) else what
        raise ValueError(f"{where}: {what}") from error


def whole_number(name: str, value: object, least: int, most: int, why: str) -> int:
    """Returns ``value`` as an int; raises ValueError unless it is a whole number in range.

    Args:
      name: name of the argument.
      value: an int or a numpy integer; bools, floats and strings are refused.
      least: smallest value allowed.
      most: largest value allowed.
      why: reason for the range, quoted in the error.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ValueError(f"{name} is {value!r:.80}; it must be a whole number from {least} to {most} ({why})")
    return number


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raises ValueError, with the choices, unless ``value`` is one of them."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} {value!r:.80} is not one of {', '.join(choices)}")


def check_flags(**flags: object) -> None:
    """Raises ValueError if an option, given by its name, is not a bool."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool):
            raise ValueError(f"{name} is {value!r:.80}; it must be True or False")


def positive_number(name: str, value: object, *, share: bool = False) -> float:
    """Returns ``value`` as a float; raises ValueError unless it is positive, and finite or, as a share, at most 1."""
    number = as_float(value)
    if not 0 < number < math.inf or (share and number > 1):
        kind = "a share, above 0 and at most 1" if share else "a positive, finite number"
        raise ValueError(f"{name} is {value!r:.80}; it must be {kind}")
    return number


def as_float(value: object) -> float:
    """Returns a number as a float; NaN for bools, non-numbers and ints beyond floats."""
    try:
        return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def whole_numbers(
    name: str,
    x: Int[AnyArray, "*shape"],
    shape: int | tuple[int | None, ...],
    least: int | None = None,
    most: int | None = None,
) -> Int[np.ndarray, "*shape"]:
    """Returns ``x`` as int64; raises ValueError unless it holds whole numbers in range, in this shape.

    ``shape`` is their number, or has the length of each axis; None is for any length of at least 1.
    """
    numbers, lengths = np.asarray(x), (shape,) if isinstance(shape, int) else shape
    fits = all(n == m or (m is None and n) for n, m in zip(numbers.shape, lengths, strict=False))
    if numbers.ndim != len(lengths) or not fits or not np.issubdtype(numbers.dtype, np.integer):
        wanted = " x ".join("any" if length is None else str(length) for length in lengths)
        raise ValueError(f"{name} has shape {numbers.shape} and type {numbers.dtype}; expected {wanted} whole numbers")
    for bad in (least is not None and numbers < least, most is not None and numbers > most):
        if np.any(bad):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"{name} holds {numbers.flat[np.argmax(bad)]}; it must be {limits}")
    return numbers.astype(np.int64)


def finite_numbers(name: str, x: AnyArray, axes: int = 1) -> Float[np.ndarray, "*shape"]:
    """Returns ``x`` as float64; raises ValueError unless it holds finite numbers, with as many axes."""
    numbers = np.asarray(x)
    if numbers.ndim != axes or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        raise ValueError(f"{name} has shape {numbers.shape} and type {numbers.dtype}, or a value that is not finite")
    return numbers.astype(np.float64)


def from_frame(x: Any) -> Any:
    """Returns a DataFrame as an array, with NaN in place of missing values; other values as they are."""
    array = x.to_numpy() if hasattr(x, "to_numpy") else x
    return x.to_numpy(float, na_value=np.nan) if array is not x and array.dtype.kind == "O" else array


def at_least(least: int | float, **options: int | float | None) -> None:
    """Raises ValueError if an option is given and is below ``least`` or NaN."""
    _check_options(lambda value: value >= least, f"at least {least}", options)


def above_zero(**options: int | float | None) -> None:
    """Raises ValueError if an option is given and is not above 0."""
    _check_options(lambda value: value > 0, "above 0", options)


def below_one(**options: int | float | None) -> None:
    """Raises ValueError if an option, a share, is given and is not from 0 to below 1."""
    _check_options(lambda value: 0 <= value < 1, "from 0 to below 1", options)


def check_option(is_right: bool, limit: str, **option: object) -> None:
    """Raises ValueError, which says what an option must be, if it is given and is not right."""
    _check_options(lambda _: is_right, limit, option)


def check_seeds(seeds: Iterable[int], name: str = "seed") -> None:
    """Raises ValueError if a random seed does not fit 32 bits."""
    for seed in seeds:
        _check_options(lambda value: 0 <= value < 2**32, f"from 0 to {2**32 - 1}", {name: seed})


def _check_options(is_right: Callable[[Any], bool], limit: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None and not is_right(value):
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be {limit}")
