"""Ends an encoding that ran in shares, from the records that they left."""

from pathlib import Path

from lsar_jax.arrays import log
from lsar_jax.corpora.records import Source
from lsar_jax.embeddings.job import RECORD, remove_partial_files, work_folder
from lsar_jax.embeddings.job_shares import found_by_shares
from lsar_jax.embeddings.manifest import FILE_NAME, FILES, WORK, WORK_FILES, Job, Manifest, finished_shards, read_record

__all__ = ["finish_folder", "merge"]


def merge(folder: str | Path) -> None:
    """Ends an encoding in shares, ``encode(..., shard=(i, n))``, once all are done: writes the manifest of the folder.

    Neither the text nor the encoder is needed. A folder that is finished stays as it is.

    Raises:
      FileNotFoundError: no share has begun.
      ValueError: a share is missing, is being written, or had other text, or a record is damaged.
    """
    folder = Path(folder)
    if not (folder / FILE_NAME).is_file() and not (folder / WORK).is_dir():
        raise FileNotFoundError(f"{folder} has no encoding in shares; run lsar-jax encode with --shard I/N first")
    with work_folder(folder / WORK, folder, WORK_FILES, finished=folder / FILE_NAME):
        remove_partial_files(folder, FILES)
        if not (folder / FILE_NAME).is_file():
            found = found_by_shares(folder / WORK, folder)
            sources = tuple(Source(**source) for source in found["inputs"])
            finish_folder(folder, read_record(folder / WORK / RECORD, Job.from_dict), sources, found["shards"])


def finish_folder(folder: Path, job: Job, sources: tuple[Source, ...], count: int) -> None:
    """Writes the manifest of a folder from the records of its ``count`` shards; ValueError if any is missing."""
    shards = finished_shards(folder / WORK, job)
    if missing := set(range(count)) ^ shards.keys():
        raise ValueError(f"{folder / WORK} lacks the record of shard {min(missing)} of {count}; run all shares again")
    Manifest(job, sources, tuple(shards[number] for number in range(count))).write(folder)
    if truncated := sum(shard.truncated for shard in shards.values()):
        log.warning("%d sentences were truncated to %d tokens", truncated, job.max_length)
