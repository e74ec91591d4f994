"""Argument checks shared by several packages."""

import math
import numbers
import operator

import numpy as np
from jaxtyping import Int

from lsar_jax.shapes import AnyArray

__all__ = ["as_float", "check_flags", "positive_number", "shown", "whole_number", "whole_numbers"]


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
        raise ValueError(f"{name} is {shown(value)}; it must be a whole number from {least} to {most} ({why})")
    return number


def check_flags(**flags: object) -> None:
    """Raises ValueError if an option, given by its name, is not a bool."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool):
            raise ValueError(f"{name} is {shown(value)}; it must be True or False")


def positive_number(name: str, value: object) -> float:
    """Returns ``value`` as a float; raises ValueError unless it is a positive, finite number."""
    number = as_float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} is {shown(value)}; it must be a positive, finite number")
    return number


def as_float(value: object) -> float:
    """Returns a number as a float; NaN for what is none, as bools are, or is an int that is too large for a float."""
    try:
        return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def shown(value: object) -> str:
    """Returns the first characters of a value as Python writes it, for errors."""
    try:
        return f"{value!r:.80}"
    except ValueError:  # Python does not write ints of thousands of digits
        return "an int of thousands of digits"


def whole_numbers(
    name: str, x: Int[AnyArray, " row"], count: int, least: int | None = None, most: int | None = None
) -> Int[np.ndarray, " row"]:
    """Returns ``x`` as int64; raises ValueError unless it holds ``count`` whole numbers in range."""
    numbers = np.asarray(x)
    if numbers.shape != (count,) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(f"{name} has shape {numbers.shape} and type {numbers.dtype}; expected {count} whole numbers")
    for bad in (least is not None and numbers < least, most is not None and numbers > most):
        if np.any(bad):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"{name} holds {numbers[np.argmax(bad)]}; it must be {limits}")
    return numbers.astype(np.int64)
