"""Language families for colouring figures; large families are split into branches."""

from collections.abc import Iterable
from pathlib import Path

from lsar_jax.files import read_json

__all__ = ["families_of", "family"]

_FAMILIES = read_json(Path(__file__).with_suffix(".json"), dict)
_BY_CODE = {code: name for name, codes in _FAMILIES.items() for code in codes.split()}


def family(code: str) -> str:
    """The family of a BCP 47 code, ignoring its script; ``other`` if it is unknown."""
    return _BY_CODE.get(code.partition("-")[0], "other")


def families_of(codes: Iterable[str]) -> list[str]:
    """The families of the codes in alphabetical order, ``other`` last."""
    return sorted({family(code) for code in codes}, key=lambda name: (name == "other", name))
