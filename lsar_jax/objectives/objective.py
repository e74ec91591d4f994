"""The choice of losses that train two heads: DREAM's or MEAT's, and ORACLE's, without some in ablations."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from lsar_jax.checks import check_choice
from lsar_jax.objectives.oracle import ClusterPairs, Separation

__all__ = ["ALONE", "Objective"]

Base = Literal["dream", "meat", "none"]

_TERMS: dict[Base, tuple[str, ...]] = {
    "dream": ("meaning", "reconstruction", "language", "identification"),
    "meat": ("reconstruction", "cross_reconstruction", "language", "adversarial"),
    "none": (),
}


@dataclass(frozen=True)
class Objective:
    """The losses that are summed, all with weight 1, but for ORACLE's if another is given.

    Attributes:
      base: dream, meat, or none for ORACLE alone.
      oracle: whether to add ORACLE's clustering and separation.
      separation: what ORACLE separates: with paper, meaning embeddings from language embeddings (Eq. 6); with code, the
        language embedding of a sentence from that of its translation; with alone, both, as in the stand-alone
        objectives of its code, with a term named agreement that pulls the meanings of translations together.
      clustering: pairs of sentences in a batch to pull together: off_diagonal, all except a sentence with itself, as in
        the paper; all, as in its code; or same_language, those with the same target language.
      without: names of terms to leave out, for ablations.
      halves: whether DREAM compares the first half of a batch with the second, as ORACLE's code does, instead of each
        pair with one of any language and one of the same languages.

    Raises:
      ValueError: a term is unknown, no term is left, or an option does not apply to this objective.

    Example:
      >>> from lsar_jax.objectives.disentangle import Objective
      >>> Objective("meat", oracle=False).terms
      ('reconstruction', 'cross_reconstruction', 'language', 'adversarial')
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
        for name, known in {"base": Base, "separation": Separation, "clustering": ClusterPairs}.items():
            check_choice(name, getattr(self, name), get_args(known))
        oracles = not self.oracle and (self.separation, self.clustering) != ("paper", "off_diagonal")
        if oracles or (self.halves and self.base != "dream"):
            unread = "separation and clustering apply only to ORACLE" if oracles else "halves applies only to DREAM"
            raise ValueError(f"{unread}; add it, or leave them out")
        if unknown := [name for name in self.without if name not in self._all_terms]:
            raise ValueError(f"without is {unknown[0]!r}; the terms are {', '.join(self._all_terms) or 'none'}")
        if not self.terms:
            raise ValueError("no term is left; choose a base or add oracle, and keep at least one of their terms")

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms that are summed."""
        return tuple(name for name in self._all_terms if name not in self.without)

    @property
    def _all_terms(self) -> tuple[str, ...]:
        """The names of the terms from which some may be left out."""
        oracle = ("clustering", "separation", *(("agreement",) if self.separation == "alone" else ()))
        return (*_TERMS[self.base], *(oracle if self.oracle else ()))

    @property
    def adversarial(self) -> bool:
        """Whether a discriminator is trained in turns with the heads."""
        return "adversarial" in self.terms

    @property
    def name(self) -> str:
        """The name of the objective in tables and files."""
        for name, alone in ALONE.items():
            if set(alone.without) == set(self.without) and alone == replace(self, without=alone.without):
                return f"oracle {name}"
        parts: list[str] = [] if self.base == "none" else [self.base + (" (halves)" if self.halves else "")]
        if self.oracle:
            shown = self.separation if "separation" not in self.without else "no separation"
            parts.append(f"oracle ({shown}{'' if self.clustering == 'off_diagonal' else f', {self.clustering}'})")
        left = [name for name in self.without if name != "separation"]
        return " + ".join(parts) + "".join(f" - {name}" for name in left)


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
