"""What a folder of embeddings says of itself: the embedding space, the inputs, and the digest of every shard.

All of it is checked when it is read, because a folder may be another's.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from lsar_jax.corpora.records import Source
from lsar_jax.embeddings.job import changed_options
from lsar_jax.files import read_json, text_sha256, write_json
from lsar_jax.spec import EncoderSpec

__all__ = [
    "DTYPES",
    "FILE_NAME",
    "FORMATS",
    "MOST_ROWS",
    "Job",
    "Manifest",
    "Shard",
    "file_names",
    "read_record",
]

T = TypeVar("T")

FILE_NAME = "manifest.json"
#: How shards are stored.
FORMATS = ("npy", "parquet")
DTYPES = ("float32", "float16")
#: The most rows of a shard.
MOST_ROWS = 1 << 24
_FORMAT = "lsar_jax embeddings 2"
_DIGEST = re.compile("(sha256:)?[0-9a-f]{64}")


def file_names(format: str, number: int) -> tuple[str, ...]:
    """The names of a shard's files, that of the vectors first."""
    if format == "parquet":
        return (f"vectors-{number:05d}.parquet",)
    return f"vectors-{number:05d}.npy", f"sentences-{number:05d}.jsonl"


@dataclass(frozen=True)
class Job:
    """What decides the bytes of the shards, besides the text: the arguments of ``encode``, devices and versions.

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
        """Names the fields that differ from those of an earlier job, with both values; empty if none does."""
        if not self.spec.same_space(earlier.spec) or self.spec.dtype != earlier.spec.dtype:
            spec = self.spec.difference(earlier.spec) or f"dtype {self.spec.dtype}, not {earlier.spec.dtype}"
            return f"another embedding space ({spec})"
        # What was applied is part of the space.
        before, now = (job.to_dict() | {"spec": None, "applied": None} for job in (earlier, self))
        return changed_options(before, now)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON-serializable values."""
        return asdict(self) | {
            "spec": self.spec.to_dict(), "inputs": list(self.inputs), "applied": list(self.applied)
        }  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Any) -> "Job":
        """Returns the job that ``to_dict`` wrote; other fields are a TypeError."""
        _check("job", fields, isinstance(fields, dict), "an object")
        _check("spec", fields["spec"], isinstance(fields["spec"], dict), "an object")
        texts = {}
        for name in ("inputs", "applied"):
            _check(name, fields[name], isinstance(fields[name], list), "a list")
            texts[name] = tuple(fields[name])
        job = _typed(cls, {**fields, **texts, "spec": EncoderSpec.from_dict(fields["spec"])})
        _check("dim", job.dim, job.dim >= 1, "at least 1")
        _check("shard_rows", job.shard_rows, 1 <= job.shard_rows <= MOST_ROWS, f"from 1 to {MOST_ROWS}")
        _check("dtype", job.dtype, job.dtype in DTYPES, " or ".join(DTYPES))
        _check("format", job.format, job.format in FORMATS, " or ".join(FORMATS))
        return job


@dataclass(frozen=True)
class Shard:
    """A finished shard: the digests of its files and of its text, and counts of its distinct sentences."""

    rows: int
    files: dict[str, str]
    text: str
    tokens: int
    truncated: int
    decomposed: int = 0

    @classmethod
    def from_dict(cls, fields: Any, job: Job, number: int) -> "Shard":
        """Returns the shard of this number of a job, of which ``fields`` are the record; others are a TypeError."""
        shard = _typed(cls, fields)
        names = file_names(job.format, number)
        if tuple(shard.files) != names:
            raise TypeError(f"shard {number} has the files {', '.join(shard.files)}, not {', '.join(names)}")
        right = 1 <= shard.rows <= job.shard_rows
        _check(f"rows of shard {number}", shard.rows, right, f"from 1 to {job.shard_rows}")
        for digest in (*shard.files.values(), shard.text):
            _check(f"a digest of shard {number}", digest, _DIGEST.fullmatch(digest) is not None, "SHA-256")
        return shard


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
    try:
        return from_fields(fields)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged: {what}; encode the text into another folder") from error


def _manifest(fields: dict[str, Any]) -> Manifest:
    if fields["format"] != _FORMAT:
        raise TypeError(f"its format is {fields['format']!r}, not {_FORMAT!r}")
    if fields.pop("sha256") != text_sha256(json.dumps(fields)):
        raise TypeError("it is not what was written")
    job = Job.from_dict(fields["job"])
    sources = tuple(_typed(Source, source) for source in fields["sources"])
    shards = tuple(Shard.from_dict(shard, job, number) for number, shard in enumerate(fields["shards"]))
    manifest = Manifest(job, sources, shards)
    _check("the number of shards", len(shards), len(shards) > 0, "at least 1")
    records = sum(source.records for source in sources)
    right = type(fields["rows"]) is int and fields["rows"] == manifest.rows == records
    _check("rows", fields["rows"], right, f"{manifest.rows}, as its shards have, and {records}, as its sources have")
    for number, shard in enumerate(shards[:-1]):
        right = shard.rows == job.shard_rows
        _check(f"rows of shard {number}, which is not the last,", shard.rows, right, str(job.shard_rows))
    return manifest


def _typed(kind: type[T], fields: Any) -> T:
    """Returns a dataclass or tuple of fields; a TypeError if one is absent, unknown, negative or of another type."""
    _check(f"a {kind.__name__.lower()}", fields, isinstance(fields, dict), "an object")
    for name, expected in get_type_hints(kind).items():
        value, outer = fields[name], get_origin(expected)
        if outer in (tuple, dict):
            texts = value.values() if isinstance(value, dict) else value
            right = isinstance(value, outer) and all(isinstance(text, str) for text in texts)
        else:
            right = type(value) is int and value >= 0 if expected is int else isinstance(value, expected)
        valid = "a whole number" if expected is int else getattr(expected, "__name__", expected)
        _check(name, value, right, f"{valid}")
    return kind(**fields)


def _check(name: str, value: object, right: bool, valid: str) -> None:
    if not right:
        raise TypeError(f"{name} is {value!r:.200}; expected {valid}")
