"""SHIFT: move each language by its mean difference from its translations.

"SHIFT" (Findings of EMNLP 2026, arXiv 2606.18801): with passages of a language l aligned to translations in a source
language, embedded with the prefix of documents and not normalised::

    v_l = mean(x_l) - mean(x_source),   y = x - alpha v_l

for the embeddings of l; the source language's stay unchanged. With aligned pairs the content of both sides is the same,
so that v_l holds only the language. If all languages are aligned to the same sentences and all vectors are moved, it
equals Centered up to a constant.

As published, documents alone are moved, not the queries, documents in other languages stay (``others_stay``), and alpha
is chosen for each encoder, from 0.1 to 1; it is 0.6 for multilingual-e5-large: ``fit_shift(...).at_strength(0.6)``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lsar_jax.languages import canonical_keys, language_code
from lsar_jax.moments import Moments, moments_by_language
from lsar_jax.shapes import Embeddings
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Step, Transform

__all__ = ["fit_shift"]


def fit_shift(
    pairs: Mapping[str, tuple[Embeddings | Moments, Embeddings | Moments]],
    target: str = "en",
    *,
    others_stay: bool = False,
    source: EncoderSpec | None = None,
    precise: bool = False,
) -> Transform:
    """Fits ``y = x - v_l``, with the mean difference v_l between a language and its translations.

    The transform needs the language of each vector. Apply it to documents alone to search them with queries in the
    target language, or to all vectors for queries in any language.

    Args:
      pairs: mapping from language to its embeddings ``[n, dim]`` and its translations' into ``target``,
        row by row, or to the moments of both.
      target: the language that stays unchanged; the transform knows it too.
      others_stay: whether vectors in any other language stay unchanged too, as published, instead of being an error.
      source: spec of the embeddings' encoder; saved, and checked on use.
      precise: whether to sum embeddings in float64; see ``lsar_jax.moments``.

    Raises:
      ValueError: there are no pairs, sides differ in number or width, or an array or code is invalid.

    Example:
      >>> english = np.random.default_rng(0).normal(size=(20, 4))
      >>> german = english + [1, 2, 3, 4]  # the same content, moved
      >>> shift = lj.transforms.fit_shift({"de": (german, english)})
      >>> bool(np.allclose(shift(german, "de"), english, atol=1e-5))
      True
    """
    target = language_code(target)
    by_code, moments, targets = aligned_sides(pairs, target, precise=precise)
    shifts = {code: m.mean - targets[code].mean for code, m in moments.items()}
    shifts = dict(sorted((shifts | {target: np.zeros(next(iter(moments.values())).dim)}).items()))
    others = {"others": target} if others_stay else {}
    fit = replace(Fit.of("shift", moments, by_language=True, target=target, **others), languages=tuple(shifts))
    step = Step.of(shift=np.stack(list(shifts.values())))
    return Transform((step,), (fit,), source).with_sample(rows_of_pairs(by_code, target))


def rows_of_pairs(pairs: Mapping[str, tuple], target: str) -> dict[str, Embeddings | Moments]:
    """Returns the embeddings of each language, and of the first language's translations, by code."""
    return {code: sides[0] for code, sides in pairs.items()} | {target: next(iter(pairs.values()))[1]}


def aligned_sides(
    pairs: Mapping[str, tuple], target: str, *, precise: bool = False, embeddings: bool = False
) -> tuple[dict[str, tuple], dict[str, Moments], dict[str, Moments]]:
    """Checks pairs of aligned rows; returns them by code, the moments of each language, and of its translations."""
    by_code = canonical_keys(pairs)
    if target in by_code:
        raise ValueError(f"{target!r} is the target itself; give pairs of the other languages")
    for code, sides in by_code.items():
        if not isinstance(sides, tuple | list) or len(sides) != 2:
            raise ValueError(f"{code}: expected (embeddings in {code}, embeddings in {target})")
    options: Any = {"least": 1, "precise": precise, "embeddings": embeddings}
    moments, targets = (
        moments_by_language({code: sides[side] for code, sides in by_code.items()}, **options) for side in (0, 1)
    )
    for code, m in moments.items():
        shapes = [(side.count, side.dim) for side in (m, targets[code])]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{code}: the shapes of the sides are {shapes[0]} and {shapes[1]}; give aligned rows")
    return by_code, moments, targets
