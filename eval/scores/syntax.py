"""Syntax in the means of languages: its correlation with what LSAR removes and leaves (Xie et al. 2022)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.data.typology import syntactic_distances, syntax_correlation
from eval.fit_options import EVALUATED, FitOptions
from eval.task import Method, Metric, Panel, Score, Setting
from lsar_jax.console.output import console

__all__ = ["english_distances", "syntax_scores"]


def english_distances(
    codes: Sequence[str], uriel: Path | None, options: FitOptions
) -> tuple[dict[str, float], str] | None:
    """The syntactic distances from English and the name of the measure; None if unavailable, and prints why."""
    if options.fit_on == EVALUATED:
        why = "the language means would coincide, because LSAR is fitted on the measured sentences"
    elif "lsar" not in options.transforms:
        why = "it compares the parts that LSAR removes and leaves, but lsar is not among --transforms"
    elif "en" not in codes or len(codes) < 4:
        why = "it needs English and at least three other languages"
    else:
        try:
            return syntactic_distances(codes, precomputed=uriel)
        except ImportError as error:
            why = str(error)
    console.print(f"skipping the correlation with syntax: {why}")
    return None


def syntax_scores(
    methods: Sequence[Method],
    test: Mapping[str, Float[np.ndarray, "_ dim"]],
    setting: Setting,
    distances: Mapping[str, float],
    measure: str,
) -> Iterator[tuple[Method, Score] | Panel]:
    """Yields the correlation of syntactic similarity and the cosines of language means with English's."""
    drawn: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    means: dict[str, Float[np.ndarray, " dim"]] = {code: x.mean(axis=0) for code, x in test.items()}
    for method in (method for method in methods if method.name == "lsar"):
        left = {code: method(mean[None], code)[0] for code, mean in means.items()}
        gone = {code: means[code] - left[code] for code in means}
        where = f"layer {setting.spec.layer}, {method.label}"
        for what, vectors in (("removed", gone), ("left", left)):
            try:
                found = syntax_correlation(vectors, distances)
            except ValueError as error:  # one direction makes all cosines 1 or -1
                console.print(f"{where}: skipping the correlation with syntax in the part {what} by LSAR: {error}")
                continue
            yield method, Score(Metric(f"syntax, {what} ({measure})", "neither", unit=""), found.r, list(test), found.n)
            console.print(f"{where}: in the part {what}, r = {found.r:.3f} over {found.n} languages ({measure})")
            panels = drawn.setdefault(method.label, {})
            panels[f"the part {what} by {method.label}, r = {found.r:.3f}"] = found.points
    if drawn and setting.first:
        yield Panel("syntax", list(drawn.values()))
