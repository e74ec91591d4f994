"""Encodes text of any length into a folder, shard after shard; a job that was stopped goes on where it was.

A shard is done once ``.job/00000.json`` is written, after its files. A run first compares the shards that are done with
their digests, and then reads the text from its beginning: the sentences of a shard that is done are compared with their
digest too, so that shards of different text are never mixed, and it is not encoded again. The vectors of a shard depend
only on its own sentences, so a job ends in the same bytes however often it was stopped.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from lsar_jax.checks import check_flags, whole_number
from lsar_jax.corpora.records import STANDARD_INPUT, Record, Records
from lsar_jax.embeddings.job import digests, missing_files, partial_files, remove, share_of, work_folder
from lsar_jax.embeddings.manifest import FILE_NAME, Job, Manifest, Shard, read_job, read_manifest, read_shard
from lsar_jax.embeddings.shards import FORMATS, as_jsonl, file_names, write_shard
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.files import text_sha256, write_json
from lsar_jax.processes import check_alike, is_first, share, wait_for_all

__all__ = ["Progress", "encode"]

_log = logging.getLogger("lsar_jax")

# Rows of a shard: few on a CPU, because a job that is stopped loses a shard's work.
_ROWS = 65_536
_ROWS_ON_CPU = 8_192
# Folder of the work that is not finished.
_WORK = ".job"


class Progress(NamedTuple):
    """How far a job is, after each shard.

    Attributes:
      rows: number of rows that are finished.
      encoded: number of sentences that this run encoded.
      seconds: since its first sentence was encoded.
      share: share of the bytes of the inputs that was read, from 0 to 1; None for standard input.
      left: seconds left at this rate; None if that is not known.
    """

    rows: int
    encoded: int
    seconds: float
    share: float | None
    left: float | None

    def __str__(self) -> str:
        parts = [f"{self.rows:,} rows" if self.share is None else f"{self.rows:,} rows, {100 * self.share:.0f}%"]
        if self.encoded:
            parts.append(f"{self.encoded / self.seconds:,.0f} sentences/s")
        if self.left:
            parts.append(f"{self.left / 60:,.1f} min left")
        return "; ".join(parts)


def encode(
    encoder: SentenceEncoder,
    inputs: Sequence[str | Path],
    folder: str | Path,
    *,
    text: str = "text",
    ids: str | None = None,
    jsonl: bool = False,
    language: str | None = None,
    max_length: int | None = None,
    normalize: bool = False,
    store: Literal["float32", "float16"] = "float32",
    format: Literal["npy", "parquet"] = "npy",
    shard_rows: int | None = None,
    show_progress: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    r"""Encodes the sentences of files into a folder, a row for each line or record.

    A sentence that occurs several times in a shard is encoded once. Memory does not grow with the text. If the process
    is stopped, the same call goes on and ends in the same bytes; a call for a finished folder checks it. Several
    processes (``lsar_jax.processes``) take the shards in turn; the bytes do not depend on how many there are.

    Args:
      encoder: the encoder, with its transform if there is one.
      inputs: text files, ``.jsonl`` or ``.parquet`` files, the first two perhaps compressed (``.gz``), or ``-`` for
        standard input. An empty line is an empty sentence.
      folder: the folder; ``lsar_jax.embeddings.open`` opens it once it is finished.
      text: the column of the sentences in files with columns.
      ids: the column of their ids; by default, the id of a sentence is the number of its row.
      jsonl: whether standard input is JSON lines.
      language: language code of all sentences, or ``auto``; needed if the encoder or its transform depends on it.
      max_length: maximum number of tokens per sentence; by default, the checkpoint's.
      normalize: whether to divide each vector by its length.
      store: dtype of the stored vectors.
      format: ``npy``, with sentences in JSON lines beside it, or ``parquet``.
      shard_rows: rows of each shard but the last; by default 65,536, and 8,192 on a CPU.
      show_progress: whether to draw a progress bar for each shard.
      progress: called after each shard.

    Raises:
      FileExistsError: the folder holds something else.
      FileNotFoundError: an input does not exist.
      ValueError: the folder was begun from other text, with another encoder or with other options, a finished shard is
        damaged, or a sentence cannot be encoded.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> import lsar_jax as lj
      >>> encoder = lj.load_encoder("bundled", layer=1)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     text, out = Path(folder, "de.txt"), Path(folder, "de")
      ...     _ = text.write_text("Guten Tag\nServus\n")
      ...     lj.embeddings.encode(encoder, [text], out)
      ...     sorted(path.name for path in out.iterdir())
      ['manifest.json', 'sentences-00000.jsonl', 'vectors-00000.npy']
    """
    check_flags(normalize=normalize, jsonl=jsonl, show_progress=show_progress)
    if store not in ("float32", "float16"):
        raise ValueError(f"store {store!r} is not one of float32, float16")
    if format not in FORMATS:
        raise ValueError(f"format {format!r} is not one of {', '.join(FORMATS)}")
    paths = [Path(path) for path in inputs]
    if not paths:
        raise ValueError("there is nothing to encode; give one or more files, or - for standard input")
    on_cpu = encoder.mesh.devices.flat[0].platform == "cpu"
    if shard_rows is None:
        shard_rows = _ROWS_ON_CPU if on_cpu else _ROWS
    shard_rows = whole_number("shard_rows", shard_rows, 1, 1 << 24, "rows of a shard")
    folder = Path(folder)
    for path in paths:
        if path != STANDARD_INPUT and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise ValueError(f"{path} is read, and is in {folder}, which is written; choose another folder")
    if STANDARD_INPUT in paths and share()[1] > 1:
        raise ValueError("standard input cannot be shared by processes; write the text to a file that all of them see")
    begun = (folder / FILE_NAME).is_file() or (folder / _WORK).is_dir()
    if not begun and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} already exists and holds something else; choose another folder")
    devices = encoder.mesh.devices
    job = Job(
        spec=encoder.spec,
        dim=encoder.dim,
        max_length=encoder.tokenizer.max_length if max_length is None else max_length,
        normalize=normalize,
        language=language,
        dtype=store,
        format=format,
        shard_rows=shard_rows,
        inputs=tuple(map(str, paths)),
        text=text,
        ids=ids,
        devices=f"{devices.size} x {devices.flat[0].device_kind}",
        versions=f"lsar_jax {version('lsar_jax')}, jax {jax.__version__}",
    )
    records = Records(paths, text, ids, jsonl)
    with work_folder(folder / _WORK, folder):
        _encode(encoder, job, folder, records, show_progress, progress or (lambda _: None))


def _encode(
    encoder: SentenceEncoder,
    job: Job,
    folder: Path,
    records: Records,
    show_progress: bool,
    progress: Callable[[Progress], None],
) -> None:
    """Encodes this process's shards that are not done; process 0 then writes the manifest."""
    manifest, done = _begin(folder, job)
    numbers = share_of(sorted(done))
    advice = "remove it, and run the command again, which encodes it again"
    missing = missing_files(folder, [done[number].files for number in numbers], advice)
    for name in chain.from_iterable(missing):
        _log.warning("%s is missing, and is encoded again", folder / name)
    complete = {number for number, names in zip(numbers, missing, strict=True) if not names}
    wait_for_all("begun")
    process, processes = share()
    clock = _Clock(records)
    count = position = 0
    for number, part in enumerate(_parts(records, job.shard_rows)):
        count = number + 1
        if number % processes == process:
            if manifest is not None and number >= len(manifest.shards):
                raise ValueError(
                    f"{_changed(job)}: there are more sentences than the {manifest.rows} that {folder} was encoded "
                    "from; choose another folder"
                )
            sentences = as_jsonl(part, number * job.shard_rows)
            _check_text(folder, job, number, part, sentences, records, done.get(number))
            if number not in complete:
                clock.start(position)
                shard, encoded = _write(encoder, job, folder, number, part, sentences, show_progress)
                clock.encoded += encoded
                _record(folder, number, shard, done.get(number))
            progress(clock.progress(number * job.shard_rows + len(part)))
        position = records.position
    check_alike("the inputs", json.dumps([source._asdict() for source in records.sources]))
    if is_first():
        _finish(folder, job, records, count, manifest)
    wait_for_all("finished")


def _begin(folder: Path, job: Job) -> tuple[Manifest | None, dict[int, Shard]]:
    """Records a job, or compares it with the one that was begun; returns its manifest, and the shards that are done."""
    manifest = read_manifest(folder) if (folder / FILE_NAME).is_file() else None
    if manifest is not None:
        begun, done = manifest.job, dict(enumerate(manifest.shards))
    else:
        done = {int(path.stem): read_shard(path) for path in (folder / _WORK).glob("[0-9]*.json")}
        # Options may change until a shard is done.
        begun = read_job(folder / _WORK / "job.json") if done else job
    if difference := job.difference(begun):
        raise ValueError(
            f"{folder} was begun with other options: {difference}; choose another folder, or remove this one"
        )
    check_alike("the options", json.dumps(job.to_dict()))
    if is_first():
        write_json(folder / _WORK / "job.json", job.to_dict())
        remove(partial_files(folder, folder / _WORK))
    return manifest, done


def _check_text(
    folder: Path, job: Job, number: int, part: list[Record], sentences: bytes, records: Records, done: Shard | None
) -> None:
    """Raises ValueError if a shard that is done was made from other sentences."""
    if done is None or done.text == text_sha256(sentences.decode()):
        return
    paths = sorted({records.paths[record.source] for record in part})
    first = number * job.shard_rows
    raise ValueError(
        f"{' and '.join(map(str, paths))} changed: rows {first} to {first + len(part) - 1} are not those that "
        f"{file_names(job.format, number)[0]} in {folder} was made from; choose another folder"
    )


def _write(
    encoder: SentenceEncoder,
    job: Job,
    folder: Path,
    number: int,
    part: list[Record],
    sentences: bytes,
    show_progress: bool,
) -> tuple[Shard, int]:
    """Encodes a shard and writes its files; returns its record, and the number of its distinct sentences."""
    places = {text: place for place, text in enumerate(dict.fromkeys(record.text for record in part))}
    made, report = encoder.encode_with_report(
        list(places),
        language=job.language,
        max_length=job.max_length,
        normalize=job.normalize,
        show_progress=show_progress,
    )
    vectors: Float[np.ndarray, "row dim"] = np.asarray(made)[[places[record.text] for record in part]]
    write_shard(folder, job, number, sentences, vectors)
    files = digests(folder, file_names(job.format, number))
    shard = Shard(len(part), files, text_sha256(sentences.decode()), report.tokens, report.truncated)
    return shard, len(places)


def _record(folder: Path, number: int, shard: Shard, before: Shard | None) -> None:
    """Marks a shard as done; one of which a file was missing must come out as it was."""
    if before is not None and before.files != shard.files:
        # Missing, the shard is compared again the next time.
        remove(folder / name for name in shard.files)
        raise ValueError(
            f"{next(iter(shard.files))} of {folder} was encoded again, and is not what it was: the machine or a "
            "package changed; choose another folder"
        )
    write_json(folder / _WORK / f"{number:05d}.json", asdict(shard))


def _finish(folder: Path, job: Job, records: Records, count: int, before: Manifest | None) -> None:
    """Writes the manifest of a folder, or compares it with the one that is there."""
    names = [file_names(job.format, number)[0] for number in range(count)]
    if before is None:
        notes = {int(path.stem): path for path in (folder / _WORK).glob("[0-9]*.json")}
        for number, name in enumerate(names):
            if number not in notes:
                raise ValueError(f"{name} of {folder} was not written: another process ended; run the command again")
        if later := sorted(notes.keys() - set(range(count))):
            raise ValueError(
                f"{_changed(job)}: it ends after {count} shards, but {folder} also has "
                f"{file_names(job.format, later[0])[0]}; choose another folder"
            )
        before = Manifest(job, tuple(records.sources), tuple(read_shard(notes[number]) for number in range(count)))
        before.write(folder)
    elif count < len(before.shards):
        raise ValueError(
            f"{_changed(job)}: {folder} was encoded from {before.rows} rows, and there are only {count} shards of "
            "them; choose another folder"
        )
    for source, other in zip(records.sources, before.sources, strict=True):
        if source != other:
            raise ValueError(
                f"{source.name} changed: it has the digest {source.sha256}, but {folder} was encoded from a file "
                f"with {other.sha256}, although their sentences are the same; choose another folder"
            )
    if truncated := sum(shard.truncated for shard in before.shards):
        _log.warning("%d sentences were truncated to %d tokens", truncated, job.max_length)


class _Clock:
    """How far a job is, and how fast it has been since its first sentence was encoded."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.encoded = self.first_byte = 0
        self.started: float | None = None

    def start(self, first_byte: int) -> None:
        """Starts the clock at this byte of the inputs, unless it runs."""
        if self.started is None:
            self.started, self.first_byte = time.perf_counter(), first_byte

    def progress(self, rows: int) -> Progress:
        """Returns the progress of a job of which so many rows are done."""
        total, position = self.records.total, self.records.position
        seconds = 0.0 if self.started is None else time.perf_counter() - self.started
        if total is None:
            return Progress(rows, self.encoded, seconds, None, None)
        read = position - self.first_byte
        left = seconds * (total - position) / read if self.encoded and read else None
        return Progress(rows, self.encoded, seconds, position / max(1, total), left)


def _changed(job: Job) -> str:
    return f"{' and '.join(job.inputs)} changed"


def _parts(records: Iterable[Record], rows: int) -> Iterator[list[Record]]:
    stream = iter(records)
    while part := list(islice(stream, rows)):
        yield part
