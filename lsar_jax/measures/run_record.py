"""The record of a run beside its results, so that a run with other options replaces them only when asked."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lsar_jax.embeddings.job import changed_options
from lsar_jax.files import check_outside, check_parent, read_json, sha256, text_sha256, write_json

__all__ = ["already_run", "digest_of", "record", "recorded"]

_RESULTS = "results.jsonl"
_RECORD = "run.json"
_KEPT = (_RESULTS, "queries.npz")
# Options that do not change what is measured.
_FREE = ("out", "overwrite", "cache", "checkpoint_seconds", "prefer")


@contextmanager
def recorded(command: Any) -> Iterator[None]:
    """Creates the folder of a command's results, and records its options once they are written.

    Args:
      command: a dataclass of options with ``out``, the folder of its results, and ``overwrite``.
    """
    _check_folder(command)
    before, inputs = _digest(command.out), _inputs(command)
    complete = False
    try:
        yield
        complete = True
    finally:
        # A figure may fail after the results are written; they are those of these options all the same. A run that was
        # killed before it wrote its record leaves that of other results.
        if complete or _digest(command.out) != before:
            record(command, complete=complete, inputs=inputs)


def record(command: Any, *, complete: bool = False, inputs: dict[str, list[str]] | None = None) -> None:
    """Records the options of results that are written, by default before the end: a kill then loses nothing."""
    made = {"options": _options(command), "version": version("lsar_jax"), "results": _digest(command.out)}
    write_json(command.out / _RECORD, made | {"complete": complete, "inputs": inputs or _inputs(command)})


def _check_folder(command: Any) -> None:
    if encoder := getattr(command, "encoder", ""):
        check_outside(command.out, Path(encoder))
    command.out.mkdir(parents=True, exist_ok=True)
    if not os.access(command.out, os.W_OK | os.X_OK):
        raise PermissionError(f"files cannot be written in {command.out}; choose another --out")
    figures = sorted([*command.out.glob("*.png"), *command.out.glob("*.pdf")])
    there = [path for name in _KEPT if os.path.lexists(path := command.out / name)] + figures
    for path in (command.out / _RESULTS, command.out / _RECORD, *there):
        check_parent(path)
    if not there or command.overwrite:
        return
    why = "exists, and its options are not known"
    if (old := _record(command.out).get("options")) is not None:
        difference = changed_options(old, _options(command))
        why = f"was made with other options: {difference}" if difference else ""
    if why:
        raise FileExistsError(f"{there[0]} {why}; choose another --out, or replace it with --overwrite")


def already_run(command: Any) -> bool:
    """Returns whether the folder has complete results from the same options, version and input files."""
    made = {"options": _options(command), "version": version("lsar_jax"), "complete": True, "inputs": _inputs(command)}
    return _digest(command.out) != "" and made.items() <= _record(command.out).items()


def digest_of(command: Any) -> str:
    """Returns a digest of the options and the version of a command, for the names of its work."""
    return text_sha256(json.dumps([_options(command), version("lsar_jax")]))


def _record(folder: Path) -> dict[str, Any]:
    """The record of the results in a folder; empty if there is none, or if it is of other results."""
    try:
        found = read_json(folder / _RECORD, dict)
    except (FileNotFoundError, ValueError):
        return {}
    known = isinstance(found.get("options"), dict) and found.get("results") == _digest(folder)
    return found if known else {}


def _digest(folder: Path) -> str:
    results = folder / _RESULTS
    return sha256([results]) if results.is_file() else ""


def _values(command: Any) -> dict[str, Any]:
    """The options that change what is measured."""
    return {item.name: getattr(command, item.name) for item in fields(command) if item.name not in _FREE}


def _inputs(command: Any) -> dict[str, list[str]]:
    """The names, sizes and modification times of the files that the options name."""
    inputs = {}
    for name, value in _values(command).items():
        place = Path(re.sub(r"(?<=\.py):\w+$", "", str(value)))  # FILE.py:FUNCTION is a file
        # The current folder contains the results too.
        if name == "revision" or not isinstance(value, Path | str) or place == Path():
            continue
        try:
            files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
        except (OSError, ValueError):  # text that is no path
            continue
        if files:
            inputs[name] = [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return inputs


def _options(command: Any) -> dict[str, str]:
    values = _values(command)
    words = {name: " ".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in values.items()}
    return {"task": getattr(command, "name", type(command).__name__), **words}
