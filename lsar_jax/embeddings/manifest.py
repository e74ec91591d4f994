"""What a folder of embeddings says of itself: the embedding space, the inputs, and the digest of every shard."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lsar_jax.corpora.records import Source
from lsar_jax.embeddings.job import changed_options
from lsar_jax.files import read_json, write_json
from lsar_jax.spec import EncoderSpec

__all__ = ["FILE_NAME", "FORMAT", "Job", "Manifest", "Shard", "read_job", "read_manifest", "read_shard"]

FORMAT = "lsar_jax embeddings 1"
FILE_NAME = "manifest.json"


@dataclass(frozen=True)
class Job:
    """What decides the bytes of the shards, besides the text.

    Attributes:
      spec: the embedding space.
      dim: width of a vector.
      max_length: maximum number of tokens per sentence.
      normalize: whether each vector was divided by its length.
      language: language code of all sentences, ``auto``, or none.
      dtype: dtype of the stored vectors, ``float32`` or ``float16``.
      format: ``npy`` or ``parquet``.
      shard_rows: number of rows of each shard but the last.
      inputs: paths of the files of text.
      text: the column of the sentences, in files with columns.
      ids: the column of their ids, or none.
      devices: number and kind of the devices of a process.
      versions: of the library and of jax.
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

    def difference(self, other: "Job") -> str:
        """Names the fields that differ from those of an earlier job, with both values; empty if none does."""
        if not self.spec.same_space(other.spec) or self.spec.dtype != other.spec.dtype:
            told = self.spec.difference(other.spec) or f"dtype {self.spec.dtype}, not {other.spec.dtype}"
            return f"another embedding space ({told})"
        return changed_options(other.to_dict() | {"spec": None}, self.to_dict() | {"spec": None})

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
    """A finished shard.

    Attributes:
      rows: number of its rows.
      files: name of each of its files, and the digest of its bytes.
      text: digest of its sentences and ids.
      tokens: number of tokens that were encoded for it; a sentence that it has twice was encoded once.
      truncated: number of sentences that were truncated for it.
    """

    rows: int
    files: dict[str, str]
    text: str
    tokens: int
    truncated: int


@dataclass(frozen=True)
class Manifest:
    """All of a finished folder.

    Attributes:
      job: what decided the bytes of the shards.
      sources: the inputs, with the digests of their bytes.
      shards: the shards in order.
    """

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


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a finished folder.

    Raises:
      FileNotFoundError: the folder or its manifest does not exist.
      ValueError: the manifest is damaged, or of another format.
    """
    path = folder / FILE_NAME
    fields = read_json(path, dict, ("format", "rows", "job", "sources", "shards"))
    if fields["format"] != FORMAT:
        raise ValueError(f"{path} has format {fields['format']!r}, expected {FORMAT!r}")
    try:
        sources = tuple(Source(**source) for source in fields["sources"])
        result = Manifest(Job.from_dict(fields["job"]), sources, tuple(map(_shard, fields["shards"])))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error
    if any(shard.rows != result.job.shard_rows for shard in result.shards[:-1]):
        raise ValueError(f"{path} is damaged: a shard before the last does not have {result.job.shard_rows} rows")
    if fields["rows"] != result.rows:
        raise ValueError(f"{path} is damaged: it says {fields['rows']} rows, but its shards have {result.rows}")
    return result


def read_job(path: Path) -> Job:
    """Returns the job that was written to a JSON file."""
    fields = read_json(path, dict)
    try:
        return Job.from_dict(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}; remove the folder and start again") from error


def read_shard(path: Path) -> Shard:
    """Returns the shard that was written to a JSON file."""
    fields = read_json(path, dict)
    try:
        return _shard(fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}; remove it, and its shard is encoded again") from error


def _shard(fields: dict[str, Any]) -> Shard:
    whole = [fields[name] for name in ("rows", "tokens", "truncated")]
    if not all(isinstance(number, int) for number in whole) or not isinstance(fields["files"], dict):
        raise TypeError(f"a shard is {fields!r:.80}")
    return Shard(**fields)
