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
    try:
        found = read_json(folder / _RECORD, dict)
    except (FileNotFoundError, ValueError):
        return {}
    known = isinstance(found.get("options"), dict) and found.get("results") == _digest(folder / _RESULTS)
    return found if known else {}


def _figures(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.png"), *folder.glob("*.pdf")])


def _digest(results: Path) -> str:
    return sha256([results]) if results.is_file() else ""


def _values(command: Any) -> dict[str, Any]:
    """Returns the options that change what is measured."""
    return {item.name: getattr(command, item.name) for item in fields(command) if item.init and item.name not in _FREE}


def _options(command: Any) -> dict[str, str]:
    options = {
        name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in _values(command).items()
    }
    return {"task": getattr(command, "name", type(command).__name__), **options}


def _inputs(command: Any) -> dict[str, list[str]]:
    """Returns names, sizes and modification times of the files that are read."""
    inputs = {}
    for name, value in _values(command).items():
        # Skip the current folder: it contains the results too.
        if name == "revision" or not isinstance(value, Path | str) or (place := Path(value)) == Path():
            continue
        try:
            files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
            there = place.exists()
        except (OSError, ValueError):  # text that is no path
            continue
        if there:
            inputs[name] = [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return inputs
