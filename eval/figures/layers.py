"""Figures, a table and a file of how the original embeddings change from layer to layer."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures import geometry as draw
from lsar_jax.cli.console import print_table
from lsar_jax.files import write_text
from lsar_jax.geometry import anisotropy_by_language, expected_contributions, isoscore, outlier_dimensions

__all__ = ["draw_layers"]


def draw_layers(x: Mapping[str, Float[np.ndarray, "layer _ dim"]], encoder: str, out: Path) -> None:
    """Draws ``layers.png`` and ``means.png``, writes ``dimensions.jsonl``, and prints a table.

    Args:
      x: language -> its original embeddings at layers 0, 1, 2 and so on.
      encoder: name of the encoder, for the titles.
      out: folder to write to.
    """
    layers = range(len(next(iter(x.values()))))
    parts = [{code: value[layer] for code, value in x.items()} for layer in layers]
    cosines = [anisotropy_by_language(part) for part in parts]
    scores = [isoscore(np.concatenate(list(part.values()))) for part in parts]
    curves = {
        "within a language": [c.within for c in cosines],
        "across languages": [c.across for c in cosines],
        "all sentences": [c.overall for c in cosines],
        "IsoScore": scores,
    }
    draw.layer_curves(curves, layers, f"Mean cosine of two sentences ({encoder})", out / "layers.png")
    of_language = np.array([[rows.mean(axis=0) for rows in part.values()] for part in parts])
    means = of_language.mean(axis=1)
    flagged = np.asarray(outlier_dimensions(means))
    draw.layer_means(means, flagged, layers, f"Mean embedding of each layer ({encoder})", out / "means.png")
    lines = []
    for layer, part, own in zip(layers, parts, of_language, strict=True):
        for code, mean, flags in zip(part, own, np.asarray(outlier_dimensions(own)), strict=True):
            shares = np.asarray(expected_contributions(part[code]))
            entry = {
                "layer": layer,
                "language": code,
                "outliers": {int(d): round(float(mean[d]), 4) for d in np.flatnonzero(flags)},
                "contributions": {int(d): round(float(shares[d]), 4) for d in np.argsort(-shares)[:10]},
            }
            lines.append(json.dumps(entry) + "\n")
    write_text(out / "dimensions.jsonl", "".join(lines))
    rows: list[list[str | float]] = [
        [f"{layer}", f"{c.within:.2f}", f"{c.across:.2f}", f"{c.overall:.2f}", f"{score:.3f}", _named(mean, flags)]
        for layer, c, score, mean, flags in zip(layers, cosines, scores, means, flagged, strict=True)
    ]
    print_table(
        "Original embeddings by layer",
        ["layer", "within", "across", "overall", "IsoScore", "outliers (mean)"],
        rows,
    )


def _named(mean: Float[np.ndarray, " dim"], out: np.ndarray) -> str:
    order = np.argsort(-np.abs(mean))
    return ", ".join(f"{d} ({mean[d]:.2f})" for d in order if out[d]) or "none"
