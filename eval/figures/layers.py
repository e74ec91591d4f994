"""Figures of how the original embeddings change from layer to layer."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.figures.style import page
from lsar_jax.geometry import anisotropy_by_language, isoscore, outlier_dimensions
from lsar_jax.report.planes import lines

__all__ = ["draw_layers"]


def draw_layers(x: Mapping[str, Float[np.ndarray, "layer _ dim"]], encoder: str, out: Path) -> None:
    """Draws ``layers.png`` and ``means.png``."""
    layers = range(len(next(iter(x.values()))))
    pools = [{code: value[layer] for code, value in x.items()} for layer in layers]
    cosines = [anisotropy_by_language(pool) for pool in pools]
    overall = np.array([np.mean([rows.mean(axis=0) for rows in pool.values()], axis=0) for pool in pools])
    outliers = np.asarray(outlier_dimensions(overall))  # [layer, dim]
    with page(out / "layers.png", size=(5.6, 3.8), title=f"Mean cosine of two sentences ({encoder})") as [[axis]]:
        names = {"within a language": "within", "across languages": "across", "all sentences": "overall"}
        curves = {name: [getattr(cosine, field) for cosine in cosines] for name, field in names.items()}
        curves["IsoScore"] = [isoscore(np.concatenate(list(pool.values()))) for pool in pools]
        lines(axis, {name: dict(enumerate(values)) for name, values in curves.items()})
        axis.axhline(0, color="0.8", lw=0.8, zorder=0)
        axis.set(xlabel="layer", xticks=layers, ylabel="mean cosine; IsoScore")
        axis.legend()
    _draw_means(overall, outliers, f"Mean embedding of each layer ({encoder})", out / "means.png")


def _draw_means(means: Float[np.ndarray, "layer dim"], outliers: np.ndarray, title: str, path: Path) -> None:
    """Draws the mean embedding of each layer by dimension, with the largest outliers labelled.

    The band is the mean and three standard deviations over dimensions (Hämmerl et al. 2023, Figures 2 and 4).
    """
    rows = -(-len(means) // 4)
    with page(path, rows, 4, size=(11.6, 1.7 * rows), title=title, sharex=True) as axes:
        for layer, (axis, values, flags) in enumerate(zip(axes.flat, means, outliers, strict=False)):
            dimensions = np.flatnonzero(flags)
            axis.axhspan(*values.mean() + values.std(ddof=1) * np.array([-3, 3]), color="0.9", lw=0)
            axis.plot(values, lw=0.5, color="0.35")
            axis.plot(dimensions, values[dimensions], "o", ms=2.5, color="tab:red")
            for d in dimensions[np.argsort(-np.abs(values[dimensions]))][:3]:
                axis.annotate(f"{d}", (d, values[d]), fontsize=6, color="tab:red")
            axis.set_title(f"layer {layer}", fontsize=8)
            axis.tick_params(labelsize=6)
