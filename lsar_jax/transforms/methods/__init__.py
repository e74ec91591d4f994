"""The published methods, one file each, and the table ``METHODS`` of those that can be fitted by name.

The command line, the evaluations, the report, the explorer and the benchmarks read the table; ``methods.csv`` says
which methods are compared by default, and describes them. Limits of options stand at the arguments of the fits
(``base/limits.py``).
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax

from lsar_jax.files import read_table
from lsar_jax.moments import check_number
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Transform
from lsar_jax.transforms.methods.cbie import fit_cbie
from lsar_jax.transforms.methods.center import fit_center
from lsar_jax.transforms.methods.joint import fit_joint, scatter_directions
from lsar_jax.transforms.methods.langsae import fit_langsae
from lsar_jax.transforms.methods.leace import erasing_functionals, fit_leace
from lsar_jax.transforms.methods.linear_map import fit_linear_map, procrustes
from lsar_jax.transforms.methods.lir import fit_lir, lir_directions, principal_directions
from lsar_jax.transforms.methods.lsar import fit_lsar, fit_mean_then_lsar, language_subspace
from lsar_jax.transforms.methods.mean_direction import fit_mean_direction
from lsar_jax.transforms.methods.outliers import fit_outliers, largest_dimensions
from lsar_jax.transforms.methods.shift import fit_shift
from lsar_jax.transforms.methods.sparse_dimensions import fit_sparse_dimensions, varying_dimensions
from lsar_jax.transforms.methods.steering import fit_steering
from lsar_jax.transforms.methods.whitening import fit_whitening, zca

__all__ = ["METHODS", "OF_PAIRS", "SUMMARIES", "FitMethod", "Needs", "by_default"]

Needs = Literal["means", "pooled", "languages", "embeddings", "pairs"]

# Arguments of a fit that are not options of its method.
_SHARED = ("x", "pairs", "source", "precise")
# Options that evaluations vary.
_VARIED = ("rank", "seed", "components", "zero")


@dataclass(frozen=True)
class FitMethod:
    """A way to fit a transform from several languages' embeddings or moments.

    Attributes:
      fit: function of a mapping from language, ``source`` and options, which returns a ``Transform``.
      needs: what it is fitted from: ``means``; second moments, ``pooled`` over the languages or of each
        (``languages``); the ``embeddings`` themselves; or ``pairs`` of aligned embeddings.
      fixed: options that this entry sets.
      least: number of languages that it needs.
      of_file: the name in results, and the options, with which papers fit it on each evaluated file by itself; None if
        they do not.
      core: its compiled part, given the number of languages and the width: a function and the shapes of its arguments.
    """

    fit: Callable[..., Transform]
    needs: Needs
    fixed: Mapping[str, Any] = field(default_factory=dict)
    least: int = 1
    of_file: tuple[str, Mapping[str, Any]] | None = None
    core: Callable[[int, int], tuple[Any, ...]] | None = None

    def __call__(self, x: Mapping[str, Any], *, source: EncoderSpec | None = None, **options: Any) -> Transform:
        """Fits the method; see ``fit``."""
        return self.fit(x, source=source, **self.fixed, **options)

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options that can be set, by name."""
        parameters = inspect.signature(self.fit).parameters
        return {name: value for name, value in parameters.items() if name not in (*_SHARED, *self.fixed)}

    @property
    def varied(self) -> str:
        """The option that evaluations vary, the first of ``_VARIED`` that it has; empty for none."""
        return next((name for name in _VARIED if name in self.options), "")

    def variants(self, values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
        """The options of each fit, by values of the option that evaluations vary; without values, its default."""
        return [{self.varied: value} for value in values.get(self.varied, ())] or [{}]

    def check(self, options: Mapping[str, Any], languages: Collection[str], dim: int) -> None:
        """Checks options against what is known before any text is encoded; the fit itself checks the rest.

        Raises:
          ValueError: there are too few languages, or an option is out of range.
        """
        check_number(languages, self.least)
        values = {name: option.default for name, option in self.options.items()} | dict(options)
        for name, option in self.options.items():
            if option.default is option.empty and values[name] in (None, option.empty):
                raise ValueError(f"{name} has no value; give one")
            for limit in getattr(option.annotation, "__metadata__", ()):
                if values[name] is not None:
                    limit(name, values[name], **{**values, "languages": len(languages), "dim": dim})


# Hämmerl et al. 2023 whiten each file in float64: with fewer sentences than dimensions, most eigenvalues are 0, and
# 1e-8 is below float32's rounding.
_FILES = ("language-whitening", {"eps": 1e-8, "absolute": True, "per_language": True, "precise": True})

METHODS: dict[str, FitMethod] = {
    "center": FitMethod(fit_center, "means"),
    "mean": FitMethod(fit_center, "means", {"per_language": False}),
    "lir": FitMethod(fit_lir, "languages", core=lambda n, d: (partial(lir_directions, components=1), (d,), (d, d))),
    "lsar": FitMethod(fit_lsar, "means", least=2, core=lambda n, d: (partial(language_subspace, rank=n - 1), (n, d))),
    "lsar-published": FitMethod(fit_lsar, "means", {"published": True}, least=2),
    "mean+lsar": FitMethod(fit_mean_then_lsar, "means", least=2),
    "joint": FitMethod(
        fit_joint, "languages", least=2,
        core=lambda n, d: (partial(scatter_directions, components=1), (n, d, d), (d, n)),
    ),
    "sparse-dimensions": FitMethod(
        fit_sparse_dimensions, "means", least=2,
        core=lambda n, d: (partial(varying_dimensions, dimensions=d // 10), (n, d)),
    ),
    "steering": FitMethod(
        fit_steering, "pooled", least=2, core=lambda n, d: (partial(principal_directions, components=1), (d, d))
    ),
    "mean-direction": FitMethod(fit_mean_direction, "means"),
    "outliers": FitMethod(fit_outliers, "means", core=lambda n, d: (partial(largest_dimensions, largest=3), (n, d))),
    "whitening": FitMethod(fit_whitening, "pooled", of_file=_FILES, core=lambda n, d: (zca, (d, d), ())),
    "language-whitening": FitMethod(
        fit_whitening, "languages", {"per_language": True}, of_file=_FILES,
        core=lambda n, d: (jax.vmap(zca), (n, d, d), (n,)),
    ),
    "cbie": FitMethod(fit_cbie, "embeddings", of_file=("cbie", {})),
    "leace": FitMethod(fit_leace, "pooled", least=2, core=lambda n, d: (erasing_functionals, (d, d), (d, n - 1), ())),
    "langsae": FitMethod(fit_langsae, "embeddings"),
}  # fmt: skip

# Methods that are fitted on the two sides of parallel text.
OF_PAIRS: dict[str, FitMethod] = {
    "linear": FitMethod(fit_linear_map, "pairs", core=lambda n, d: (procrustes, (d, d))),
    "shift": FitMethod(fit_shift, "pairs"),
}

# Not compared in ``suite``: ``mean``, which alone removes no difference of languages, ``lsar-published``, which is
# ``lsar`` at its default rank, and newer methods (docs/explanation/results.md). The report fits every layer, so its
# methods are fast.
_TABLE = read_table(Path(__file__).with_name("methods.csv"))
#: For readers who have not read the papers.
SUMMARIES = {"original": "The vectors as they are."} | {row["name"]: row["summary"] for row in _TABLE}


def by_default(place: str) -> tuple[str, ...]:
    """Returns the names of the methods that are compared by default in a task, suite, report or explorer."""
    return tuple(row["name"] for row in _TABLE if place in row["default_in"].split())
