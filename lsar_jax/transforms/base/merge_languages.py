"""Merges the steps of two transforms that were fitted by one method on different languages."""

from dataclasses import replace

from lsar_jax.arrays import digest
from lsar_jax.transforms.base.fit import Fit
from lsar_jax.transforms.base.steps import Step, TransformStep

__all__ = ["merge_steps"]

StepsAndFits = tuple[tuple[TransformStep, ...], tuple[Fit, ...]]


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


def _merge(a: TransformStep, fit_a: Fit, b: TransformStep, fit_b: Fit) -> tuple[TransformStep, Fit]:
    if not fit_a.languages:  # the same in both
        return a, fit_a
    assert isinstance(a, Step), "no other step depends on the language"
    assert isinstance(b, Step), "no other step depends on the language"
    of_a, of_b = (
        {code: step.parts(row) for row, code in enumerate(fit.languages)} for step, fit in ((a, fit_a), (b, fit_b))
    )
    shared = [
        [part for name, part in step.arrays().items() if name not in (*step.tables(), "clusters")] for step in (a, b)
    ]
    if a.tables() != b.tables() or digest(*shared[0]) != digest(*shared[1]):
        raise ValueError(f"the two steps {fit_a} cannot be merged, because they do not have the same shared parts")
    # The target of aligned pairs, which they leave unchanged, may be in both.
    clashes = [code for code in of_a if code in of_b and digest(*of_a[code].values()) != digest(*of_b[code].values())]
    if clashes:
        raise ValueError(f"{fit_a} already knows {', '.join(clashes)}; fit the other transform without them")
    parts = dict(sorted((of_b | of_a).items()))
    fitted = dict(fit_a.fitted_on) | dict(fit_b.fitted_on)
    merged = replace(fit_a, languages=tuple(parts), fitted_on=tuple(sorted(fitted.items())))
    return a.with_languages(list(parts.values())), merged
