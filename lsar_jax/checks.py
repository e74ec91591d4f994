"""Checks of arguments that several rooms share."""

import operator

__all__ = ["whole_number"]


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
