"""Fit functions in files of the user's own, ``FILE.py:FUNCTION``, compared beside the methods of the library."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from lsar_jax.checks import check_choice, check_option
from lsar_jax.extras import import_function
from lsar_jax.measures.compared_methods import FITTED, MethodName
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform
from lsar_jax.transforms.methods import FitMethod

__all__ = ["add_methods"]


def add_methods(places: Sequence[str]) -> dict[str, str]:
    """Adds functions to the methods that are compared, ``FITTED``, by their names without ``fit_``.

    A function takes one argument, a mapping from language to embeddings, or to what its attribute ``needs`` names (see
    ``FitMethod``), and returns a ``Transform``.

    Returns:
      The names, each with the function's place and a digest of its file, which tells results of two versions apart.

    Raises:
      ValueError: a function cannot be read, or has the name of another method.
    """
    added: dict[str, str] = {}
    for place in places:
        function, pinned = import_function(place, "--method", Transform)
        name = pinned.rpartition("@")[0].rpartition(":")[2].removeprefix("fit_").replace("_", "-")
        free = name not in (*get_args(MethodName), *added)
        check_option(free, f"a function of a name that no other method has, unlike {name}", method=place)
        needs: Any = getattr(function, "needs", "embeddings")
        check_choice(f"--method {place}: needs", needs, ("embeddings", "means", "languages", "pooled"))
        FITTED[name], added[name] = FitMethod(partial(_fit, function), needs), pinned
    return added


def _fit(function: Callable[..., Transform], x: Mapping[str, Any], *, source: EncoderSpec | None = None) -> Transform:
    fit = function(x)
    return fit if fit.source else replace(fit, source=source)
