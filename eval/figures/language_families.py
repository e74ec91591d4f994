"""Language families for colouring figures; large families are split into branches."""

from collections.abc import Iterable

__all__ = ["families_of", "family"]

_FAMILIES = {
    "Germanic": "af da de en is lb nl no sv yi",
    "Romance": "ca es fr gl it oc pt ro",
    "Slavic": "be bg bs cs hr mk pl ru sk sl sr uk",
    "Indo-Iranian": "as bn fa gu hi ku mr ne pa ps sd si tg ur",
    "Uralic": "et fi hu",
    "Turkic": "az ba kk ky tr tt ug uz",
    "Austronesian": "ceb id jv mg ms su tl",
    "Dravidian": "kn ml ta te",
    "Semitic": "am ar he mt",
    "Sino-Tibetan": "bo my zh",
    "Bantu": "rw sn sw xh zu",
}
_BY_CODE = {code: name for name, codes in _FAMILIES.items() for code in codes.split()}


def family(code: str) -> str:
    """The family of a BCP 47 code, ignoring its script; ``other`` if it is unknown."""
    return _BY_CODE.get(code.partition("-")[0], "other")


def families_of(codes: Iterable[str]) -> list[str]:
    """The families of the codes in alphabetical order, ``other`` last."""
    return sorted({family(code) for code in codes}, key=lambda name: (name == "other", name))
