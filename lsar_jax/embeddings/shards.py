"""The files of a shard of embeddings: how they are written, and how rows of them are read.

``npy`` shards are ``vectors-00000.npy`` with ``sentences-00000.jsonl`` beside it, a JSON object ``{"id", "text"}`` in
each line; ``parquet`` shards are one file with the columns ``id``, ``text`` and ``vector``. An id that is not given is
the number of the row.
"""

import json
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import errors_of
from lsar_jax.corpora.records import Record
from lsar_jax.embeddings.manifest import Job, Manifest, file_names
from lsar_jax.extras import import_extra
from lsar_jax.files import new_file, sha256

__all__ = ["Sentences", "as_jsonl", "check_shard", "memory_mapped", "read_rows", "read_sentences", "write_shard"]


class Sentences(NamedTuple):
    """The sentences of some rows, and the id of each."""

    texts: list[str]
    ids: list[str]


def as_jsonl(records: Sequence[Record], first: int) -> bytes:
    """Returns the sentences and ids of a shard as JSON lines; ids that are not given are counted from ``first``."""
    ids = (str(row) if record.id is None else record.id for row, record in enumerate(records, start=first))
    rows = ({"id": id, "text": record.text} for id, record in zip(ids, records, strict=True))
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def write_shard(
    folder: Path,
    job: Job,
    number: int,
    sentences: bytes,
    vectors: Float[np.ndarray, "row dim"],
    before: Mapping[str, str],
) -> dict[str, str]:
    """Writes the files of a shard, each whole or not at all, and returns their digests by name.

    Args:
      folder: the folder.
      job: the job, with the dtype and the format.
      number: number of the shard.
      sentences: what ``as_jsonl`` returned.
      vectors: ``[row, dim]``; one that the dtype cannot hold is a ValueError.
      before: the digests of the files that were there; if a new one differs, it is a ValueError.
    """
    with np.errstate(over="ignore"):
        stored = vectors.astype(job.dtype)
    if not np.isfinite(stored).all():
        bad = int(np.argmin(np.isfinite(stored).all(axis=1)))
        raise ValueError(f"row {number * job.shard_rows + bad} has numbers too large for {job.dtype}; store float32")
    files = {}
    for name in file_names(job.format, number):
        with new_file(folder / name) as partial:
            # Open files, because pyarrow takes only paths that are UTF-8.
            with partial.open("wb") as file:
                if name.endswith(".jsonl"):
                    file.write(sentences)
                elif name.endswith(".npy"):
                    np.save(file, stored, allow_pickle=False)
                else:
                    _write_parquet(file, sentences, stored)
            files[name] = sha256([partial])
            if before.get(name, files[name]) != files[name]:
                raise ValueError(
                    f"{name} of {folder} was encoded again, and is not what it was: the machine or a package changed; "
                    "choose another folder"
                )
    return files


def _write_parquet(file: IO[bytes], sentences: bytes, stored: Float[np.ndarray, "row dim"]) -> None:
    pyarrow, parquet = _pyarrow()
    rows = [json.loads(line) for line in sentences.splitlines()]
    columns = {name: pyarrow.array([row[name] for row in rows], pyarrow.string()) for name in ("id", "text")}
    columns["vector"] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(stored.reshape(-1)), stored.shape[1])
    # Vectors have no repeated values that a dictionary could shorten.
    parquet.write_table(pyarrow.table(columns), file, use_dictionary=["id", "text"], row_group_size=8192)


def memory_mapped(path: Path) -> np.ndarray:
    """Returns the array of a ``.npy`` file, memory-mapped; a ValueError if it is damaged or something else."""
    try:
        x = np.lib.format.open_memmap(path, mode="r")
        if (size := path.stat().st_size) != x.offset + x.nbytes:
            raise ValueError(f"its header says {x.nbytes} bytes of vectors, and it has {size - x.offset}")
        return x
    except (ValueError, EOFError, OverflowError, SyntaxError, tokenize.TokenError) as error:
        # One line: numpy's next ones advise to trust the file.
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} is not a .npy file of floats, which numpy.save writes: {reason}") from error


def check_shard(folder: Path, manifest: Manifest, number: int) -> None:
    """Raises ValueError unless the vectors of a shard have the rows, width and dtype that the manifest says."""
    job, path = manifest.job, folder / file_names(manifest.job.format, number)[0]
    expected = f"{job.dtype} of shape {[manifest.shards[number].rows, job.dim]}"
    if job.format == "npy":
        x = memory_mapped(path)
        found = f"{x.dtype} of shape {list(x.shape)}"
    else:
        pyarrow, parquet = _pyarrow()
        try:
            with path.open("rb") as opened, parquet.ParquetFile(opened) as file:
                type_of, rows = file.schema_arrow.field("vector").type, file.metadata.num_rows
                found = f"{type_of.value_type.to_pandas_dtype().__name__} of shape {[rows, type_of.list_size]}"
        except (pyarrow.ArrowException, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: it cannot be read as parquet with a column of vectors") from error
    if found != expected:
        raise ValueError(f"{path} holds {found}, but the manifest says {expected}; encode the text into another folder")


def read_rows(
    folder: Path, job: Job, number: int, rows: slice | Int[np.ndarray, " row"]
) -> Float[np.ndarray, "row dim"]:
    """Returns rows of a shard, counted from its first."""
    path = folder / file_names(job.format, number)[0]
    if job.format == "npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)[rows]
    column = _table(path, ["vector"])["vector"].combine_chunks()
    return np.asarray(column.values).reshape(-1, job.dim)[rows]


def read_sentences(folder: Path, manifest: Manifest, number: int) -> Sentences:
    """Returns the sentences of a shard; a ValueError unless there is a text and an id for each of its rows."""
    path = folder / file_names(manifest.job.format, number)[-1]
    with errors_of(f"{path} is damaged", ValueError, TypeError, KeyError, RecursionError):
        if manifest.job.format == "npy":
            # As one array, because to parse line after line takes four times as long.
            rows: list[dict[str, Any]] = json.loads(b"[%s]" % path.read_bytes()[:-1].replace(b"\n", b","))
            sentences = Sentences([row["text"] for row in rows], [row["id"] for row in rows])
        else:
            table = _table(path, ["id", "text"])
            sentences = Sentences(table["text"].to_pylist(), table["id"].to_pylist())
        for column in sentences:
            "".join(column).encode()
        if len(sentences.texts) != (count := manifest.shards[number].rows):
            raise ValueError(f"it has {len(sentences.texts)} sentences for {count} vectors")
    return sentences


def _table(path: Path, columns: list[str]) -> Any:
    with path.open("rb") as file:
        return _pyarrow()[1].read_table(file, columns=columns)


def _pyarrow() -> tuple[Any, Any]:
    return import_extra("pyarrow", "hub", "parquet"), import_extra("pyarrow.parquet", "hub", "parquet", "pyarrow")
