"""The transforms that an evaluation compares, fitted from one mapping of embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro
from jaxtyping import Float

from lsar_jax import EncoderSpec, Moments, Transform, pool_moments
from lsar_jax.transforms.methods import METHODS

__all__ = ["Method", "MethodName", "fit_methods", "label", "saved_method"]

if TYPE_CHECKING:
    MethodName = str
else:  # the names of the table, so that the command line lists and checks them
    MethodName = tyro.extras.literal_type_from_choices(["original", *METHODS])


@dataclass(frozen=True)
class Method:
    """A fitted transform with the name it has in tables.

    Attributes:
      name: the method.
      parameters: its arguments.
      transform: None for the embeddings as they are.
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
        """The seed of the fit; None if nothing is random."""
        return None if (seed := self.parameters.get("seed")) is None else int(seed)

    @property
    def source(self) -> EncoderSpec | None:
        """The embeddings that the transform was fitted on."""
        return None if self.transform is None else self.transform.source

    def __call__(
        self, x: Float[np.ndarray, "vector dim"], language: str | Sequence[str]
    ) -> Float[np.ndarray, "vector dim"]:
        """Returns the embeddings after the method.

        Args:
          x: embeddings.
          language: of all rows, or one for each.
        """
        return x if self.transform is None else np.asarray(self.transform(x, language))


def fit_methods(
    x: Mapping[str, Float[np.ndarray, "_ dim"]],
    names: Sequence[str],
    *,
    ranks: Sequence[int] = (),
    components: Sequence[int] = (1,),
    seeds: Sequence[int] = (0,),
    source: EncoderSpec,
) -> list[Method]:
    """Fits each method from one set of moments, or from the embeddings if it needs them.

    Args:
      x: language to the embeddings to fit on.
      names: ``original`` or names of ``METHODS``, in the order of the table.
      ranks: one fit of LSAR each; empty for one less than there are languages.
      components: one fit of LIR each.
      seeds: one fit of CBIE each.
      source: the encoder.
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
    """Returns a transform that was fitted or trained before, with the name and the parameters of its fits."""
    name = "+".join(fit.method for fit in transform.fits)
    return _named(f"saved {name}" if name in METHODS else name, transform)


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """Returns the name of a method in tables, with its parameters."""
    return " ".join([name, *(f"{key}={value}" for key, value in parameters.items())])


def _named(name: str, transform: Transform) -> Method:
    parameters = {key: value for fit in transform.fits for key, value in fit.parameters if key != "per_language"}
    return Method(name, parameters, transform)
