"""Options whose default depends on other options: None until it is filled in."""

from dataclasses import replace
from typing import Any, TypeVar

__all__ = ["filled", "known"]

T = TypeVar("T")


def filled(options: Any, **defaults: Any) -> Any:
    """Returns a dataclass of options with these defaults in place of options that are None."""
    return replace(options, **{name: value for name, value in defaults.items() if getattr(options, name) is None})


def known(value: T | None) -> T:
    """Returns an option that ``filled`` has filled in."""
    assert value is not None
    return value
