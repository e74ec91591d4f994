"""What a folder of embeddings says of itself: the embedding space, the inputs, and the digest of every shard."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from lsar_jax.corpora.records import Source
from lsar_jax.embeddings.job import changed_options
from lsar_jax.files import read_json, write_json
from lsar_jax.spec import EncoderSpec

__all__ = ["FILE_NAME", "FORMAT", "Job", "Manifest", "Shard", "read_record"]

T = TypeVar("T")

FORMAT = "lsar_jax embeddings 1"
FILE_NAME = "manifest.json"


@dataclass(frozen=True)
class Job:
    """What decides the bytes of the shards, besides the text: the arguments of ``encode``, devices and versions."""

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

    def difference(self, earlier: "Job") -> str:
        """Names the fields that differ from those of an earlier job, with both values; empty if none does."""
        if not self.spec.same_space(earlier.spec) or self.spec.dtype != earlier.spec.dtype:
            spec = self.spec.difference(earlier.spec) or f"dtype {self.spec.dtype}, not {earlier.spec.dtype}"
            return f"another embedding space ({spec})"
        return changed_options(earlier.to_dict() | {"spec": None}, self.to_dict() | {"spec": None})

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON-serializable values."""
        return asdict(self) | {"spec": self.spec.to_dict(), "inputs": list(self.inputs)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Job":
        """Returns the job that ``to_dict`` wrote."""
        spec, inputs = EncoderSpec.from_dict(fields["spec"]), tuple(fields["inputs"])
        for name in ("dim", "shard_rows"):
            if not isinstance(fields[name], int) or fields[name] < 1:
                raise TypeError(f"{name} is {fields[name]!r}, not a whole number")
        return cls(**{**fields, "spec": spec, "inputs": inputs})


@dataclass(frozen=True)
class Shard:
    """A finished shard: the digests of its files and of its text, and counts of its distinct sentences."""

    rows: int
    files: dict[str, str]
    text: str
    tokens: int
    truncated: int
    decomposed: int = 0


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
        contents = {"format": FORMAT, "rows": self.rows, "job": self.job.to_dict()}
        write_json(folder / FILE_NAME, contents | {"sources": sources, "shards": shards})

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Returns the manifest of a finished folder, or raises an error as ``read_record``."""
        path = folder / FILE_NAME
        manifest = read_record(path, _manifest)
        size = manifest.job.shard_rows
        if any(shard.rows != size for shard in manifest.shards[:-1]):
            raise ValueError(f"{path} is damaged: a shard before the last does not have {size} rows")
        return manifest


def read_record(path: Path, from_fields: Callable[[dict[str, Any]], T]) -> T:
    """Returns the value that a function makes of a JSON file; a damaged file is a ValueError."""
    fields = read_json(path, dict)
    try:
        return from_fields(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}; encode the text into another folder") from error


def _manifest(fields: dict[str, Any]) -> Manifest:
    if fields["format"] != FORMAT:
        raise TypeError(f"its format is {fields['format']!r}, not {FORMAT!r}")
    sources = tuple(Source(**source) for source in fields["sources"])
    manifest = Manifest(Job.from_dict(fields["job"]), sources, tuple(Shard(**shard) for shard in fields["shards"]))
    if fields["rows"] != manifest.rows:
        raise TypeError(f"it says {fields['rows']} rows, but its shards have {manifest.rows}")
    return manifest
