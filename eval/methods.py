"""The transforms that an evaluation compares, all fitted on the same embeddings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro
from jaxtyping import Float

from lsar_jax import EncoderSpec, Moments, Transform, pool_moments
from lsar_jax.languages import code_or_none, language_code
from lsar_jax.transforms import fit_cbie, fit_linear_map, fit_outliers, fit_shift, fit_whitening, whiten_samples
from lsar_jax.transforms import zero_dimensions as zeroed
from lsar_jax.transforms.methods import METHODS, FitMethod

__all__ = [
    "ALL_METHODS",
    "FITTED",
    "FROM_MOMENTS",
    "OF_FILES",
    "OF_PAIRS",
    "FileMethod",
    "Method",
    "MethodName",
    "check_methods",
    "dimensions_of",
    "fit_files",
    "fit_methods",
    "fit_pairs",
    "label",
    "move_together",
    "saved_method",
    "steps_of",
]

# Methods that are fitted on the two sides of parallel text.
OF_PAIRS: dict[str, Callable[..., Transform]] = {"linear": fit_linear_map, "shift": fit_shift}
# Methods that Hämmerl et al. 2023 fit on each file of the evaluated sentences by itself.
OF_FILES = ("cbie", "whitening", "language-whitening", "sample-whitening")


def _fit_largest(x: Mapping[str, Moments], largest: int = 10, *, source: EncoderSpec | None = None) -> Transform:
    """Zeroes the ``largest`` dimensions of any language but English (Hämmerl et al. 2023, Table 4: 10)."""
    others = {code: value for code, value in x.items() if code != "en"}
    return fit_outliers(others or x, largest=largest, source=source)


def _fit_zero(x: Mapping[str, Moments], zero: str, *, source: EncoderSpec | None = None) -> Transform:
    """Zeroes the given dimensions, for all languages."""
    return zeroed(dimensions_of(zero), next(iter(x.values())).dim, source=source)


def dimensions_of(zero: str) -> tuple[int, ...]:
    """Returns the dimensions that a value of ``--zero`` names, such as 588 or 588,306.

    Raises:
      ValueError: it is not a list of numbers.
    """
    parts = zero.split(",")
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise ValueError(f"--zero has {zero!r}; give different dimensions, such as 588 or 588,306")
    return tuple(map(int, parts))


# Methods that are fitted on the text of several languages, by name.
FITTED: dict[str, FitMethod] = {
    **METHODS,
    "largest": FitMethod(_fit_largest, "means", varied="largest"),
    "zero": FitMethod(_fit_zero, "means", varied="zero"),
}

if TYPE_CHECKING:
    MethodName = str
else:  # a Literal of the known names, so that the command line lists and checks them
    MethodName = tyro.extras.literal_type_from_choices(["original", *FITTED, "sample-whitening", *OF_PAIRS])

# The original embeddings and every method, except ``mean``, which alone removes nothing that differs between languages,
# and ``lsar-published``, which is ``lsar`` at the default rank.
ALL_METHODS = ("original", *(name for name in METHODS if name not in ("mean", "lsar-published")))
# What is compared where every layer is: the methods that are fitted from moments, with one map or one of each language.
FROM_MOMENTS = (
    "original", "center", "lir", "lsar", "lsar-published", "mean+lsar", "outliers", "whitening", "leace"
)  # fmt: skip


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


@dataclass(frozen=True)
class FileMethod(Method):
    """A method that was fitted on each file of the evaluated sentences by itself.

    Attributes:
      by_file: file -> the function that transforms its embeddings.
      counts: language -> number of sentences in its files.
    """

    by_file: Mapping[Any, Callable[[Float[np.ndarray, "vector dim"]], Any]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __call__(
        self, x: Float[np.ndarray, "vector dim"], language: str | Sequence[str]
    ) -> Float[np.ndarray, "vector dim"]:
        """Raises TypeError: without its file, an embedding cannot be transformed."""
        raise TypeError(f"{self.label} has a fit for each file; use moved")

    def takes(self, language: str) -> bool:
        """Returns True: every file has a function of its own."""
        return True

    def moved(self, x: Mapping[Any, Float[np.ndarray, "_ dim"]]) -> dict[Any, Float[np.ndarray, "_ dim"]]:
        """Returns the embeddings of each file, transformed by its own function."""
        return {file: np.asarray(self.by_file[file](value)) for file, value in x.items()}


def check_methods(names: Sequence[str], varied: Mapping[str, Sequence[Any]], languages: int, dim: int) -> None:
    """Checks, before anything is encoded, that methods can be fitted with their options.

    Args:
      names: names of methods, of which those that are not in ``FITTED`` have no options.
      varied: option -> the values that methods with this option are fitted with.
      languages: number of languages to fit on.
      dim: width of the embeddings.

    Raises:
      ValueError: a value is out of range.
    """
    for method in (FITTED[name] for name in names if name in FITTED):
        for value in varied.get(method.varied, ()):
            method.check_options({method.varied: value}, languages, dim)
    if "zero" in names:
        if not varied["zero"]:
            raise ValueError("--transforms has zero, but --zero names no dimensions; give some, such as 588 or 588,306")
        for value in varied["zero"]:
            if (highest := max(dimensions_of(value))) >= dim:
                raise ValueError(f"--zero has {highest}, but the embeddings have {dim} dimensions, from 0")


def fit_methods(
    x: Mapping[str, Float[np.ndarray, "_ dim"]],
    names: Sequence[str],
    varied: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    *,
    source: EncoderSpec,
) -> list[Method]:
    """Fits each method from shared moments, or from the embeddings if it needs them.

    Args:
      x: language -> embeddings to fit on.
      names: ``original`` or names of ``FITTED``, in table order.
      varied: option -> values, one fit each, of the methods that have the option; LSAR's ``rank`` (by default one less
        than the number of languages), LIR's ``components`` (1), CBIE's ``seed`` (0), ``largest`` (10) and ``zero``.
      source: spec of the encoder that made the embeddings.
    """
    needs = {FITTED[name].needs for name in names if name != "original"}
    second = bool(needs & {"pooled", "languages"})
    moments = {code: Moments.from_embeddings(value, second_moment=second) for code, value in x.items()}
    given: dict[str, Any] = {"means": moments, "languages": moments, "embeddings": x}
    if "pooled" in needs:
        given["pooled"] = pool_moments(moments)
    fitted: list[Method] = []
    for name in names:
        if name == "original":
            fitted.append(Method(name, {}, None))
            continue
        method = FITTED[name]
        for value in varied.get(method.varied) or (None,):
            options = {} if value is None else {method.varied: value}
            made = _named(name, method(given[method.needs], source=source, **options))
            fitted.append(replace(made, parameters=options) if name not in METHODS else made)
    return fitted


def fit_pairs(
    name: str,
    pairs: Mapping[str, tuple[Float[np.ndarray, "_ dim"], Float[np.ndarray, "_ dim"]]],
    source: EncoderSpec,
) -> Method:
    """Fits a method of ``OF_PAIRS``; ``pairs`` are those of ``fit_linear_map``, into English."""
    return Method(name, {}, OF_PAIRS[name](pairs, source=source))


def fit_files(
    name: str,
    x: Mapping[Any, Float[np.ndarray, "_ dim"]],
    languages: Mapping[Any, str],
    *,
    seeds: Sequence[int] = (0,),
    source: EncoderSpec | None = None,
) -> list[FileMethod]:
    """Fits a method of ``OF_FILES`` on each file of the evaluated sentences by itself.

    Args:
      name: name of the method; ``whitening`` and ``language-whitening`` are the same here.
      x: file -> embeddings.
      languages: file -> its language.
      seeds: seeds of CBIE, one method each.
      source: spec of the encoder that made the embeddings.
    """
    counts: dict[str, int] = {}
    for file, value in x.items():
        counts[languages[file]] = counts.get(languages[file], 0) + len(value)
    if name == "sample-whitening":
        return [FileMethod(name, {"eps": 1e-5}, None, dict.fromkeys(x, whiten_samples), counts)]
    methods: list[FileMethod] = []
    for seed in seeds if name == "cbie" else seeds[:1]:
        fits: dict[Any, Transform] = {}
        for file, value in x.items():
            own = {languages[file]: value}
            if name == "cbie":
                fits[file] = fit_cbie(own, seed=seed, source=source)
            else:
                # In float64: with fewer sentences than dimensions, most eigenvalues are 0, and 1e-8 is below float32's
                # rounding.
                fits[file] = fit_whitening(own, 1e-8, absolute=True, per_language=True, source=source, precise=True)
        parameters: dict[str, Any] = {"components": 12, "seed": seed}
        if name != "cbie":
            name, parameters = "language-whitening", {"eps": 1e-8, "absolute": 1}
        by_file = {file: partial(transform, language=languages[file]) for file, transform in fits.items()}
        methods.append(FileMethod(name, parameters, None, by_file, counts))
    return methods


def move_together(method: Method, x: Mapping[str, Float[np.ndarray, "_ dim"]]) -> dict[str, Float[np.ndarray, "_ dim"]]:
    """Returns the embeddings of each language, transformed by a method in one call."""
    codes = [code for code, rows in x.items() for _ in rows]
    bounds = np.cumsum([len(rows) for rows in x.values()])[:-1]
    return dict(zip(x, np.split(method(np.concatenate(list(x.values())), codes), bounds), strict=True))


def saved_method(transform: Transform) -> Method:
    """Wraps a saved transform as a method, named after its fits."""
    name = "+".join(fit.method for fit in transform.fits)
    return _named(f"saved {name}" if name in METHODS else name, transform)


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """Returns a method's name in tables, including its parameters."""
    named = [f"{key}={value}" for key, value in parameters.items()]
    return " ".join(named if name in parameters else [name, *named])


def _named(name: str, transform: Transform) -> Method:
    parameters = {key: value for fit in transform.fits for key, value in fit.parameters if key != "per_language"}
    return Method(name, parameters, transform)


def steps_of(transform: Transform) -> tuple[str, ...]:
    """Returns each step of a transform, with what it was fitted on and its digest."""
    return tuple(
        f"{fit} on {sum(count for _, count in fit.fitted_on):,} sentences of {len(fit.fitted_on)} languages, {digest}"
        for fit, digest in zip(transform.fits, transform.digests, strict=True)
    )
