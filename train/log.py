"""The log of a run: JSON lines, cut back to those that the last checkpoint knows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lsar_jax.files import new_file
from train.patience import Progress

__all__ = ["Log"]


class Log:
    """An open log.

    Args:
      path: the file; lines past the first ``lines`` are dropped.
      lines: number of lines that the last checkpoint knows.

    Raises:
      ValueError: the file has fewer lines.
    """

    def __init__(self, path: Path, lines: int) -> None:
        kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines] if path.is_file() else []
        if len(kept) < lines:
            raise ValueError(
                f"{path} has {len(kept)} lines, and the last checkpoint knows of {lines}; choose another --out"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as partial:
            partial.write_text("".join(kept), encoding="utf-8")
        self.lines = len(kept)
        self._file = path.open("a", encoding="utf-8")

    def write(
        self, event: str, progress: Progress, terms: Mapping[str, Sequence[float]], steps_per_second: float | None
    ) -> None:
        """Writes the terms of each seed, and their sum without the discriminator's, which the heads do not see."""
        loss = np.sum([values for name, values in terms.items() if name != "discriminator"], axis=0).tolist()
        line = {"event": event, "epoch": progress.epoch, "step": progress.step, "loss": loss, "terms": dict(terms)}
        if steps_per_second is not None:
            line["steps_per_second"] = round(steps_per_second, 1)
        self._file.write(json.dumps(line | {"active": progress.active}) + "\n")
        self._file.flush()
        self.lines += 1

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
