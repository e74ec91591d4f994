"""The manifest of a folder of embeddings: the embedding space, the inputs, and the digest of every shard.

It carries a digest of itself, so that only the names of the files are checked, which must not lead out of the folder.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsar_jax.checks import errors_of
from lsar_jax.corpora.records import Source
from lsar_jax.embeddings.job import JOB_FILES, NUMBER, changed_options
from lsar_jax.files import read_json, text_sha256, write_json
from lsar_jax.spec import EncoderSpec

__all__ = [
    "DTYPES",
    "FILES",
    "FILE_NAME",
    "FORMATS",
    "MOST_ROWS",
    "RECORDS",
    "SHARD_FILES",
    "WORK",
    "WORK_FILES",
    "Job",
    "Manifest",
    "Shard",
    "file_names",
    "finished_shards",
    "read_record",
]

T = TypeVar("T")

FILE_NAME = "manifest.json"
#: The records of the shards that are done, in the folder of the work.
RECORDS = "[0-9]*.json"
#: How shards are stored.
FORMATS = ("npy", "parquet")
DTYPES = ("float32", "float16")
#: The most rows of a shard.
MOST_ROWS = 1 << 24
#: Folder of the work that is not finished, and the names in it and beside it, as for ``job.check_own``.
WORK = ".job"
WORK_FILES = rf"{JOB_FILES}|{NUMBER}\.json"
SHARD_FILES = rf"vectors-{NUMBER}\.(npy|parquet)|sentences-{NUMBER}\.jsonl"
#: The names of what an encoding writes into a folder.
FILES = rf"manifest\.json|{SHARD_FILES}|\.job/({WORK_FILES})?"
_FORMAT = "lsar_jax embeddings 2"


def file_names(format: str, number: int) -> tuple[str, ...]:
    """The names of a shard's files, the vectors first."""
    if format == "parquet":
        return (f"vectors-{number:05d}.parquet",)
    return f"vectors-{number:05d}.npy", f"sentences-{number:05d}.jsonl"


@dataclass(frozen=True)
class Job:
    """All that decides the bytes of the shards, besides the text: the arguments of ``encode``, devices and versions.

    ``applied`` has the digests of the maps of the encoder's transform, ``Transform.applied``.
    """

    spec: EncoderSpec
    dim: int
    max_length: int
    normalize: bool
    language: str | None
    dtype: str
    format: str
    shard_rows: int
    inputs: tuple[str, ...]
    text: str
    ids: str | None
    devices: str
    versions: str
    applied: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A digest of all fields, which the records of its shards carry."""
        return text_sha256(json.dumps(self.to_dict()))

    def difference(self, earlier: "Job") -> str:
        """Names the fields in which an earlier job differs, with both values; empty if none does."""
        if not self.spec.same_space(earlier.spec) or self.spec.dtype != earlier.spec.dtype:
            spec = self.spec.difference(earlier.spec) or f"dtype {self.spec.dtype}, not {earlier.spec.dtype}"
            return f"another embedding space ({spec})"
        # What was applied is part of the space.
        before, now = (job.to_dict() | {"spec": None, "applied": None} for job in (earlier, self))
        return changed_options(before, now)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON-serializable values."""
        return asdict(self) | {"spec": self.spec.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Job":
        """Returns the job that ``to_dict`` wrote."""
        texts = {name: tuple(fields[name]) for name in ("inputs", "applied")}
        return cls(**fields | texts | {"spec": EncoderSpec.from_dict(fields["spec"])})


@dataclass(frozen=True)
class Shard:
    """A finished shard: the digests of its files and of its text, and counts of its distinct sentences."""

    rows: int
    files: dict[str, str]
    text: str
    tokens: int
    truncated: int
    decomposed: int = 0

    def check(self, job: Job, number: int) -> "Shard":
        """Returns itself; raises ValueError unless its files have the names of this shard, and so are in the folder."""
        if tuple(self.files) != file_names(job.format, number):
            raise ValueError(f"shard {number} has the files {', '.join(self.files)}")
        return self


@dataclass(frozen=True)
class Manifest:
    """A finished folder: its job, the inputs with their digests, and its shards in order."""

    job: Job
    sources: tuple[Source, ...]
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    def write(self, folder: Path) -> None:
        """Writes the manifest into a folder."""
        sources = [source._asdict() for source in self.sources]
        shards = [asdict(shard) for shard in self.shards]
        contents = {"format": _FORMAT, "rows": self.rows, "job": self.job.to_dict()}
        contents |= {"sources": sources, "shards": shards}
        write_json(folder / FILE_NAME, contents | {"sha256": text_sha256(json.dumps(contents))})

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Returns the manifest of a finished folder, or raises an error as ``read_record``."""
        return read_record(folder / FILE_NAME, _manifest)


def read_record(path: Path, from_fields: Callable[[dict[str, Any]], T]) -> T:
    """Returns the value that a function makes of a JSON file; a damaged file is a ValueError."""
    fields = read_json(path, dict)
    damaged = f"{path} is damaged, so encode the text into another folder"
    with errors_of(damaged, KeyError, TypeError, AttributeError, ValueError):
        value = from_fields(fields)
    return value


def finished_shards(work: Path, job: Job) -> dict[int, Shard]:
    """The shards of a job that are done, by their numbers; a record of another job or shard is a ValueError."""

    def shard(number: int, fields: dict[str, Any]) -> Shard:
        if fields.pop("job") != job.digest:
            raise ValueError("it is of another job")
        return Shard(**fields).check(job, number)

    return {int(path.stem): read_record(path, partial(shard, int(path.stem))) for path in sorted(work.glob(RECORDS))}


def _manifest(fields: dict[str, Any]) -> Manifest:
    digest = fields.pop("sha256")
    if fields["format"] != _FORMAT or digest != text_sha256(json.dumps(fields)):
        raise ValueError(f"its format is not {_FORMAT!r}, or its SHA-256 does not match")
    job = Job.from_dict(fields["job"])
    shards = tuple(Shard(**shard).check(job, number) for number, shard in enumerate(fields["shards"]))
    return Manifest(job, tuple(Source(**source) for source in fields["sources"]), shards)
