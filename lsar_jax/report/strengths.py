"""The recommended transform at strengths between the original embeddings and all of it.

Less of it leaves more of the query's language among its first results, which some searches want, and finds fewer
sentences of other languages.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lsar_jax.measures.compared_methods import FITTED, Method, fit_methods
from lsar_jax.moments import Moments
from lsar_jax.report.held_out import measure_layer
from lsar_jax.report.measured import ByLanguage, Measured
from lsar_jax.report.method_comparison import Comparison

__all__ = ["Front", "at_strengths", "front_of", "strength_of"]

_BETWEEN = (0.25, 0.5, 0.75)


def at_strengths(method: Method) -> list[Method]:
    """The method with a quarter, a half and three quarters of its transform."""
    assert method.transform is not None
    return [Method.of(method.name, method.transform.at_strength(strength)) for strength in _BETWEEN]


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

    def __str__(self) -> str:
        columns = [[f"{strength_of(entry):g}", f"{entry.score:.1f}", f"{entry.own:.1f}"] for entry in self.entries]
        strengths, scores, own = (", ".join(values) for values in zip(*columns, strict=True))
        search = "" if self.chosen.search is None else f"search {scores}; "
        at = f"Strength {strengths}: {search}own language among neighbours {own}%."
        return f"{at} Chosen: {strength_of(self.chosen):g}."


def front_of(found: Comparison, own: float | None = None) -> Front:
    """Measures the shown transform at strengths, as all methods were.

    Chosen is all of it or, given a percentage ``own``, the one with the best search (without search, the strongest) of
    those that keep this share of neighbours in the query's language.

    Raises:
      ValueError: none keeps so much.
    """
    entries = _at_strengths(found)
    kept = [entry for entry in entries if own is None or entry.own >= own]
    if not kept:
        low, high = (f"{of([entry.own for entry in entries]):.1f}" for of in (min, max))
        label = f"{found.shown.label} keeps {low}% to {high}% of the neighbours in the query's language"
        raise ValueError(f"--prefer own {own:g}: {label}; give at most {high}")
    return Front(entries, kept[-1] if own is None or not found.metric else max(kept, key=lambda entry: entry.score))


def _at_strengths(found: Comparison) -> list[Measured]:
    whole = found.shown
    if not whole.moves:
        return [whole]
    varied = FITTED[whole.method.name].varied
    options = {varied: (whole.method.parameters[varied],)} if varied else {}

    def fit(x: ByLanguage, moments: Mapping[str, Moments]) -> list[Method]:
        [method] = fit_methods(x, (whole.method.name,), options, source=whole.method.source, moments=moments)
        return at_strengths(method)

    embedded = found.embedded
    [number] = [number for number, spec in enumerate(embedded.specs) if spec.layer == whole.layer]
    reference = {code: rows[number] for code, rows in embedded.reference_x.items()}
    return [found.before, *measure_layer(found.folds, whole.spec, fit, embedded.at(whole.layer), reference), whole]
