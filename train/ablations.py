r"""Trains every objective in the paper's table and its ablations, with several seeds each.

    python -m train.ablations --layers 8 12 --seeds 5 --bases dream none \
        --learning-rate 1e-3 --epochs 30 --out results/oracle
    python -m train.ablations --layers 8 --seeds 5 --bases meat \
        --learning-rate 1e-4 --patience 30 --out results/oracle
    python -m train.ablations --layers 12 --seeds 5 --bases meat \
        --learning-rate 1e-4 --patience 100 --out results/oracle
    python -m eval leakage results/oracle/layer-8/* results/oracle/layer-12/* --out results/leakage

DREAM and MEAT are trained alone, with ORACLE in both variants of its separation, with ORACLE minus one of its terms,
and in ORACLE's released configurations, which use the separation, the clustering and the DREAM of its code. Without a
base, ORACLE is trained alone: by the paper's equations, and by the five stand-alone objectives of its code. Rows that
have already been trained are not trained again.
"""

import re
import sys
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

from lsar_jax.console.output import console
from lsar_jax.console.run import run
from lsar_jax.objectives.objective import ALONE, Base, Objective
from train.disentangle.__main__ import Disentangle, HeadsOptions
from train.loop import Trained

__all__ = ["Ablations", "objectives"]


def objectives(base: Base) -> list[Objective]:
    """Returns the rows of the table with a base; with ``none``, ORACLE alone."""
    if base == "none":
        return [Objective("none", True), *ALONE.values()]
    halves = base == "dream"
    return [
        Objective(base, False),
        *(Objective(base, True, by, without=no) for by in ("paper", "code") for no in ((), ("clustering",))),
        Objective(base, True, without=("separation",)),
        *([Objective(base, False, halves=True)] if halves else []),
        Objective(base, True, "code", "all", halves=halves),
    ]


@dataclass(frozen=True)
class Ablations(HeadsOptions):
    """Trains every row of the table, each in its own folder below ``out/layer-N``, with the options of a single run.

    Attributes:
      seeds: number of seeds, trained in parallel in one program.
      layers: hidden-state layers to train on.
      bases: train only the rows with these bases; none is ORACLE alone.
      out: folder for all runs.
    """

    seeds: int = 5
    layers: tuple[int, ...] = (8, 12)
    bases: tuple[Base, ...] = ("dream", "meat", "none")
    out: Path = Path("results/oracle")

    # What --help shows.
    essential = (
        "bases", "data", "held_out", "encoder", "layers", "learning_rate", "patience", "epochs", "seeds", "out"
    )  # fmt: skip

    def rows(self) -> list[Disentangle]:
        """Returns the run of every row, with its options still unchecked."""
        shared = {option.name: getattr(self, option.name) for option in fields(HeadsOptions)}
        rows = []
        for layer in self.layers:
            for objective in (row for base in self.bases for row in objectives(base)):
                name = re.sub(r"[^a-z0-9]+", "-", objective.name.replace(" - ", " without ")).strip("-")
                losses = asdict(objective)
                losses["objective"] = losses.pop("base")
                rows.append(Disentangle(**shared, **losses, layer=layer, out=self.out / f"layer-{layer}" / name))
        return rows

    def run(self) -> list[Trained]:
        """Trains every row, or resumes it."""
        rows = self.rows()
        trained: list[Trained] = []
        for number, row in enumerate(rows, 1):
            console.rule(f"{number} of {len(rows)}: {row.out}")
            trained.append(row.run())
        return trained


# Runs the command with these arguments; returns its exit status.
main = partial(run, Ablations, "python -m train.ablations", description=__doc__)


if __name__ == "__main__":
    sys.exit(main())
