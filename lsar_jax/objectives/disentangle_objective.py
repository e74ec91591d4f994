"""Which losses of DREAM, MEAT and ORACLE are summed; ``lsar_jax.objectives.disentangle`` has the losses themselves."""

from dataclasses import dataclass, fields
from typing import Literal

__all__ = ["ALONE", "Base", "ClusterPairs", "Objective", "Separation"]

Base = Literal["dream", "meat", "none"]
Separation = Literal["paper", "code", "alone"]
ClusterPairs = Literal["off_diagonal", "all", "same_language"]


@dataclass(frozen=True)
class Objective:
    """The losses that are summed, all with weight 1.

    Attributes:
      base: dream, meat, or none for ORACLE alone.
      oracle: whether to add ORACLE's clustering and separation.
      separation: what ORACLE separates: with paper, meaning embeddings from language embeddings (Eq. 6); with code, the
        language embedding of a sentence from that of its translation; with alone, both, as in the stand-alone
        objectives of its code, which also pull the meanings of translations together by a term named agreement.
      clustering: pairs of sentences in a batch to pull together: off_diagonal, all except a sentence with itself, as in
        the paper; all, as in its code; or same_language, those with the same target language.
      without: names of terms to leave out, for ablations.
      halves: whether DREAM compares the first half of a batch with the second, as ORACLE's code does, instead of
        comparing each pair with one of any language and one of the same languages.

    Raises:
      ValueError: a term is unknown, no term is left, or an option does not apply to this objective.

    Example:
      >>> from lsar_jax.objectives.disentangle import Objective
      >>> meat = Objective("meat", oracle=False)
      >>> meat.name, meat.terms
      ('meat', ('reconstruction', 'cross_reconstruction', 'language', 'adversarial'))
      >>> Objective("dream", separation="code", without=("language",)).name
      'dream + oracle (code) - language'
    """

    base: Base = "meat"
    oracle: bool = True
    separation: Separation = "paper"
    clustering: ClusterPairs = "off_diagonal"
    without: tuple[str, ...] = ()
    halves: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (
            ("base", self.base, tuple(_TERMS)),
            ("separation", self.separation, ("paper", "code", "alone")),
            ("clustering", self.clustering, ("off_diagonal", "all", "same_language")),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}; choose one of {', '.join(known)}")
        if not self.oracle and (self.separation, self.clustering) != ("paper", "off_diagonal"):
            raise ValueError("separation and clustering apply only to ORACLE; add oracle, or leave them out")
        if self.halves and self.base != "dream":
            raise ValueError("halves applies only to DREAM; leave it out")
        for name in self.without:
            if name not in self._every:
                raise ValueError(f"without is {name!r}; the terms are {', '.join(self._every) or 'none'}")
        if not self.terms:
            raise ValueError("no term is left; choose a base or add oracle, and keep at least one of their terms")

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms that are summed."""
        return tuple(name for name in self._every if name not in self.without)

    @property
    def _every(self) -> tuple[str, ...]:
        """The names of the terms from which some may be left out."""
        oracle = (*_ORACLE, *(("agreement",) if self.separation == "alone" else ()))
        return (*_TERMS[self.base], *(oracle if self.oracle else ()))

    @property
    def adversarial(self) -> bool:
        """Whether a discriminator is trained in turns with the heads."""
        return "adversarial" in self.terms

    @property
    def name(self) -> str:
        """The name of the objective in tables and files."""
        if names := [name for name, objective in ALONE.items() if _same(objective, self)]:
            return f"oracle {names[0]}"
        parts: list[str] = [] if self.base == "none" else [self.base + (" (halves)" if self.halves else "")]
        if self.oracle:
            shown = self.separation if "separation" not in self.without else "no separation"
            parts.append(f"oracle ({shown}{'' if self.clustering == 'off_diagonal' else f', {self.clustering}'})")
        left = [name for name in self.without if name != "separation"]
        return " + ".join(parts) + "".join(f" - {name}" for name in left)


_TERMS: dict[Base, tuple[str, ...]] = {
    "dream": ("meaning", "reconstruction", "language", "identification"),
    "meat": ("reconstruction", "cross_reconstruction", "language", "adversarial"),
    "none": (),
}
_ORACLE = ("clustering", "separation")
_PARTLY = ("reconstruction", "identification")

# The stand-alone objectives of ORACLE's released code, by the names of its classes; none of its configurations uses
# them, and weights of 1 are ours. All of them train the head of meaning: the first by agreement alone, the fourth with
# MEAT's adversarial term, the others with DREAM's term of meaning.
ALONE = {
    "alone1": Objective("none", True, "alone", "all"),
    "alone2": Objective("dream", True, "alone", "all", (*_PARTLY, "language", "clustering", "agreement"), halves=True),
    "alone3": Objective("dream", True, "alone", "all", (*_PARTLY, "clustering", "agreement"), halves=True),
    "alone4": Objective("meat", True, "alone", "all", ("reconstruction", "cross_reconstruction", "language")),
    "alone5": Objective("dream", True, "alone", "all", _PARTLY, halves=True),
}


def _same(one: Objective, other: Objective) -> bool:
    """Whether two objectives are equal, although one may have further options, of the command line."""
    values = [[getattr(each, field.name) for field in fields(Objective)] for each in (one, other)]
    values = [[set(value) if isinstance(value, tuple) else value for value in each] for each in values]
    return values[0] == values[1]
