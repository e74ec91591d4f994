"""The log of a run as JSON lines, truncated to the last checkpoint when the run resumes."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.files import write_text

__all__ = ["Log"]


class Log:
    """A log file open for appending, cut to its first ``lines``, until the stack ends; ``path`` None writes nothing.

    Terms that are ``apart`` are written, but do not count in the loss.

    Raises:
      ValueError: the file has fewer lines than that, or they are damaged.
    """

    def __init__(self, path: Path | None, lines: int, apart: Collection[str], stack: ExitStack) -> None:
        self.lines, self._apart, self._file = lines, apart, None
        if path is None:
            return
        valid = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if path.is_file() else []
        valid = list(takewhile(_is_line, valid[:lines]))
        if len(valid) < lines:
            raise ValueError(f"{path} is damaged: {len(valid)} of {lines} lines can be read; choose another --out")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(valid))
        self._file = stack.enter_context(path.open("a", encoding="utf-8"))

    def write(self, event: str, epoch: int, step: int, terms: Mapping[str, Sequence[float]], **more: Any) -> None:
        """Writes each seed's loss terms, and the sum of those that count in the loss."""
        self.lines += 1
        if self._file is not None:
            loss = np.sum([values for name, values in terms.items() if name not in self._apart], axis=0).tolist()
            line = {"event": event, "epoch": epoch, "step": step, "loss": loss, "terms": dict(terms), **more}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def _is_line(line: str) -> bool:
    """Whether a line is one of a log."""
    try:
        return {"event", "epoch", "step", "loss", "terms"} <= json.loads(line).keys()
    except (AttributeError, ValueError):
        return False
