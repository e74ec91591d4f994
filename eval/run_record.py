"""The record of a run beside its results: the options they are from, so that no other run replaces them unasked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from lsar_jax import __version__
from lsar_jax.files import read_json, sha256, write_json

__all__ = ["already_run", "recorded"]

_RESULTS = "results.jsonl"
_RECORD = "run.json"
# Options that do not change what is measured.
_FREE = ("out", "overwrite")


@contextmanager
def recorded(command: Any) -> Iterator[None]:
    """Checks that a command may write its results, and records its options once they are written.

    Args:
      command: a dataclass of options with ``out``, the folder of its results, and ``overwrite``.

    Raises:
      FileExistsError: the folder has results from other options, and ``overwrite`` is not given; the error names the
        options that differ.
    """
    results = command.out / _RESULTS
    command.out.mkdir(parents=True, exist_ok=True)
    if not os.access(command.out, os.W_OK | os.X_OK):
        raise PermissionError(f"files cannot be written in {command.out}; choose another --out")
    if results.is_file() and not command.overwrite:
        old = _record(command.out).get("options")
        if old is None:
            raise FileExistsError(
                f"{results} exists, and its options are not known; choose another --out, or replace it with --overwrite"
            )
        new = _options(command)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if names:
            told = ", ".join(f"{name} was {old.get(name)} and is now {new.get(name)}" for name in names)
            raise FileExistsError(
                f"{results} has other options: {told}; choose another --out, or replace it with --overwrite"
            )
    inputs, before = _inputs(command), _digest(results)
    complete = False
    try:
        yield
        complete = True
    finally:
        # A figure may fail after the results are written; they are those of these options all the same.
        if (complete or _digest(results) != before) and results.is_file():
            record = {"options": _options(command), "version": __version__, "inputs": inputs if complete else {}}
            # A run that was killed before it wrote its record leaves that of other results.
            write_json(command.out / _RECORD, record | {"results": _digest(results)})


def already_run(command: Any) -> bool:
    """Returns whether the folder has complete results from the same options, version and input files."""
    record = _record(command.out)
    return (record.get("options"), record.get("version"), record.get("inputs")) == (
        _options(command),
        __version__,
        _inputs(command),
    )


def _record(folder: Path) -> dict[str, Any]:
    """Returns the record of the results in a folder; empty if there is none, or if it is that of other results."""
    results, record = folder / _RESULTS, folder / _RECORD
    if not results.is_file() or not record.is_file():
        return {}
    try:
        found = read_json(record, dict)
    except ValueError:
        return {}
    known = isinstance(found.get("options"), dict) and found.get("results") == _digest(results)
    return found if known else {}


def _digest(results: Path) -> str:
    return sha256([results]) if results.is_file() else ""


def _options(command: Any) -> dict[str, str]:
    values = {field.name: getattr(command, field.name) for field in fields(command) if field.init}
    own = {
        name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if name not in _FREE
    }
    return {"task": getattr(command, "name", type(command).__name__), **own}


def _inputs(command: Any) -> dict[str, list[str]]:
    """Returns names, sizes and modification times of the files that are read."""
    values = {field.name: getattr(command, field.name) for field in fields(command) if field.init}
    return {
        name: [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in _files(Path(place))]
        for name, place in values.items()
        # Skip the current folder: it contains the results too.
        if name not in (*_FREE, "revision")
        and isinstance(place, Path | str)
        and Path(place) != Path()
        and _exists(place)
    }


def _exists(place: Path | str) -> bool:
    try:
        return Path(place).exists()
    except (OSError, ValueError):  # text that is no path
        return False


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
