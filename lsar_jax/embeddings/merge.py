"""Ends an encoding that ran in shares, from the records that they left."""

from pathlib import Path

from lsar_jax.corpora.records import Source
from lsar_jax.embeddings.job import RECORD, remove_partial_files, work_folder
from lsar_jax.embeddings.job_shards import found_by_shards
from lsar_jax.embeddings.manifest import FILE_NAME, FILES, WORK, WORK_FILES, Job, Manifest, finished_shards, read_record

__all__ = ["merge"]


def merge(folder: str | Path) -> None:
    """Ends an encoding in shares, ``encode(..., shard=(i, n))``, once all are done: writes the manifest of the folder.

    Neither the text nor the encoder is needed. A folder that is finished stays as it is.

    Raises:
      ValueError: a share is missing, is being written, or had other text, or a record is damaged.
    """
    folder = Path(folder)
    with work_folder(folder / WORK, folder, WORK_FILES):
        remove_partial_files(folder, FILES)
        if not (folder / FILE_NAME).is_file():
            found = found_by_shards(folder / WORK, folder)
            job = read_record(folder / WORK / RECORD, Job.from_dict)
            shards = finished_shards(folder / WORK, job)
            if shards.keys() != set(range(found["shards"])):
                raise ValueError(f"{folder / WORK} lacks some of {found['shards']} records; encode the text again")
            ordered = tuple(shards[number] for number in sorted(shards))
            Manifest(job, tuple(Source(**source) for source in found["inputs"]), ordered).write(folder)
