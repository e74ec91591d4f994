"""The transforms that an evaluation compares, all fitted on the same embeddings."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import tyro
from jaxtyping import Float

from lsar_jax.checks import errors_of
from lsar_jax.moments import Moments, pool_moments
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform, fit_outliers, whiten_samples, zero_dimensions
from lsar_jax.transforms.methods import METHODS, OF_PAIRS, FitMethod, by_default

__all__ = [
    "ALL_METHODS", "CSLS", "FEW_METHODS", "FITTED", "OF_FILES", "OF_PAIRS", "OF_SAMPLES", "REPORT_METHODS", "Method",
    "MethodName", "check_methods", "fit_files", "fit_methods", "label",
]  # fmt: skip

K = TypeVar("K")
Rows = Float[np.ndarray, "_ dim"]

CSLS = "+csls"  # what the name of a method ends in whose scores are by CSLS


def _fit_largest(x: Mapping[str, Moments], *, source: EncoderSpec | None = None) -> Transform:
    """Zeroes the ten largest dimensions of any language but English (Hämmerl et al. 2023, Table 4)."""
    others = {code: value for code, value in x.items() if code != "en"}
    return fit_outliers(others or x, largest=10, source=source)


def _dimensions(name: str, value: str, dim: int, **_: Any) -> tuple[int, ...]:
    """Returns the dimensions that a value of ``--zero`` names; raises ValueError unless they differ and exist."""
    parts = value.split(",")
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise ValueError(f"{name} has {value!r}; give different dimensions, such as 588 or 588,306")
    if (highest := max(map(int, parts))) >= dim:
        raise ValueError(f"{name} has {highest}, but the embeddings have {dim} dimensions, from 0")
    return tuple(map(int, parts))


def _fit_zero(
    x: Mapping[str, Moments], zero: Annotated[str, _dimensions], *, source: EncoderSpec | None = None
) -> Transform:
    """Zeroes the given dimensions, for all languages."""
    dim = next(iter(x.values())).dim
    transform = zero_dimensions(_dimensions("zero", zero, dim), dim, source=source)
    return replace(transform, fits=(replace(transform.fits[0], parameters=(("zero", zero),)),))


# Methods that are fitted on the text of several languages, by name.
FITTED: dict[str, FitMethod] = {
    **METHODS, "largest": FitMethod(_fit_largest, "means"), "zero": FitMethod(_fit_zero, "means"),
}  # fmt: skip
# Functions of the sentences of a file, which cannot be applied to others, and their arguments in results.
OF_SAMPLES: dict[str, tuple[Callable[..., Any], dict[str, int | float | str]]] = {
    "sample-whitening": (whiten_samples, {"eps": 1e-5})
}
# Methods that papers fit on each file of the evaluated sentences by itself.
OF_FILES = (*(name for name, method in FITTED.items() if method.of_file is not None), *OF_SAMPLES)

if TYPE_CHECKING:
    MethodName = str
else:  # a Literal of the known names, so that the command line lists and checks them
    MethodName = tyro.extras.literal_type_from_choices(["original", *FITTED, *OF_SAMPLES, *OF_PAIRS])

# The original embeddings and the methods that are compared by default: by a task, by all tasks, and by the report.
FEW_METHODS, ALL_METHODS, REPORT_METHODS = (("original", *by_default(place)) for place in ("task", "suite", "report"))


@dataclass(frozen=True)
class Method:
    """A fitted transform, its name and its arguments.

    Attributes:
      transform: None leaves the embeddings unchanged.
      by_file: file -> the function that transforms its embeddings, if each file was fitted on by itself.
      counts: language -> number of sentences in these files.
      sample: language -> vectors, which the bank of scores by CSLS is made of; empty for scores by cosine.
    """

    name: str
    parameters: dict[str, int | float | str]
    transform: Transform | None = None
    by_file: Mapping[Any, Callable[[Rows], Any]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    sample: Mapping[str, Rows] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, transform: Transform) -> "Method":
        """A transform under a name, with the arguments of its fits."""
        return cls(name, {k: v for fit in transform.fits for k, v in fit.parameters if k != "per_language"}, transform)

    @classmethod
    def saved(cls, transform: Transform) -> "Method":
        """A saved transform, named after its fits."""
        name = "+".join(fit.method for fit in transform.fits)
        return cls.of(f"saved {name}" if name in METHODS else name, transform)

    def scaled(self, sample: Mapping[str, Rows]) -> "Method":
        """The method with scores by CSLS, against a sample of the text that it was fitted on."""
        return replace(self, name=f"{self.name}{CSLS}", sample=sample)

    @cached_property
    def bank(self) -> Float[np.ndarray, "row dim"] | None:
        """The sample, transformed, in the languages that the method takes; None without one."""
        rows = {code: self(x, code) for code, x in self.sample.items() if self.takes(code)}
        return np.concatenate(list(rows.values())) if rows else None

    @property
    def label(self) -> str:
        """The name in tables."""
        return label(self.name, self.parameters)

    @property
    def one_map(self) -> bool:
        """Whether it is one affine map, the same for all languages, which can be exported."""
        chosen = self.transform
        return chosen is not None and chosen.languages is None and not any(step.not_affine() for step in chosen.steps)

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
        try:
            return self.transform is None or bool(self.transform.language_ids(language))
        except ValueError:
            return False

    def at_strengths(self, strengths: Sequence[float]) -> "list[Method]":
        """The method at each strength; only itself if it has no transform."""
        if (whole := self.transform) is None:
            return [self]
        named = {s: {**self.parameters, "strength": s} for s in strengths}
        return [self if s == 1 else replace(self, transform=whole.at_strength(s), parameters=named[s]) for s in named]

    def __call__(self, x: Rows, language: str | Sequence[str]) -> Rows:
        """Transforms embeddings of one language, or of a language for each row."""
        return x if self.transform is None else np.asarray(self.transform(x, language))

    def transform_files(self, x: Mapping[K, Rows], language: Callable[[K], str]) -> dict[K, Rows]:
        """Transforms the embeddings of each file as its language, or by its own fit."""
        if self.by_file:
            return {file: np.asarray(self.by_file[file](rows)) for file, rows in x.items()}
        return {file: self(rows, language(file)) for file, rows in x.items()}

    def transform_languages(self, x: Mapping[str, Rows]) -> dict[str, Rows]:
        """Transforms the embeddings of each language in one call."""
        codes = [code for code, rows in x.items() for _ in rows]
        bounds = np.cumsum([len(rows) for rows in x.values()])[:-1]
        return dict(zip(x, np.split(self(np.concatenate(list(x.values())), codes), bounds), strict=True))


def check_methods(
    names: Sequence[str], varied: Mapping[str, Sequence[Any]], languages: Sequence[str], dim: int
) -> None:
    """Checks, before anything is encoded, that methods can be fitted with their options on these languages."""
    for name in names:
        for options in FITTED[name].variants(varied) if name in FITTED else ():
            with errors_of(f"--transforms has {name}"):
                FITTED[name].check(options, languages, dim)


def fit_methods(
    x: Mapping[str, Rows],
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
    given["pooled"] = pool_moments(moments) if "pooled" in needs else {}
    fitted: list[Method] = []
    for name in names:
        if name == "original":
            fitted.append(Method(name, {}))
            continue
        method = FITTED[name]
        fits = (method(given[method.needs], source=source, **options) for options in method.variants(varied))
        fitted += [Method.of(name, fit.with_sample(x)) for fit in fits]
    return fitted


def fit_files(
    name: str,
    x: Mapping[K, Rows],
    languages: Mapping[K, str],
    varied: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    *,
    source: EncoderSpec | None = None,
) -> list[Method]:
    """Fits a method of ``OF_FILES`` on each evaluated file by itself; here, both whitenings are the same."""
    counts = Counter(languages[file] for file, rows in x.items() for _ in rows)
    if name in OF_SAMPLES:
        transform, parameters = OF_SAMPLES[name]
        return [Method(name, parameters, None, dict.fromkeys(x, transform), counts)]
    method = FITTED[name]
    assert method.of_file is not None, "the method is one of OF_FILES"
    shown, fixed = method.of_file
    fitted = []
    for options in method.variants(varied):
        fit = partial(method.fit, source=source, **fixed, **options)
        fits = {file: fit({languages[file]: rows}) for file, rows in x.items()}
        parameters = Method.of(shown, next(iter(fits.values()))).parameters
        by_file = {file: partial(transform, language=languages[file]) for file, transform in fits.items()}
        fitted.append(Method(shown, parameters, None, by_file, counts))
    return fitted


def label(name: str, parameters: Mapping[str, int | float | str]) -> str:
    """A method's name in tables, including its parameters."""
    named = [f"{key}={value}" for key, value in parameters.items()]
    return " ".join(named if name in parameters else [name, *named])
