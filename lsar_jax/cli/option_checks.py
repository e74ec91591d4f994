"""Checks of options that several commands share."""

from typing import TypeVar

__all__ = ["at_least", "known"]

T = TypeVar("T")


def at_least(least: int | float, **options: int | float) -> None:
    """Raises ValueError if an option is below ``least`` or not a number."""
    for name, value in options.items():
        if not value >= least:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least {least}")


def known(value: T | None) -> T:
    """Returns an option that ``complete`` has filled in."""
    assert value is not None
    return value
