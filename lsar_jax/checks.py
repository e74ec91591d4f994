"""Checks of arguments that several rooms share."""

import math
import numbers
import operator

import numpy as np
from jaxtyping import Int

from lsar_jax.shapes import AnyArray

__all__ = ["positive_number", "whole_number", "whole_numbers"]


def whole_number(name: str, value: object, least: int, most: int, why: str) -> int:
    """Returns ``value`` as an int if it is a whole number in range.

    Args:
      name: of the argument.
      value: an int or numpy integer; a bool, a float or a string is none.
      least: the smallest allowed.
      most: the largest allowed.
      why: where the range comes from, for the error.

    Raises:
      ValueError: it is not.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} to {most} ({why})")
    return number


def positive_number(name: str, value: object) -> float:
    """Returns ``value`` as a float if it is a finite number over 0.

    Args:
      name: of the argument.
      value: an int or float, or numpy's.

    Raises:
      ValueError: it is not.
    """
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{name} is {value!r}; it must be a number over 0")
    return number


def whole_numbers(
    name: str, x: Int[AnyArray, " row"], count: int, least: int | None = None, most: int | None = None
) -> Int[np.ndarray, " row"]:
    """Returns ``x`` as int64 if it holds ``count`` whole numbers in range.

    Raises:
      ValueError: it does not.
    """
    numbers = np.asarray(x)
    if numbers.shape != (count,) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(f"{name} has shape {numbers.shape} and type {numbers.dtype}; expected {count} whole numbers")
    for bad in (least is not None and numbers < least, most is not None and numbers > most):
        if np.any(bad):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"{name} holds {numbers[np.argmax(bad)]}; it must be {limits}")
    return numbers.astype(np.int64)
