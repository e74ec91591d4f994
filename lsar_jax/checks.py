"""Checks of arguments that several rooms share."""

import math
import numbers
import operator

__all__ = ["positive_number", "whole_number"]


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
