"""The transforms that an evaluation compares, fitted from one mapping of embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from lsar_jax import EncoderSpec, Moments, Transform, pool_moments
from lsar_jax.transforms import fit_cbie, fit_center, fit_leace, fit_lir, fit_lsar, fit_outliers, fit_whitening

__all__ = ["Method", "MethodName", "fit_methods", "label", "saved_method"]

MethodName = Literal[
    "original",
    "center",
    "mean",
    "lir",
    "lsar",
    "mean+lsar",
    "outliers",
    "whitening",
    "language-whitening",
    "cbie",
    "leace",
]


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
    x: Mapping[str, Float[np.ndarray, "_ dim"]],
    names: Sequence[MethodName],
    *,
    ranks: Sequence[int] = (),
    components: Sequence[int] = (1,),
    seeds: Sequence[int] = (0,),
    source: EncoderSpec,
) -> list[Method]:
    """Fits each method, LSAR once a rank, LIR once a number of components, CBIE once a seed.

    All but CBIE are fitted from one set of moments.

    Args:
      x: from language to the embeddings to fit on.
      names: methods, in the order of the table. ``mean`` takes the mean over languages away, and
        ``mean+lsar`` that and then the language subspace.
      ranks: of LSAR; empty is one less than there are languages.
      components: of LIR.
      seeds: of CBIE, one fit each.
      source: the encoder.
    """
    seconds = {"lir", "whitening", "language-whitening", "leace"} & set(names)
    moments = {code: Moments.from_embeddings(value, second_moment=bool(seconds)) for code, value in x.items()}
    pooled = pool_moments(moments) if {"whitening", "leace"} & set(names) else None
    fitted: list[Method] = []
    for name in names:
        if name == "original":
            fitted.append(Method(name, {}, None))
        elif name == "lir":
            fitted += [_method(name, fit_lir(moments, count, source=source)) for count in components]
        elif name == "lsar":
            fitted += [_method(name, fit_lsar(moments, rank, source=source)) for rank in ranks or (None,)]
        elif name == "mean+lsar":
            mean = fit_center(moments, per_language=False, source=source)
            fitted += [_method(name, mean.then(fit_lsar(moments, rank, source=source))) for rank in ranks or (None,)]
        elif name == "mean":
            fitted.append(_method(name, fit_center(moments, per_language=False, source=source)))
        elif name == "language-whitening":
            fitted.append(_method(name, fit_whitening(moments, per_language=True, source=source)))
        elif name == "cbie":
            fitted += [_method(name, fit_cbie(x, seed=seed, source=source)) for seed in seeds]
        else:
            fit: Any = {"center": fit_center, "outliers": fit_outliers, "whitening": fit_whitening, "leace": fit_leace}[
                name
            ]
            fitted.append(_method(name, fit(moments if pooled is None else pooled, source=source)))
    return fitted


def saved_method(transform: Transform) -> Method:
    """Returns a transform that was fitted or trained before, with the name and the parameters of its fits."""
    name = "+".join(fit.method for fit in transform.fits)
    return _method(f"saved {name}" if name in get_args(MethodName) else name, transform)


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """Returns the name of a method in tables, with its parameters."""
    return " ".join([name, *(f"{key}={value}" for key, value in parameters.items())])


def _method(name: str, transform: Transform) -> Method:
    parameters = {key: value for fit in transform.fits for key, value in fit.parameters if key != "per_language"}
    return Method(name, parameters, transform)
