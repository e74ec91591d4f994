"""The transforms that an evaluation compares, fitted from one mapping of embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from lsar_jax import EncoderSpec, Moments, Transform
from lsar_jax.transforms import fit_center, fit_lir, fit_lsar

__all__ = ["Method", "MethodName", "fit_methods", "label"]

MethodName = Literal["original", "center", "lir", "lsar"]


@dataclass(frozen=True)
class Method:
    """A fitted transform with the name it has in tables.

    Attributes:
      name: method.
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

    def __call__(
        self, x: Float[np.ndarray, "vector dim"], language: str | Sequence[str]
    ) -> Float[np.ndarray, "vector dim"]:
        """Returns the embeddings of one language, or of one a row, after the method."""
        return x if self.transform is None else np.asarray(self.transform(x, language))


def fit_methods(
    x: Mapping[str, Float[np.ndarray, "vector dim"]],
    names: Sequence[MethodName],
    *,
    ranks: Sequence[int] = (),
    components: Sequence[int] = (1,),
    source: EncoderSpec,
) -> list[Method]:
    """Fits each method, LSAR once a rank and LIR once a number of components.

    Args:
      x: from language to the embeddings to fit on.
      names: methods, in the order of the table.
      ranks: of LSAR; empty is one less than there are languages.
      components: of LIR.
      source: the encoder.
    """
    moments = {code: Moments.from_embeddings(value, second_moment="lir" in names) for code, value in x.items()}
    fitted: list[Transform | None] = []
    for name in names:
        if name == "original":
            fitted.append(None)
        elif name == "center":
            fitted.append(fit_center(moments, source=source))
        elif name == "lir":
            fitted += [fit_lir(moments, count, source=source) for count in components]
        else:
            fitted += [fit_lsar(moments, rank, source=source) for rank in ranks or (None,)]
    return [_method(transform) for transform in fitted]


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """Returns the name of a method in tables, with its parameters."""
    return " ".join([name, *(f"{key}={value}" for key, value in parameters.items())])


def _method(transform: Transform | None) -> Method:
    if transform is None:
        return Method("original", {}, None)
    [fit] = transform.fits
    return Method(fit.method, dict(fit.parameters), transform)
