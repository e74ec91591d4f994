"""Limits of the options of a fit, which stand at its arguments: ``rank: Annotated[int, RANK]``.

A limit may depend on the number of languages, on their width and on other options. So the fit checks it, and a command
can do the same before any text is encoded (``FitMethod.check``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lsar_jax.checks import positive_number, whole_number

__all__ = ["DIMENSIONS", "SEED", "Limit", "check_rank", "positive", "share_of"]


@dataclass(frozen=True)
class Limit:
    """The range of whole numbers that an option may have.

    Attributes:
      least: smallest value.
      most: largest value; or a function that returns it, given ``languages`` (their number), ``dim`` and the other
        options by name.
      why: reason for the range, for the error; it may quote ``{languages}``, ``{dim}`` and other options.
    """

    least: int
    most: int | Callable[..., int]
    why: str

    def __call__(self, name: str, value: object, **given: Any) -> int:
        """Returns the value; raises ValueError unless it is a whole number in the range."""
        most = self.most if isinstance(self.most, int) else self.most(**given)
        return whole_number(name, value, self.least, most, self.why.format_map(given))


def positive(name: str, value: object, **_: Any) -> float:
    """Returns the value; raises ValueError unless it is a positive, finite number."""
    return positive_number(name, value)


def share_of(name: str, value: object, **_: Any) -> float:
    """Returns the value; raises ValueError unless it is a share, above 0 and at most 1."""
    return positive_number(name, value, share=True)


def check_rank(name: str, value: int, found: int, of: str) -> None:
    """Raises ValueError if more directions are to be removed than there are; others are rounding."""
    if value > found:
        raise ValueError(f"{name} is {value}, but {of} {found} dimensions")


SEED = Limit(0, (1 << 32) - 1, "32 bits")
DIMENSIONS = Limit(1, lambda dim, **_: dim, "the dimensions")
