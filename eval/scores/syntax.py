"""URIEL's signals in the means of languages: their correlation with what LSAR removes and leaves (Xie et al. 2022).

In what LSAR removes, the paper finds no prominent correlation along a single direction. Along one, the likeness of two
languages is minus the distance of their means, as a cosine is 1 or -1 there; the score is the largest of all directions
in magnitude, which grows with their number by chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.data.typology import Signals, english_cosines, uriel_correlation, uriel_distances
from eval.fit_options import EVALUATED, FitOptions
from eval.task import Method, Metric, Panel, Score, Setting
from lsar_jax.console.output import console

__all__ = ["english_distances", "syntax_scores"]


def english_distances(codes: Sequence[str], uriel: Path | None, options: FitOptions) -> Signals:
    """The distances from English and the names of their measures; empty if unavailable, and prints why."""
    if options.fit_on == EVALUATED:
        why = "the language means would coincide, because LSAR is fitted on the measured sentences"
    elif "lsar" not in options.transforms:
        why = "it compares the parts that LSAR removes and leaves, but lsar is not among --transforms"
    elif "en" not in codes or len(codes) < 4:
        why = "it needs English and at least three other languages"
    else:
        try:
            return uriel_distances(codes, precomputed=uriel)
        except ImportError as error:
            why = str(error)
    console.print(f"skipping the correlation with syntax: {why}")
    return {}


def syntax_scores(
    methods: Sequence[Method], test: Mapping[str, Float[np.ndarray, "_ dim"]], setting: Setting, signals: Signals
) -> Iterator[tuple[Method, Score] | Panel]:
    """Yields the correlation of each kind of similarity to English and the likeness of language means to English's."""
    drawn: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    means: dict[str, Float[np.ndarray, " dim"]] = {code: x.mean(axis=0) for code, x in test.items()}
    for method in (method for method in methods if method.name == "lsar"):
        where = f"layer {setting.spec.layer}, {method.label}"
        for kind, (distances, measure) in signals.items():
            for part, likenesses in _parts(method, means).items():
                try:
                    tried = [uriel_correlation(likeness, distances) for likeness in likenesses]
                except ValueError as error:  # one direction makes all cosines 1 or -1
                    console.print(f"{where}: skipping the correlation with {kind}, {part}: {error}")
                    continue
                r, points = max(tried, key=lambda found: abs(found[0]))
                metric = Metric(f"{kind}, {part} ({measure})", "neither", unit="")
                yield method, Score(metric, r, list(test), len(points))
                console.print(f"{where}: {kind}, {part}: r = {r:.3f} over {len(points)} languages ({measure})")
                if kind == "syntax" and part in ("removed", "left"):
                    drawn.setdefault(method.label, {})[f"the part {part} by {method.label}, r = {r:.3f}"] = points
    if drawn and setting.first:
        yield Panel("syntax", list(drawn.values()))


def _parts(method: Method, means: Mapping[str, Float[np.ndarray, " dim"]]) -> dict[str, list[dict[str, float]]]:
    """The likeness to English in the parts that LSAR removes and leaves, and along each direction that it removes."""
    left = {code: method(mean[None], code)[0] for code, mean in means.items()}
    gone = {code: means[code] - left[code] for code in means}
    off = {code: mean - means["en"] for code, mean in means.items() if code != "en"}
    assert method.transform is not None
    basis = np.asarray(method.transform.steps[0].arrays()["basis"])
    along = [{code: -abs(float(of @ direction)) for code, of in off.items()} for direction in basis.T]
    return {"removed": [english_cosines(gone)], "left": [english_cosines(left)], "along one direction": along}
