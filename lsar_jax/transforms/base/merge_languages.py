"""Merges the steps of two transforms that were fitted by one method on different languages."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from lsar_jax.transforms.base.affine import AXES, Step, by_row
from lsar_jax.transforms.base.fit_record import Fit

__all__ = ["merge_steps"]

StepsAndFits = tuple[tuple[Step, ...], tuple[Fit, ...]]


def merge_steps(first: StepsAndFits, second: StepsAndFits) -> StepsAndFits:
    """Returns the steps with the languages of both; see ``Transform.with_languages``.

    Raises:
      ValueError: the methods differ, a step is shared by all languages, or both have a language with different arrays.
    """
    for index, fit in enumerate(first[1]):
        if not fit.languages and not (
            index < len(second[1]) and fit == second[1][index] and _same(first[0][index], second[0][index])
        ):
            new = ", ".join(sorted(set(dict(second[1][0].fitted_on)) - set(dict(fit.fitted_on))))
            raise ValueError(f"{fit} is one map, fitted on all its languages; fit it again with {new}")
    names = [" then ".join(map(str, fits)) for _, fits in (first, second)]
    if names[0] != names[1]:
        raise ValueError(f"the methods differ: {names[0]} and {names[1]}")
    steps, fits = zip(*(_join(*pair) for pair in zip(*first, *second, strict=True)), strict=True)
    return steps, fits


def _same(a: Step, b: Step) -> bool:
    return all(
        one is other or (one is not None and other is not None and np.array_equal(one, other))
        for one, other in zip(a, b, strict=True)
    )


def _join(a: Step, fit_a: Fit, b: Step, fit_b: Fit) -> tuple[Step, Fit]:
    if not fit_a.languages:  # the same in both
        return a, fit_a
    both = sorted(set(fit_a.languages) & set(fit_b.languages))
    known = [code for code in both if not _same_rows(a, b, fit_a, fit_b, code)]
    if known:
        raise ValueError(f"{fit_a} already knows {', '.join(known)}; fit the other transform without them")
    languages = tuple(sorted({*fit_a.languages, *fit_b.languages}))
    # The language of every row, first those of a; rows that both have are taken from a.
    owners = [languages.index(code) for code in _owners(a, fit_a)]
    fresh = [row for row, code in enumerate(_owners(b, fit_b)) if code not in both]
    owners += [languages.index(_owners(b, fit_b)[row]) for row in fresh]
    order = np.argsort(owners, kind="stable")
    parts = {}
    for name in AXES:
        one, other = getattr(a, name), getattr(b, name)
        if (one is None) != (other is None) or by_row(a, name) != by_row(b, name):
            raise ValueError(f"the two steps {fit_a} cannot be merged, because they do not have the same parts")
        if one is None:
            continue
        if by_row(a, name):
            parts[name] = jnp.asarray(np.concatenate([np.asarray(one), np.asarray(other)[np.array(fresh, int)]])[order])
        elif np.array_equal(one, other):
            parts[name] = one
        else:
            raise ValueError(f"the two steps {fit_a} cannot be merged, because their shared {name} differs")
    if a.clusters is not None:
        parts["clusters"] = jnp.asarray(np.array(owners, np.int32)[order])
    fitted = dict(fit_a.fitted_on) | dict(fit_b.fitted_on)
    return Step(**parts), replace(fit_a, languages=languages, fitted_on=tuple(sorted(fitted.items())))


def _owners(step: Step, fit: Fit) -> list[str]:
    """Returns the language of each row of the tables."""
    if step.clusters is None:
        return list(fit.languages)
    return [fit.languages[index] for index in np.asarray(step.clusters)]


def _same_rows(a: Step, b: Step, fit_a: Fit, fit_b: Fit, code: str) -> bool:
    """Whether both treat a language alike, such as the target, which aligned pairs leave unchanged."""
    rows = [[row for row, owner in enumerate(_owners(*one)) if owner == code] for one in ((a, fit_a), (b, fit_b))]
    return all(
        np.array_equal(np.asarray(getattr(a, name))[rows[0]], np.asarray(getattr(b, name))[rows[1]])
        for name in AXES
        if by_row(a, name) and by_row(b, name)
    )
