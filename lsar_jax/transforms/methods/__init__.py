"""The published methods, one file each, and the table ``METHODS`` of those that can be fitted by name.

The command line, the evaluations and the benchmarks read the table.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lsar_jax.checks import positive_number, whole_number
from lsar_jax.moments import Moments
from lsar_jax.moments.by_language import too_few
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Transform
from lsar_jax.transforms.methods.cbie import fit_cbie
from lsar_jax.transforms.methods.center import fit_center
from lsar_jax.transforms.methods.joint import fit_joint
from lsar_jax.transforms.methods.langsae import fit_langsae
from lsar_jax.transforms.methods.leace import fit_leace
from lsar_jax.transforms.methods.lir import fit_lir
from lsar_jax.transforms.methods.lsar import fit_lsar
from lsar_jax.transforms.methods.outliers import fit_outliers
from lsar_jax.transforms.methods.sparse_dimensions import fit_sparse_dimensions
from lsar_jax.transforms.methods.steering import fit_steering
from lsar_jax.transforms.methods.whitening import fit_whitening

__all__ = ["BY_DEFAULT", "METHODS", "FitMethod", "Needs", "fit_mean_then_lsar"]

Needs = Literal["means", "pooled", "languages", "embeddings"]

# Arguments of a fit that are not options of its method.
_SHARED = ("x", "source", "precise")


@dataclass(frozen=True)
class FitMethod:
    """A way to fit a transform from several languages' embeddings or moments.

    Attributes:
      fit: function of a mapping from language, ``source`` and options, which returns a ``Transform``.
      needs: what it is fitted from: ``means``; second moments, ``pooled`` over the languages or of each
        (``languages``); or the ``embeddings`` themselves.
      fixed: options that this entry sets.
      varied: the option that evaluations vary: ``rank``, ``components`` or ``seed``; empty for none.
      least: number of languages that it needs.
      summary: what it does, for readers who have not read the papers.
    """

    fit: Callable[..., Transform]
    needs: Needs
    fixed: Mapping[str, Any] = field(default_factory=dict)
    varied: str = ""
    least: int = 1
    summary: str = ""

    def __call__(
        self, x: Mapping[str, Embeddings | Moments], *, source: EncoderSpec | None = None, **options: Any
    ) -> Transform:
        """Fits the method; see ``fit``."""
        return self.fit(x, source=source, **self.fixed, **options)

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options that can be set, by name."""
        parameters = inspect.signature(self.fit).parameters
        return {name: value for name, value in parameters.items() if name not in (*_SHARED, *self.fixed)}

    def check(self, options: Mapping[str, Any], languages: Collection[str], dim: int) -> None:
        """Checks options against what is known before any text is encoded; the fit itself checks the rest.

        Raises:
          ValueError: there are too few languages, or an option is out of range.
        """
        if len(languages) < self.least:
            raise ValueError(too_few(languages, self.least))
        span = max(1, min(len(languages) - 1, dim))
        left = dim - (len(languages) if self.fit is fit_joint else 0)
        features = dim * (options.get("width") or inspect.signature(fit_langsae).parameters["width"].default)
        limits = {
            "rank": (1, span, f"the span of the means of {len(languages)} languages of width {dim}"),
            "components": (
                1,
                left,
                "the dimensions" if left == dim else f"the dimensions that {dim - left} means leave",
            ),
            "largest": (1, dim, "the dimensions"),
            "dimensions": (1, dim, "the width"),
            "clusters": (1, 1 << 30, "clusters of each language"),
            "seed": (0, (1 << 32) - 1, "32 bits"),
            "width": (1, 1024, "features for each dimension"),
            "active": (1, features, "the features"),
            "steps": (1, 1 << 30, "batches"),
        }
        for name, value in options.items():
            if name in limits and value is not None:
                whole_number(name, value, *limits[name])
            if name in ("eps", "sigma", "threshold") and value is not None:
                positive_number(name, value)
            if name == "threshold" and value is not None and value > 1:
                raise ValueError(f"threshold is {value}; it must be a share of the sentences, at most 1")

    def needs_with(self, options: Mapping[str, Any]) -> Needs:
        """Returns the input that a fit with these options needs; ``per_language`` needs moments of each language."""
        return "languages" if self.needs == "pooled" and options.get("per_language") else self.needs


def fit_mean_then_lsar(
    x: Mapping[str, Embeddings | Moments], rank: int | None = None, *, source: EncoderSpec | None = None
) -> Transform:
    """Fits the removal of the mean over languages, and then LSAR.

    Args:
      x: mapping from language to raw embeddings ``[n, dim]`` or to their moments; at least two languages.
      rank: dimensions removed; by default one less than the number of languages.
      source: spec of the embeddings' encoder; saved, and checked on use.
    """
    return fit_center(x, per_language=False, source=source).then(fit_lsar(x, rank, source=source))


METHODS: dict[str, FitMethod] = {
    "center": FitMethod(
        fit_center, "means", summary="Subtracts from each sentence the mean of its language, which must be known."
    ),
    "mean": FitMethod(fit_center, "means", {"per_language": False}, summary="Subtracts the mean over languages."),
    "lir": FitMethod(
        fit_lir,
        "languages",
        varied="components",
        summary="Removes from each sentence the main directions of its language, which must be known.",
    ),
    "lsar": FitMethod(
        fit_lsar,
        "means",
        varied="rank",
        least=2,
        summary="Removes the directions in which the means of the languages differ; the rank is their number.",
    ),
    "lsar-published": FitMethod(
        fit_lsar,
        "means",
        {"published": True},
        varied="rank",
        least=2,
        summary="Removes the directions in which the means of the languages differ, as LSAR's published code does.",
    ),
    "mean+lsar": FitMethod(
        fit_mean_then_lsar,
        "means",
        varied="rank",
        least=2,
        summary="Subtracts the mean over languages, then removes the directions in which the means of the languages "
        "differ; the rank is their number.",
    ),
    "outliers": FitMethod(fit_outliers, "means", summary="Sets the few dimensions with outlying values to zero."),
    "whitening": FitMethod(
        fit_whitening, "pooled", summary="Subtracts the mean, and gives all directions the same variance."
    ),
    "language-whitening": FitMethod(
        fit_whitening,
        "languages",
        {"per_language": True},
        summary="Subtracts the mean of each language, which must be known, and gives all its directions the same "
        "variance.",
    ),
    "cbie": FitMethod(
        fit_cbie,
        "embeddings",
        varied="seed",
        summary="Removes the main directions of clusters within each language, which must be known.",
    ),
    "leace": FitMethod(
        fit_leace, "pooled", least=2, summary="Removes whatever a linear classifier could tell the language by."
    ),
    "joint": FitMethod(
        fit_joint,
        "languages",
        varied="components",
        least=2,
        summary="Removes the directions of the languages' means, and those in which the languages vary differently.",
    ),
    "sparse-dimensions": FitMethod(
        fit_sparse_dimensions,
        "means",
        least=2,
        summary="Sets the dimensions in which the means of the languages differ most to zero.",
    ),
    "steering": FitMethod(
        fit_steering,
        "pooled",
        varied="components",
        least=2,
        summary="Removes the main direction of the sentences of all languages together.",
    ),
    "langsae": FitMethod(
        fit_langsae,
        "embeddings",
        {"center": False},
        varied="seed",
        summary="Makes each sentence anew from learned features, without those that nearly all sentences of a language "
        "have.",
    ),
    "mean+langsae": FitMethod(
        fit_langsae,
        "embeddings",
        {"center": True},
        varied="seed",
        summary="Subtracts the mean over languages, then makes each sentence anew from learned features, without those "
        "that nearly all sentences of a language have.",
    ),
}

# What is compared by default: all but ``mean``, which alone removes no difference of languages, ``lsar-published``,
# which is ``lsar`` at the default rank, and newer methods (docs/explanation/results.md), which are asked for by name.
_ASKED_FOR = ("mean", "lsar-published", "joint", "sparse-dimensions", "steering", "langsae", "mean+langsae")
BY_DEFAULT = tuple(name for name in METHODS if name not in _ASKED_FOR)
