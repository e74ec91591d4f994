"""Methods in part: at lower ranks, which the explorer has sliders for, and at strengths from 0 to 1.

Less of a transform leaves more of the query's language among its first results, which some searches want, and finds
fewer sentences of other languages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.arrays import log
from lsar_jax.measures.compared_methods import FITTED, Method, fit_methods
from lsar_jax.moments import Moments, moments_by_language, stack_means
from lsar_jax.report.held_out import measure_layer
from lsar_jax.report.measured import ByLanguage, Measured, spanned_rank
from lsar_jax.report.method_comparison import Comparison
from lsar_jax.transforms.base import Step
from lsar_jax.transforms.methods import METHODS, by_default

__all__ = [
    "BETWEEN", "DEFAULT_METHODS", "Front", "at_ranks", "fit_again", "fit_layers", "front_of", "options_of",
    "ranks_of", "slides", "strength_of",
]  # fmt: skip


# Strengths that are measured beside 0 and 1.
BETWEEN = (0.25, 0.5, 0.75)

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
                log.warning("the page is without %s, which cannot be fitted%s: %s", name, where, error)
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


def fit_again(method: Method, x: ByLanguage, moments: Mapping[str, Moments] | None = None) -> Method:
    """Fits a method with the same options on other text."""
    varied = FITTED[method.name].varied
    options = {varied: (method.parameters[varied],)} if varied in method.parameters else {}
    [again] = fit_methods(x, (method.name,), options, source=method.source, moments=moments)
    return again


def strength_of(entry: Measured) -> float:
    """The strength of what was measured: 0 of the original embeddings, and 1 of a whole transform."""
    return float(entry.method.parameters.get("strength", 1)) if entry.moves else 0.0


class Front(NamedTuple):
    """The shown transform at strengths.

    Attributes:
      entries: what was measured, from strength 0, the original embeddings, to 1; these alone if no transform is shown.
      chosen: the one to use.
    """

    entries: Sequence[Measured]
    chosen: Measured

    @property
    def rows(self) -> list[list[Any]]:
        """The strengths with the score in search, if any, and the own language's share."""
        marks = [" (chosen)" * (entry is self.chosen) for entry in self.entries]
        scores = ["-" if entry.search is None else entry.score for entry in self.entries]
        return [[f"{strength_of(e):g}{m}", s, e.own] for e, m, s in zip(self.entries, marks, scores, strict=True)]


def front_of(found: Comparison, own: float | None = None) -> Front:
    """Measures the shown transform at strengths, as all methods were.

    Chosen is all of it or, given a percentage ``own``, the one with the best search (without search, the strongest) of
    those that keep this share of neighbours in the query's language.

    Raises:
      ValueError: none keeps so much.
    """
    whole, embedded = found.shown, found.embedded

    def fit(x: ByLanguage, moments: Mapping[str, Moments]) -> list[Method]:
        return fit_again(whole.method, x, moments).at_strengths(BETWEEN)

    entries = [whole]
    if whole.moves:
        x, search = embedded.at(whole.layer), embedded.search_at(whole.layer)
        entries = [found.before, *measure_layer(found.folds, whole.spec, fit, x, search), whole]
    kept = [entry for entry in entries if own is None or entry.own >= own]
    if not kept:
        low, high = (f"{of([entry.own for entry in entries]):.1f}" for of in (min, max))
        label = f"{found.shown.label} keeps {low}% to {high}% of the neighbours in the query's language"
        raise ValueError(f"--prefer own {own:g}: {label}; give at most {high}")
    return Front(entries, kept[-1] if own is None or not found.metric else max(kept, key=lambda entry: entry.score))
