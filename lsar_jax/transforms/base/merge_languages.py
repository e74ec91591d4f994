"""Merges the steps of two transforms that were fitted by one method on different languages."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from lsar_jax.arrays import digest
from lsar_jax.transforms.base.steps import AXES, AnyStep, Fit, by_row

__all__ = ["merge_steps"]

StepsAndFits = tuple[tuple[AnyStep, ...], tuple[Fit, ...]]


def merge_steps(first: StepsAndFits, second: StepsAndFits) -> StepsAndFits:
    """Returns the steps with the languages of both; see ``Transform.with_languages``."""
    for index, (step, fit) in enumerate(zip(*first, strict=True)):
        same = fit in second[1][index : index + 1] and digest(*step) == digest(*second[0][index])
        if not fit.languages and not same:
            new = ", ".join(sorted(set(dict(second[1][0].fitted_on)) - set(dict(fit.fitted_on))))
            raise ValueError(f"{fit} is one map, fitted on all its languages; fit it again with {new}")
    names = [" then ".join(map(str, fits)) for _, fits in (first, second)]
    if names[0] != names[1]:
        raise ValueError(f"the methods differ: {names[0]} and {names[1]}")
    steps, fits = zip(*(_merge(*pair) for pair in zip(*first, *second, strict=True)), strict=True)
    return steps, fits


def _merge(a: AnyStep, fit_a: Fit, b: AnyStep, fit_b: Fit) -> tuple[AnyStep, Fit]:
    if not fit_a.languages:  # the same in both
        return a, fit_a
    tables = [name for name in AXES if by_row(a, name)]
    shared = [name for name in AXES if name not in tables]
    if tables != [name for name in AXES if by_row(b, name)] or not _equal(a, b, shared):
        raise ValueError(f"the two steps {fit_a} cannot be merged, because they do not have the same shared parts")
    rows_a, rows_b = (_by_language(*pair, tables) for pair in ((a, fit_a), (b, fit_b)))
    # The target of aligned pairs, which they leave unchanged, may be in both.
    clashes = [
        code
        for code in sorted(rows_a.keys() & rows_b.keys())
        if not all(map(np.array_equal, rows_a[code].values(), rows_b[code].values()))
    ]
    if clashes:
        raise ValueError(f"{fit_a} already knows {', '.join(clashes)}; fit the other transform without them")
    rows = dict(sorted((rows_b | rows_a).items()))
    parts = {name: np.concatenate([part[name] for part in rows.values()]) for name in tables}
    if a.clusters is not None:
        counts = [len(part["shift"]) for part in rows.values()]
        parts["clusters"] = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    fitted = dict(fit_a.fitted_on) | dict(fit_b.fitted_on)
    step = a._replace(**{name: jax.device_put(part) for name, part in parts.items()})
    return step, replace(fit_a, languages=tuple(rows), fitted_on=tuple(sorted(fitted.items())))


def _by_language(step: AnyStep, fit: Fit, tables: list[str]) -> dict[str, dict[str, np.ndarray]]:
    owners = np.arange(len(fit.languages)) if step.clusters is None else np.asarray(step.clusters)
    return {
        code: {name: np.asarray(getattr(step, name))[owners == number] for name in tables}
        for number, code in enumerate(fit.languages)
    }


def _equal(a: AnyStep, b: AnyStep, names: Sequence[str]) -> bool:
    mine, theirs = (digest(*(getattr(step, name, None) for name in names)) for step in (a, b))
    return mine == theirs
