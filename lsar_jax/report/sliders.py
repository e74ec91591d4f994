"""The methods of the explorer, fitted at each layer, and their sliders of ranks."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lsar_jax.measures.compared_methods import Method, fit_methods
from lsar_jax.moments import moments_by_language, stack_means
from lsar_jax.report.measured import ByLanguage, spanned_rank
from lsar_jax.transforms.base import Step
from lsar_jax.transforms.methods import METHODS, by_default

__all__ = ["DEFAULT_METHODS", "at_ranks", "fit_layers", "options_of", "ranks_of", "slides"]

_log = logging.getLogger("lsar_jax")

# Those with a slider first.
DEFAULT_METHODS = tuple(sorted(by_default("explorer"), key=lambda name: METHODS[name].varied != "rank"))


def fit_layers(
    by_layer: Sequence[ByLanguage], names: Sequence[int | str], given: Sequence[str] | None
) -> list[list[Method]]:
    """Fits each method at each layer, at its highest rank; without given names, those that can be at every layer."""
    fitted: list[dict[str, Method]] = []
    for x, layer in zip(by_layer, names, strict=True):
        methods = DEFAULT_METHODS if given is None else given
        second = any(METHODS[name].needs in ("pooled", "languages") for name in methods)
        moments = moments_by_language(x, least=2, second_moment=second)
        top = spanned_rank(stack_means(moments))
        if not top:
            raise ValueError(f"the means of {', '.join(moments)} do not differ at layer {layer}; leave it out")
        fitted.append({})
        for name in methods:
            try:
                [fitted[-1][name]] = fit_methods(
                    x, (name,), {"rank": (top,), "seed": (0,)}, source=None, moments=moments
                )
            except ValueError as error:
                where = f" at layer {layer}" if layer != "" else ""
                if given is not None:
                    raise ValueError(f"{name} cannot be fitted{where}: {error}; leave it out of the methods") from error
                _log.warning("the page is without %s, which cannot be fitted%s: %s", name, where, error)
    common = [name for name in fitted[0] if all(name in entry for entry in fitted)]
    return [[entry[name] for name in common] for entry in fitted]


def slides(method: Method) -> bool:
    """Whether a fit of lower rank has the first directions of the whole fit; variants of a method do not."""
    fit = METHODS.get(method.name)
    return fit is not None and fit.varied == "rank" and not fit.fixed


def ranks_of(method: Method, most: int) -> list[int] | None:
    """The ranks of the slider, of many ranks evenly spaced ones; None for a method without one."""
    if not slides(method):
        return None
    top = int(method.parameters["rank"])
    return np.unique(np.linspace(0, top, min(most, top + 1)).round().astype(int)).tolist()


def at_ranks(method: Method, ranks: Sequence[int] | None) -> list[Method]:
    """The method that removes only the first directions; the others become zero, so that all ranks share a program."""
    if method.transform is None or ranks is None:
        return [method]
    result = []
    for rank in ranks:
        steps = []
        for step in method.transform.steps:
            assert isinstance(step, Step), "methods with a rank have these steps"
            bases = {name: np.asarray(part) for name, part in step.arrays().items() if name in ("basis", "dual")}
            bases = {name: part * (np.arange(part.shape[-1]) < rank) for name, part in bases.items()}
            steps.append(step._replace(**bases))
        result.append(replace(method, transform=replace(method.transform, steps=tuple(steps))))
    return result


def options_of(method: Method) -> dict[str, Any]:
    """The options of ``lsar-jax fit`` that fit it; the page fills in the rank."""
    if slides(method):
        return {"rank": "{rank}"}
    return {name: method.parameters[name] for name in ("rank", "seed") if name in method.parameters}
