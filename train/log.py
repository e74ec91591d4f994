"""The log of a run as JSON lines, truncated to the last checkpoint when the run resumes."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.files import write_text

__all__ = ["Log"]


class Log:
    """A log file open for appending, cut to its first ``lines``; ``path`` None writes nothing.

    Terms that are ``apart`` are written, but do not count in the loss.

    Raises:
      ValueError: the file has fewer lines than that, or they are damaged.
    """

    def __init__(self, path: Path | None, lines: int, apart: Collection[str] = ()) -> None:
        self.lines, self._apart, self._file = lines, apart, None
        if path is None:
            return
        try:
            valid = path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines] if path.is_file() else []
            _ = [[line[key] for key in ("event", "epoch", "step", "loss", "terms")] for line in map(json.loads, valid)]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error!r}; choose another --out") from error
        if len(valid) < lines:
            raise ValueError(
                f"{path} has {len(valid)} lines, but the last checkpoint was saved after {lines}; choose another --out"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(valid))
        self._file = path.open("a", encoding="utf-8")

    def write(self, event: str, epoch: int, step: int, terms: Mapping[str, Sequence[float]], **more: Any) -> None:
        """Writes each seed's loss terms, and the sum of those that count in the loss."""
        self.lines += 1
        if self._file is not None:
            loss = np.sum([values for name, values in terms.items() if name not in self._apart], axis=0).tolist()
            line = {"event": event, "epoch": epoch, "step": step, "loss": loss, "terms": dict(terms), **more}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
