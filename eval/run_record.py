"""The record of a run beside its results, so that a run with other options replaces them only when asked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from lsar_jax import __version__
from lsar_jax.embeddings.job import changed_options
from lsar_jax.files import check_outside, check_parent, read_json, sha256, write_json

__all__ = ["already_run", "check_record", "recorded"]

_RESULTS = "results.jsonl"
_RECORD = "run.json"
_KEPT = (_RESULTS, "queries.npz")
# Options that do not change what is measured.
_FREE = ("out", "overwrite", "cache")


@contextmanager
def recorded(command: Any) -> Iterator[None]:
    """Checks that a command may write its results, and records its options once they are written.

    Args:
      command: a dataclass of options with ``out``, the folder of its results, and ``overwrite``.

    Raises:
      FileExistsError: as for ``check_record``.
    """
    check_record(command)
    results, record = command.out / _RESULTS, command.out / _RECORD
    inputs, before = _inputs(command), _digest(results)
    if not before:
        # Figures may be written before the results are.
        write_json(record, {"options": _options(command), "version": __version__, "inputs": {}, "results": ""})
    complete = False
    try:
        yield
        complete = True
    finally:
        # A figure may fail after the results are written; they are those of these options all the same.
        if (complete or _digest(results) != before) and results.is_file():
            made = {"options": _options(command), "version": __version__, "inputs": inputs if complete else {}}
            # A run that was killed before it wrote its record leaves that of other results.
            write_json(command.out / _RECORD, made | {"results": _digest(results)})
        elif not before and not _figures(command.out):
            record.unlink(missing_ok=True)


def check_record(command: Any) -> None:
    """Creates the folder of a command's results, and checks that nothing else in it would be replaced.

    Raises:
      FileExistsError: the folder has results or figures from other options, and ``overwrite`` is not given; the error
        names the options that differ.
      IsADirectoryError: a folder has the name of a result.
      PermissionError: files cannot be written in the folder.
      ValueError: a pipe or a device has the name of a result, or the folder is in that of the encoder.
    """
    results = command.out / _RESULTS
    if encoder := getattr(command, "encoder", ""):
        check_outside(command.out, Path(encoder))
    command.out.mkdir(parents=True, exist_ok=True)
    if not os.access(command.out, os.W_OK | os.X_OK):
        raise PermissionError(f"files cannot be written in {command.out}; choose another --out")
    there = [path for name in _KEPT if os.path.lexists(path := command.out / name)] + _figures(command.out)
    for path in (results, command.out / _RECORD, *there):
        check_parent(path)
    if not there or command.overwrite:
        return
    old = _record(command.out).get("options")
    if old is None:
        raise FileExistsError(
            f"{there[0]} exists, and its options are not known; choose another --out, or replace it with --overwrite"
        )
    if difference := changed_options(old, _options(command)):
        raise FileExistsError(
            f"{there[0]} was made with other options: {difference}; choose another --out, or replace it with "
            "--overwrite"
        )


def already_run(command: Any) -> bool:
    """Returns whether the folder has complete results from the same options, version and input files."""
    record = _record(command.out) if (command.out / _RESULTS).is_file() else {}
    return (record.get("options"), record.get("version"), record.get("inputs")) == (
        _options(command),
        __version__,
        _inputs(command),
    )


def _record(folder: Path) -> dict[str, Any]:
    """Returns the record of the results in a folder; empty if there is none, or if it is that of other results."""
    results, record = folder / _RESULTS, folder / _RECORD
    if not record.is_file():
        return {}
    try:
        found = read_json(record, dict)
    except ValueError:
        return {}
    known = isinstance(found.get("options"), dict) and found.get("results") == _digest(results)
    return found if known else {}


def _figures(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.png"), *folder.glob("*.pdf")])


def _digest(results: Path) -> str:
    return sha256([results]) if results.is_file() else ""


def _options(command: Any) -> dict[str, str]:
    values = {field.name: getattr(command, field.name) for field in fields(command) if field.init}
    options = {
        name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if name not in _FREE
    }
    return {"task": getattr(command, "name", type(command).__name__), **options}


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
