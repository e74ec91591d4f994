"""How alike are meaning and language embeddings? Cosines between the outputs of both heads, and their plots.

Ki, Park and Kim 2024 compare them in Table 2, for English and each of the languages that the heads were trained on. All
cosines are of held-out pairs:

- *meaning and language*: of the two embeddings of a sentence; 0 if they are orthogonal, which ORACLE asks for;
- *meanings of translations* and *languages of translations*: of the two sides of a pair;
- *meanings of others* and *languages of others*: of two different sentences of a language, on average over all pairs of
  them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from eval.figures import leakage as draw
from eval.metrics import paired_cosine
from eval.task import Embedded
from lsar_jax.cli.console import print_table
from lsar_jax.geometry import expected_anisotropy
from train.disentangle.finished import PARTS, TrainedRun

__all__ = ["HeldOut", "draw_held_out", "print_similarities", "similarities"]

# Layer -> embeddings of held-out pairs: ``en`` and ``xx`` of each language.
HeldOut = Mapping[int, Embedded]
Sides = Sequence[Float[np.ndarray, "pair dim"]]


def similarities(
    runs: Sequence[TrainedRun], held_out: HeldOut, distinct: Int[np.ndarray, " row"]
) -> Iterator[tuple[TrainedRun, str, dict[str, float]]]:
    """Yields the cosines of each run in each language, as means over its seeds; those of English come first.

    Args:
      runs: the runs, with a meaning head and a language head for each seed.
      held_out: the pairs; the English sides of all languages count as one set.
      distinct: rows of that set that are different sentences.
    """
    for run in runs:
        x = held_out[run.layer]
        codes = [code for side, code in x if side == "xx"]
        found: dict[str, list[dict[str, float]]] = {code: [] for code in ("en", *codes)}
        for seed in run.seeds:
            parts = {key: [np.asarray(head(value)) for head in run.heads(seed)] for key, value in x.items()}
            english = [np.concatenate([parts["en", code][n] for code in codes])[distinct] for n in range(2)]
            other = [np.concatenate([parts["xx", code][n] for code in codes])[distinct] for n in range(2)]
            found["en"].append(_cosines(english, other))
            for code in codes:
                found[code].append(_cosines(parts["xx", code], parts["en", code]))
        for code, several in found.items():
            yield run, code, {name: float(np.mean([one[name] for one in several])) for name in several[0]}


def print_similarities(found: Sequence[tuple[TrainedRun, str, dict[str, float]]]) -> None:
    """Prints the means over English and all other languages, with a row for each run."""
    by_run: dict[tuple[int, str], list[dict[str, float]]] = {}
    for run, _, cosines in found:
        by_run.setdefault((run.layer, run.objective), []).append(cosines)
    names = list(found[0][2])
    rows: list[list[str | float]] = [
        [f"{layer}, {objective}", *(f"{np.mean([one[name] for one in several]):.3f}" for name in names)]
        for (layer, objective), several in by_run.items()
    ]
    print_table("Cosines on held-out pairs, mean over languages", ["layer, objective", *names], rows)


def draw_held_out(runs: Sequence[TrainedRun], held_out: HeldOut, codes: Sequence[str], pairs: int, out: Path) -> None:
    """Draws both embeddings of held-out pairs, in a panel for each language; one figure for each run."""
    drawn: set[tuple[int, str]] = set()
    for run in runs:
        if (run.layer, run.objective) in drawn:
            continue
        drawn.add((run.layer, run.objective))
        panels: dict[str, dict[str, Any]] = {}
        heads = run.heads(run.seeds[0])
        for code in codes:
            sides = {"English": held_out[run.layer]["en", code], code: held_out[run.layer]["xx", code]}
            panels[code] = {
                f"{'English' if name == 'English' else 'other'} {part}": np.asarray(head(x[:pairs]))
                for name, x in sides.items()
                for part, head in zip(PARTS, heads, strict=True)
            }
        name = "".join(letter if letter.isalnum() else "-" for letter in run.objective)
        title = f"Held-out pairs, {run.objective}, layer {run.layer}"
        draw.pair_planes(panels, title, out / f"held-out-{run.layer}-{name}.png")


def _cosines(own: Sides, other: Sides) -> dict[str, float]:
    """Returns the cosines of a language.

    Args:
      own: meanings and languages of its sentences.
      other: those of their translations.
    """
    cosines = {"meaning and language": float(paired_cosine(*own).mean())}
    for n, part in enumerate(PARTS):
        cosines[f"{part}s of translations"] = float(paired_cosine(own[n], other[n]).mean())
        cosines[f"{part}s of others"] = expected_anisotropy(own[n])
    return cosines
