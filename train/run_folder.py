"""The folder of a run: used by one process at a time, and resumed only with the options that it was started with."""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lsar_jax import __version__
from lsar_jax.embeddings import job
from lsar_jax.files import check_outside, read_json, write_json
from lsar_jax.processes import check_alike, is_first, wait_for_all

__all__ = ["claim", "flat_options", "locked"]


# What a training writes when it ends. Its log alone, of a run that has no checkpoint yet, may be replaced.
_WRITTEN = ("trained.json", "transfer.json", "curves.png", "curves.pdf", "seed-*/*.safetensors")


@contextmanager
def locked(folder: Path, encoder: str) -> Iterator[None]:
    """Creates the folder, and keeps other runs from training in it during the block.

    Of several processes of a run, the first does.

    Args:
      folder: the folder of the run.
      encoder: name or folder of the encoder.

    Raises:
      ValueError: another run uses the folder, or it is in that of the encoder.
    """
    check_outside(folder, Path(encoder))
    with job.locked(folder, f"{folder} is in use by another run; choose another --out"):
        yield


def flat_options(options: Any, free: Collection[str]) -> dict[str, Any]:
    """Returns the options that must not change when a run resumes, in one mapping, as JSON values.

    Args:
      options: a dataclass of options, whose fields may be dataclasses of options.
      free: names of options that may change.
    """
    flat: dict[str, Any] = {}
    for name, value in asdict(options).items():
        flat |= value if isinstance(value, dict) else {name: value}
    return {name: _plain(value) for name, value in flat.items() if name not in free}


def claim(
    folder: Path,
    wanted: Mapping[str, Any],
    started_by: Sequence[str] = ("checkpoints/[0-9]*",),
    replaced: Sequence[str] = (),
) -> None:
    """Records the options of a run in ``config.json``, after checking that the folder does not belong to another run.

    Of several processes, the first does, and all must have the same options.

    Args:
      folder: an existing folder.
      wanted: everything that must not change when the run resumes, as JSON values; the version is added.
      started_by: patterns of files that only a run that has started writes.
      replaced: patterns of files and folders, besides those that every training writes, that the run replaces when it
        ends.

    Raises:
      ValueError: the folder belongs to another run, of which the error names the options that differ, or has what the
        run would replace although none has started.
    """
    wanted = {**wanted, "lsar_jax": __version__}
    check_alike("the options or the text", json.dumps(wanted, sort_keys=True, default=str))
    if is_first():
        _claim(folder, wanted, started_by, replaced)
    wait_for_all("claimed")


def _claim(folder: Path, wanted: Mapping[str, Any], started_by: Sequence[str], replaced: Sequence[str]) -> None:
    path = folder / "config.json"
    started = [found for pattern in started_by for found in folder.glob(pattern)]
    written = [found for pattern in (*_WRITTEN, *replaced) for found in folder.glob(pattern)]
    if os.path.lexists(path):
        there = read_json(path, dict)
        if "lsar_jax" not in there:
            raise ValueError(f"{path} is not the record of a training run; choose another --out")
        if (difference := job.changed_options(there, wanted)) and (started or written):
            raise ValueError(f"{folder} belongs to another run: {difference}; choose another --out")
    elif started:
        raise ValueError(f"{folder} has {started[0].relative_to(folder)} but no config.json; choose another --out")
    elif others := [*written, *folder.glob("log.jsonl")]:
        raise ValueError(f"{others[0]} would be replaced, but no run has written it; choose another --out")
    there_before = [] if started else [found for pattern in replaced for found in folder.glob(pattern)]
    if there_before:
        raise ValueError(
            f"{there_before[0]} would be replaced, but {folder} has no checkpoint of the run that wrote it; choose "
            "another --out"
        )
    if not started:
        # What another run trained may be in the folder; without this file, it is ignored.
        (folder / "trained.json").unlink(missing_ok=True)
    write_json(path, dict(wanted))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
