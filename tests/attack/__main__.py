"""Attacks the library at random, and prints by area how many attacks were made, held, and broke.

    python -m tests.attack --cases 2000

An attack that broke is printed with its number; ``--area NAME --first NUMBER --cases 1`` makes it again.
"""

import logging
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from tests.attack.areas import AREAS, attack
from tests.attack.areas.outcome import Broke
from tests.attack.damage import can_mount

# Areas whose attacks take a second or more have fewer of them.
SHARES = {
    "kills": 0.15, "training kills": 0.04, "encode kills": 0.04, "mining kills": 0.04, "full disks": 0.5,
    "training checkpoints": 0.5, "forks": 0.3,
}  # fmt: skip


@dataclass(frozen=True)
class Attack:
    """Attacks the library at random.

    Attributes:
      cases: number of attacks, over all areas.
      seed: random seed.
      area: attack only this area.
      first: number of the first attack in an area.
    """

    cases: int = 2000
    seed: int = 0
    area: str = ""
    first: int = 0

    def run(self) -> int:
        """Prints the table; returns the number of attacks that broke."""
        logging.getLogger("lsar_jax").setLevel(logging.ERROR)
        names = [self.area] if self.area else list(AREAS)
        if names[0] not in AREAS:
            raise SystemExit(f"--area {self.area} is not one of {', '.join(AREAS)}")
        console, table = Console(), Table("area", "tried", "held", "refused", "broke", "seconds")
        where = Path(tempfile.mkdtemp(prefix="attack-"))
        if "full disks" in names and not can_mount(where / "tried"):
            console.print("full disks: not tried, because only root can mount disks")
            names.remove("full disks")
        whole = sum(SHARES.get(name, 1.0) for name in names)
        totals = np.zeros(3, int)
        for name in names:
            count = (
                -(-round(self.cases * SHARES.get(name, 1.0)) // max(1, round(whole))) if not self.area else self.cases
            )
            refusals = broke = 0
            started = time.perf_counter()
            for number in range(self.first, self.first + count):
                folder = where / f"{list(AREAS).index(name)}-{number}"
                folder.mkdir()
                try:
                    refusals += attack(
                        name, folder, np.random.default_rng([self.seed, list(AREAS).index(name), number])
                    )
                except Broke as error:
                    broke += 1
                    console.print(f"{name}, {number}: {error}", markup=False, highlight=False)
                shutil.rmtree(folder, ignore_errors=True)
            seconds = time.perf_counter() - started
            table.add_row(name, *map(str, (count, count - broke, refusals, broke)), f"{seconds:.0f}")
            totals += [count, refusals, broke]
        shutil.rmtree(where, ignore_errors=True)
        table.add_row("all", str(totals[0]), str(totals[0] - totals[2]), str(totals[1]), str(totals[2]), "")
        console.print(table)
        return int(totals[2])


if __name__ == "__main__":
    sys.exit(min(1, tyro.cli(Attack, prog="python -m tests.attack").run()))
