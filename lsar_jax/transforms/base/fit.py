"""The record of how a step was fitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lsar_jax.languages import check_codes, code_or_none, language_code, own_name
from lsar_jax.moments.moments import Moments

__all__ = ["Fit"]


@dataclass(frozen=True)
class Fit:
    """How a step was fitted: the record that is saved with it.

    Attributes:
      method: ``center``, ``lir``, ``lsar``, ``whitening``, ...
      dim: the width of the embeddings.
      languages: the language of each row of the step's tables, in order; empty for a shared step.
      fitted_on: languages whose text was used, with the number of sentences of each.
      parameters: names and values of the method's arguments; with ``others``, a language whose row all languages use
        that are not in ``languages``.

    Example:
      >>> lsar = lj.transforms.fit_lsar({"de": np.ones((3, 4)), "en": np.eye(4)})
      >>> lsar.fits[0].fitted_on, str(lsar.fits[0])
      ((('de', 3), ('en', 4)), 'lsar(rank=1)')
    """

    method: str
    dim: int
    languages: tuple[str, ...]
    fitted_on: tuple[tuple[str, int], ...]
    parameters: tuple[tuple[str, int | float | str], ...] = ()

    @classmethod
    def of(
        cls, method: str, moments: Mapping[str, Moments], *, by_language: bool, **parameters: int | float | str
    ) -> "Fit":
        """Returns the record of a fit on ``moments``."""
        return cls(
            method=method,
            dim=next(iter(moments.values())).dim,
            languages=tuple(moments) if by_language else (),
            fitted_on=tuple((code, m.count) for code, m in moments.items()),
            parameters=tuple(parameters.items()),
        )

    def language_ids(self, language: str | Sequence[str] | None) -> np.ndarray:
        """Returns the row of the step's tables, int32 ``[]`` for one language or a shared step, or ``[n]``."""
        codes = [] if language is None else check_codes(language)
        if not self.languages:
            return np.zeros((), np.int32)
        if language is None:
            raise ValueError(f"{self} depends on the language; give one of {', '.join(self.languages)}")
        others, known = dict(self.parameters).get("others"), set(map(code_or_none, self.languages))
        named = {code: code if others is None or language_code(code) in known else others for code in set(codes)}
        rows = {code: self.languages.index(own_name(name, self.languages, str(self))) for code, name in named.items()}
        return np.array(rows[language] if isinstance(language, str) else [rows[code] for code in codes], np.int32)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.method}({arguments})"
