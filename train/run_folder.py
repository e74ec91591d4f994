"""The folder of a run: used by one run at a time, and resumed only with the options that it was begun with."""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lsar_jax import __version__
from lsar_jax.embeddings import job
from lsar_jax.files import check_outside, read_json, write_json
from lsar_jax.processes import check_alike, is_first, wait_for_all

__all__ = ["ALIGNMENT", "claimed", "flat_options"]

# How an encoder, or linear maps, in the same folder were aligned: objective, encoder, text, steps, batch and rate.
ALIGNMENT = "alignment.json"

# Files of a run that has begun. A log alone, of a run without a checkpoint, may be replaced.
_FILES = ("checkpoints/[0-9]*", "trained.json", "transfer.json", "curves.*", "seed-*/*.safetensors")


@contextmanager
def claimed(folder: Path, encoder: str, options: Mapping[str, Any], files: Collection[str] = ()) -> Iterator[None]:
    """Locks the folder of a run, records its options in ``config.json``, and waits for all processes at the end.

    Process 0 locks and records; all processes must have the same options. ``files`` are patterns of what the run
    writes besides the files of every run.

    Raises:
      ValueError: another run uses the folder, it belongs to a run of other options, which the error names, it has files
        that no run wrote, it is in the folder of the encoder, or its path is not UTF-8.
    """
    check_outside(folder, Path(encoder))
    if os.fsencode(path := folder.absolute()).decode(errors="replace") != str(path):
        raise ValueError(f"{path} is not UTF-8, as the paths of checkpoints have to be; choose another --out")
    refusal = f"{folder} is in use by another run; choose another --out"
    with job.locked(folder, refusal) if is_first() else nullcontext():
        check_alike("the options or the text", json.dumps(options, sort_keys=True, default=str))
        if is_first():
            _record(folder, {**options, "lsar_jax": __version__}, files)
        wait_for_all("claimed")
        yield
        wait_for_all("trained")


def _record(folder: Path, options: Mapping[str, Any], files: Collection[str]) -> None:
    for path in (folder / "checkpoints", *folder.glob("seed-*"), *folder.glob("seed-*/checkpoints")):
        if path.is_symlink():
            raise ValueError(f"{path} is a link, and old checkpoints in it would be deleted; choose another --out")
    path = folder / "config.json"
    begun = read_json(path, dict, ("lsar_jax",)) if os.path.lexists(path) else None
    found = [file for pattern in (*_FILES, *files) for file in folder.glob(pattern)]
    if begun is None and (found := [*found, *folder.glob("log.jsonl")]):
        raise ValueError(f"{found[0]} would be replaced, but no run has written it; choose another --out")
    if begun is not None and found and (difference := job.changed_options(begun, options)):
        raise ValueError(f"{folder} belongs to another run: {difference}; choose another --out")
    write_json(path, options)


def flat_options(options: Any, free: Collection[str]) -> dict[str, Any]:
    """Returns the fields of a dataclass and of those in it as JSON values, without those that may change."""
    flat: dict[str, Any] = {}
    for name, value in asdict(options).items():
        flat |= value if isinstance(value, dict) else {name: value}
    return json.loads(json.dumps({name: value for name, value in flat.items() if name not in free}, default=str))
