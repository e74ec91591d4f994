"""The files of a shard of embeddings: how they are written, and how rows of them are read.

``npy`` shards are ``vectors-00000.npy`` with ``sentences-00000.jsonl`` beside it, a JSON object ``{"id", "text"}`` in
each line; ``parquet`` shards are one file with the columns ``id``, ``text`` and ``vector``. An id that is not given is
the number of the row.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.corpora.records import Record
from lsar_jax.embeddings.manifest import Job
from lsar_jax.extras import import_extra
from lsar_jax.files import new_file

__all__ = ["FORMATS", "Sentences", "as_jsonl", "file_names", "read_rows", "read_sentences", "write_shard"]

FORMATS = ("npy", "parquet")


class Sentences(NamedTuple):
    """The sentences of some rows, and the id of each."""

    texts: list[str]
    ids: list[str]


def file_names(format: str, number: int) -> tuple[str, ...]:
    """The names of a shard's files, that of the vectors first."""
    if format == "parquet":
        return (f"vectors-{number:05d}.parquet",)
    return f"vectors-{number:05d}.npy", f"sentences-{number:05d}.jsonl"


def as_jsonl(records: Sequence[Record], first: int) -> bytes:
    """Returns the sentences and ids of a shard as JSON lines; ids that are not given are counted from ``first``."""
    ids = (str(row) if record.id is None else record.id for row, record in enumerate(records, start=first))
    rows = ({"id": id, "text": record.text} for id, record in zip(ids, records, strict=True))
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def write_shard(folder: Path, job: Job, number: int, sentences: bytes, vectors: Float[np.ndarray, "row dim"]) -> None:
    """Writes the files of a shard, whose ``sentences`` are what ``as_jsonl`` returned, each whole or not at all."""
    with np.errstate(over="ignore"):
        stored = vectors.astype(job.dtype)
    if not np.isfinite(stored).all():
        bad = int(np.argmin(np.isfinite(stored).all(axis=1)))
        raise ValueError(f"row {number * job.shard_rows + bad} has numbers too large for {job.dtype}; store float32")
    names = file_names(job.format, number)
    if job.format == "npy":
        with new_file(folder / names[1]) as partial:
            partial.write_bytes(sentences)
        with new_file(folder / names[0]) as partial, partial.open("wb") as file:
            np.save(file, stored, allow_pickle=False)
        return
    pyarrow, parquet = _pyarrow()
    rows = [json.loads(line) for line in sentences.splitlines()]
    values = pyarrow.array(stored.reshape(-1))
    columns = {
        "id": pyarrow.array([row["id"] for row in rows], pyarrow.string()),
        "text": pyarrow.array([row["text"] for row in rows], pyarrow.string()),
        "vector": pyarrow.FixedSizeListArray.from_arrays(values, job.dim),
    }
    # Open files, because pyarrow takes only paths that are UTF-8.
    with new_file(folder / names[0]) as partial, partial.open("wb") as file:
        # Vectors have no repeated values that a dictionary could shorten.
        parquet.write_table(pyarrow.table(columns), file, use_dictionary=["id", "text"], row_group_size=8192)


def read_rows(
    folder: Path, job: Job, number: int, rows: slice | Int[np.ndarray, " row"]
) -> Float[np.ndarray, "row dim"]:
    """Returns rows of a shard, counted from its first."""
    path = folder / file_names(job.format, number)[0]
    if job.format == "npy":
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[rows])
    column = _table(path, ["vector"])["vector"].combine_chunks()
    return np.asarray(column.values).reshape(-1, job.dim)[rows]


def read_sentences(folder: Path, job: Job, number: int) -> Sentences:
    """Returns the sentences of a shard."""
    path = folder / file_names(job.format, number)[-1]
    if job.format == "npy":
        rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        return Sentences([row["text"] for row in rows], [row["id"] for row in rows])
    table = _table(path, ["id", "text"])
    return Sentences(table["text"].to_pylist(), table["id"].to_pylist())


def _table(path: Path, columns: list[str]) -> Any:
    with path.open("rb") as file:
        return _pyarrow()[1].read_table(file, columns=columns)


def _pyarrow() -> tuple[Any, Any]:
    return import_extra("pyarrow", "hub", "parquet"), import_extra("pyarrow.parquet", "hub", "parquet", "pyarrow")
