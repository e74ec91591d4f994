"""The transforms that an evaluation compares, all fitted on the same embeddings."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import tyro
from jaxtyping import Float

from lsar_jax.languages import code_or_none, language_code
from lsar_jax.moments import Moments, pool_moments
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import (
    Transform,
    fit_cbie,
    fit_linear_map,
    fit_outliers,
    fit_shift,
    fit_whitening,
    whiten_samples,
)
from lsar_jax.transforms import zero_dimensions as zeroed
from lsar_jax.transforms.base import Step
from lsar_jax.transforms.methods import BY_DEFAULT, METHODS, FitMethod

__all__ = [
    "ALL_METHODS",
    "FITTED",
    "OF_FILES",
    "OF_PAIRS",
    "Method",
    "MethodName",
    "check_methods",
    "fit_files",
    "fit_methods",
    "label",
]

K = TypeVar("K")

# Methods that are fitted on the two sides of parallel text.
OF_PAIRS: dict[str, Callable[..., Transform]] = {"linear": fit_linear_map, "shift": fit_shift}
# Methods that Hämmerl et al. 2023 fit on each file of the evaluated sentences by itself.
OF_FILES = ("cbie", "whitening", "language-whitening", "sample-whitening")


def _fit_largest(x: Mapping[str, Moments], *, source: EncoderSpec | None = None) -> Transform:
    """Zeroes the ten largest dimensions of any language but English (Hämmerl et al. 2023, Table 4)."""
    others = {code: value for code, value in x.items() if code != "en"}
    return fit_outliers(others or x, largest=10, source=source)


def _fit_zero(x: Mapping[str, Moments], zero: str, *, source: EncoderSpec | None = None) -> Transform:
    """Zeroes the given dimensions, for all languages."""
    return zeroed(_dimensions(zero), next(iter(x.values())).dim, source=source)


def _dimensions(zero: str) -> tuple[int, ...]:
    """The dimensions that a value of ``--zero`` names."""
    parts = zero.split(",")
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise ValueError(f"--zero has {zero!r}; give different dimensions, such as 588 or 588,306")
    return tuple(map(int, parts))


# Methods that are fitted on the text of several languages, by name.
FITTED: dict[str, FitMethod] = {
    **METHODS,
    "largest": FitMethod(_fit_largest, "means"),
    "zero": FitMethod(_fit_zero, "means", varied="zero"),
}

if TYPE_CHECKING:
    MethodName = str
else:  # a Literal of the known names, so that the command line lists and checks them
    MethodName = tyro.extras.literal_type_from_choices(["original", *FITTED, "sample-whitening", *OF_PAIRS])

# The original embeddings and the methods that are compared by default.
ALL_METHODS = ("original", *BY_DEFAULT)


@dataclass(frozen=True)
class Method:
    """A fitted transform, its name and its arguments.

    Attributes:
      transform: None leaves the embeddings unchanged.
      by_file: file -> the function that transforms its embeddings, if each file was fitted on by itself.
      counts: language -> number of sentences in these files.
    """

    name: str
    parameters: dict[str, int | float | str]
    transform: Transform | None = None
    by_file: Mapping[Any, Callable[[Float[np.ndarray, "vector dim"]], Any]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, transform: Transform) -> "Method":
        """A transform under a name, with the arguments of its fits."""
        return cls(name, {k: v for fit in transform.fits for k, v in fit.parameters if k != "per_language"}, transform)

    @classmethod
    def saved(cls, transform: Transform) -> "Method":
        """A saved transform, named after its fits."""
        name = "+".join(fit.method for fit in transform.fits)
        return cls.of(f"saved {name}" if name in METHODS else name, transform)

    @property
    def label(self) -> str:
        """The name in tables."""
        return label(self.name, self.parameters)

    @property
    def one_map(self) -> bool:
        """Whether it is one affine map, the same for all languages, which can be exported."""
        if self.transform is None or self.transform.languages is not None:
            return False
        return all(isinstance(step, Step) and step.clusters is None for step in self.transform.steps)

    @property
    def seed(self) -> int | None:
        """The seed of the fit, if it has one."""
        return None if (seed := self.parameters.get("seed")) is None else int(seed)

    @property
    def source(self) -> EncoderSpec | None:
        """The spec of the embeddings that the transform was fitted on."""
        return None if self.transform is None else self.transform.source

    def takes(self, language: str) -> bool:
        """Whether embeddings of a language can be transformed."""
        if self.transform is None or self.transform.languages is None:
            return True
        return language_code(language) in map(code_or_none, self.transform.languages)

    def __call__(
        self, x: Float[np.ndarray, "vector dim"], language: str | Sequence[str]
    ) -> Float[np.ndarray, "vector dim"]:
        """Transforms embeddings of one language, or of a language for each row."""
        return x if self.transform is None else np.asarray(self.transform(x, language))

    def transform_files(
        self, x: Mapping[K, Float[np.ndarray, "_ dim"]], language: Callable[[K], str]
    ) -> dict[K, Float[np.ndarray, "_ dim"]]:
        """Transforms the embeddings of each file as its language, or by its own fit."""
        if self.by_file:
            return {file: np.asarray(self.by_file[file](rows)) for file, rows in x.items()}
        return {file: self(rows, language(file)) for file, rows in x.items()}

    def transform_languages(self, x: Mapping[str, Float[np.ndarray, "_ dim"]]) -> dict[str, Float[np.ndarray, "_ dim"]]:
        """Transforms the embeddings of each language in one call."""
        codes = [code for code, rows in x.items() for _ in rows]
        bounds = np.cumsum([len(rows) for rows in x.values()])[:-1]
        return dict(zip(x, np.split(self(np.concatenate(list(x.values())), codes), bounds), strict=True))


def check_methods(
    names: Sequence[str], varied: Mapping[str, Sequence[Any]], languages: Sequence[str], dim: int
) -> None:
    """Checks, before anything is encoded, that methods can be fitted with their options on these languages."""
    for name in names:
        for value in varied.get(FITTED[name].varied) or (None,) if name in FITTED else ():
            try:
                FITTED[name].check({FITTED[name].varied: value}, languages, dim)
            except ValueError as error:
                raise ValueError(f"--transforms has {name}: {error}") from error
    if "zero" in names:
        if not varied["zero"]:
            raise ValueError("--transforms has zero, but --zero names no dimensions; give some, such as 588 or 588,306")
        for value in varied["zero"]:
            if (highest := max(_dimensions(value))) >= dim:
                raise ValueError(f"--zero has {highest}, but the embeddings have {dim} dimensions, from 0")


def fit_methods(
    x: Mapping[str, Float[np.ndarray, "_ dim"]],
    names: Sequence[str],
    varied: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    *,
    source: EncoderSpec | None,
    moments: Mapping[str, Moments] | None = None,
) -> list[Method]:
    """Fits each method from shared moments, or from the embeddings if it needs them.

    Args:
      x: language -> embeddings to fit on.
      names: ``original`` or names of ``FITTED``, in table order.
      varied: option -> values, one fit each, of the methods that have the option: ``rank``, ``components``, ``seed`` or
        ``zero``; without values, the method's default.
      source: spec of the encoder that made the embeddings, if it is known.
      moments: the moments of the embeddings, with second moments, if they are known.
    """
    needs = {FITTED[name].needs for name in names if name != "original"}
    second = bool(needs & {"pooled", "languages"})
    if moments is None:
        moments = {code: Moments.from_embeddings(value, second_moment=second) for code, value in x.items()}
    given: dict[str, Any] = {"means": moments, "languages": moments, "embeddings": x}
    if "pooled" in needs:
        given["pooled"] = pool_moments(moments)
    fitted: list[Method] = []
    for name in names:
        if name == "original":
            fitted.append(Method(name, {}))
            continue
        method = FITTED[name]
        for value in varied.get(method.varied) or (None,):
            options = {} if value is None else {method.varied: value}
            made = Method.of(name, method(given[method.needs], source=source, **options))
            fitted.append(replace(made, parameters=options) if name == "zero" else made)
    return fitted


def fit_files(
    name: str,
    x: Mapping[K, Float[np.ndarray, "_ dim"]],
    languages: Mapping[K, str],
    *,
    seeds: Sequence[int] = (0,),
    source: EncoderSpec | None = None,
) -> list[Method]:
    """Fits a method of ``OF_FILES`` on each file of the evaluated sentences by itself; CBIE once for each seed.

    Here ``whitening`` and ``language-whitening`` are the same.
    """
    counts = Counter(languages[file] for file, rows in x.items() for _ in rows)

    def fitted(fit: Callable[..., Transform]) -> dict[K, Callable[..., Any]]:
        return {
            file: partial(fit({languages[file]: rows}, source=source), language=languages[file])
            for file, rows in x.items()
        }

    if name == "sample-whitening":
        return [Method(name, {"eps": 1e-5}, None, dict.fromkeys(x, whiten_samples), counts)]
    if name == "cbie":
        fits = {seed: fitted(partial(fit_cbie, seed=seed)) for seed in seeds}
        return [Method(name, {"components": 12, "seed": seed}, None, of, counts) for seed, of in fits.items()]
    # In float64: with fewer sentences than dimensions, most eigenvalues are 0, and 1e-8 is below float32's rounding.
    whiten = partial(fit_whitening, eps=1e-8, absolute=True, per_language=True, precise=True)
    return [Method("language-whitening", {"eps": 1e-8, "absolute": 1}, None, fitted(whiten), counts)]


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """A method's name in tables, including its parameters."""
    named = [f"{key}={value}" for key, value in parameters.items()]
    return " ".join(named if name in parameters else [name, *named])
