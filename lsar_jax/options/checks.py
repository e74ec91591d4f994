"""Checks of options that several commands share."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

__all__ = ["above_zero", "at_least", "below_one", "check_seeds", "filled", "known"]

T = TypeVar("T")


def at_least(least: int | float, **options: int | float | None) -> None:
    """Raises ValueError if an option is given and is below ``least`` or not a number."""
    for name, value in options.items():
        _check(value is None or value >= least, name, value, f"at least {least}")


def above_zero(**options: int | float | None) -> None:
    """Raises ValueError if an option is given and is not a number above 0."""
    for name, value in options.items():
        _check(value is None or value > 0, name, value, "above 0")


def below_one(**options: float | None) -> None:
    """Raises ValueError if an option, a share, is given and is not from 0 to below 1."""
    for name, value in options.items():
        _check(value is None or 0 <= value < 1, name, value, "from 0 to below 1")


def check_seeds(seeds: Iterable[int], name: str = "seed") -> None:
    """Raises ValueError if a random seed does not fit 32 bits."""
    for seed in seeds:
        _check(0 <= seed < 2**32, name, seed, f"from 0 to {2**32 - 1}")


def filled(options: Any, **defaults: Any) -> Any:
    """Returns a dataclass of options with these defaults in place of options that are None."""
    return replace(options, **{name: value for name, value in defaults.items() if getattr(options, name) is None})


def known(value: T | None) -> T:
    """Returns an option that ``filled`` has filled in."""
    assert value is not None
    return value


def _check(right: bool, name: str, value: Any, limit: str) -> None:
    if not right:
        raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be {limit}")
