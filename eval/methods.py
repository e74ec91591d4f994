"""The transforms that an evaluation compares, all fitted on the same embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro
from jaxtyping import Float

from lsar_jax import EncoderSpec, Moments, Transform, pool_moments
from lsar_jax.languages import code_or_none, language_code
from lsar_jax.transforms.methods import METHODS

__all__ = ["ALL_METHODS", "Method", "MethodName", "check_methods", "fit_methods", "label", "saved_method"]

if TYPE_CHECKING:
    MethodName = str
else:  # a Literal of the known names, so that the command line lists and checks them
    MethodName = tyro.extras.literal_type_from_choices(["original", *METHODS])

# The original embeddings and every method, except ``mean``, which alone removes nothing that differs between languages,
# and ``lsar-published``, which is ``lsar`` at the default rank.
ALL_METHODS = ("original", *(name for name in METHODS if name not in ("mean", "lsar-published")))


@dataclass(frozen=True)
class Method:
    """A fitted transform and its name in tables.

    Attributes:
      name: name of the method.
      parameters: arguments of the method.
      transform: the fitted transform; None leaves the embeddings unchanged.
    """

    name: str
    parameters: dict[str, int | float | str]
    transform: Transform | None

    @property
    def label(self) -> str:
        """The name in tables."""
        return label(self.name, self.parameters)

    @property
    def seed(self) -> int | None:
        """The seed of the fit; None if the fit is deterministic."""
        return None if (seed := self.parameters.get("seed")) is None else int(seed)

    @property
    def source(self) -> EncoderSpec | None:
        """The spec of the embeddings that the transform was fitted on; None if there is none."""
        return None if self.transform is None else self.transform.source

    def takes(self, language: str) -> bool:
        """Whether embeddings of a language can be transformed."""
        if self.transform is None or self.transform.languages is None:
            return True
        return language_code(language) in map(code_or_none, self.transform.languages)

    def __call__(
        self, x: Float[np.ndarray, "vector dim"], language: str | Sequence[str]
    ) -> Float[np.ndarray, "vector dim"]:
        """Applies the method to embeddings.

        Args:
          x: embeddings.
          language: one code for all rows, or one code per row.
        """
        return x if self.transform is None else np.asarray(self.transform(x, language))


def check_methods(names: Sequence[str], varied: Mapping[str, Sequence[int]], languages: int, dim: int) -> None:
    """Checks, before anything is encoded, that methods can be fitted with their options.

    Args:
      names: ``original`` or names of ``METHODS``.
      varied: option -> the values that methods with this option are fitted with.
      languages: number of languages to fit on.
      dim: width of the embeddings.

    Raises:
      ValueError: a value is out of range.
    """
    for method in (METHODS[name] for name in names if name != "original"):
        for value in varied.get(method.varied, ()):
            method.check_options({method.varied: value}, languages, dim)


def fit_methods(
    x: Mapping[str, Float[np.ndarray, "_ dim"]],
    names: Sequence[str],
    *,
    ranks: Sequence[int] = (),
    components: Sequence[int] = (1,),
    seeds: Sequence[int] = (0,),
    source: EncoderSpec,
) -> list[Method]:
    """Fits each method from shared moments, or from the embeddings if it needs them.

    Args:
      x: language -> embeddings to fit on.
      names: ``original`` or names of ``METHODS``, in table order.
      ranks: ranks of LSAR, one fit each; if empty, one less than the number of languages.
      components: components of LIR, one fit each.
      seeds: seeds of CBIE, one fit each.
      source: spec of the encoder that made the embeddings.
    """
    needs = {METHODS[name].needs for name in names if name != "original"}
    second = bool(needs & {"pooled", "languages"})
    moments = {code: Moments.from_embeddings(value, second_moment=second) for code, value in x.items()}
    given: dict[str, Any] = {"means": moments, "languages": moments, "embeddings": x}
    if "pooled" in needs:
        given["pooled"] = pool_moments(moments)
    varied: dict[str, Sequence[int | None]] = {"rank": ranks or (None,), "components": components, "seed": seeds}
    fitted: list[Method] = []
    for name in names:
        if name == "original":
            fitted.append(Method(name, {}, None))
            continue
        method = METHODS[name]
        for value in varied.get(method.varied, (None,)):
            options = {} if value is None else {method.varied: value}
            fitted.append(_named(name, method(given[method.needs], source=source, **options)))
    return fitted


def saved_method(transform: Transform) -> Method:
    """Wraps a saved transform as a method, named after its fits."""
    name = "+".join(fit.method for fit in transform.fits)
    return _named(f"saved {name}" if name in METHODS else name, transform)


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """Returns a method's name in tables, including its parameters."""
    return " ".join([name, *(f"{key}={value}" for key, value in parameters.items())])


def _named(name: str, transform: Transform) -> Method:
    parameters = {key: value for fit in transform.fits for key, value in fit.parameters if key != "per_language"}
    return Method(name, parameters, transform)
