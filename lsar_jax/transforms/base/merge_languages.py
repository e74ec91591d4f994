"""Merges the steps of two transforms that were fitted by one method on different languages, and finds equal fits."""

from dataclasses import replace

from lsar_jax.arrays import digest
from lsar_jax.transforms.base.blend import Blend
from lsar_jax.transforms.base.fit import Fit
from lsar_jax.transforms.base.steps import Step, Steps, TransformStep

__all__ = ["applied_maps", "merge_steps"]

StepsAndFits = tuple[Steps, tuple[Fit, ...]]


def applied_maps(steps: Steps, fits: tuple[Fit, ...]) -> set[str]:
    """Returns a digest of what each step does, in each of its languages; see ``Transform.applied``."""
    result = set()
    for step, fit in zip(steps, fits, strict=True):
        # A strength is no fit.
        for row, code in enumerate(() if isinstance(step, Blend) else fit.languages or ("",)):
            if not code or code != dict(fit.parameters).get("target"):  # whose vectors stay as they are
                parts = step.parts(row) if code and isinstance(step, Step) else step.arrays()
                result.add(digest(fit.method, code, *parts.values()))
    return result


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


def _merge(
    a: TransformStep | Blend, fit_a: Fit, b: TransformStep | Blend, fit_b: Fit
) -> tuple[TransformStep | Blend, Fit]:
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
