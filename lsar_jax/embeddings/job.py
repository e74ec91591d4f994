"""Encodes text of any length into a folder, shard after shard; a job that was stopped goes on where it was.

A shard is finished once ``.job/00000.json`` is written, after its files. A run first compares the finished shards with
their digests, and then reads the text from its beginning: the sentences of a finished shard are compared with their
digest too, so that shards of different text are never mixed, and it is not encoded again. The vectors of a shard depend
only on its own sentences and on where each came first, so a job ends in the same bytes however often it was stopped.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from lsar_jax.checks import check_flags, whole_number
from lsar_jax.corpora.records import STANDARD_INPUT, Record, Records
from lsar_jax.embeddings.manifest import FILE_NAME, Job, Manifest, Shard, read_job, read_manifest, read_shard
from lsar_jax.embeddings.seen import Seen
from lsar_jax.embeddings.shards import FORMATS, file_names, jsonl, read_rows, write_shard
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.files import read_json, sha256, text_sha256, work_folder, write_json
from lsar_jax.processes import share, wait_for_all

__all__ = ["Progress", "encode"]

_log = logging.getLogger("lsar_jax")

# Rows of a shard: few on a CPU, because a job that is stopped loses a shard's work.
_ROWS = 65_536
_ROWS_ON_CPU = 8_192
# Seconds between two looks for a shard of another process.
_POLL = 0.05


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
    rows: bool = False,
    language: str | None = None,
    max_length: int | None = None,
    normalize: bool = False,
    dtype: Literal["float32", "float16"] = "float32",
    format: Literal["npy", "parquet"] = "npy",
    shard_rows: int | None = None,
    show_progress: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    r"""Encodes the sentences of files into a folder, a row for each line or record.

    A sentence that occurs several times is encoded once. Memory does not grow with the text. If the process is stopped,
    the same call goes on and ends in the same bytes; a call for a finished folder checks it. Several processes
    (``lsar_jax.processes``) take the shards in turn; the bytes do not depend on how many there are.

    Args:
      encoder: the encoder, with its transform if there is one.
      inputs: text files, ``.jsonl`` or ``.parquet`` files, the first two perhaps compressed (``.gz``), or ``-`` for
        standard input. An empty line is an empty sentence.
      folder: the folder; ``lsar_jax.embeddings.open`` opens it once it is finished.
      text: the column of the sentences in files with columns.
      ids: the column of their ids; by default, the id of a sentence is the number of its row.
      rows: whether standard input is JSON lines.
      language: language code of all sentences, or ``auto``; needed if the encoder or its transform depends on it.
      max_length: maximum number of tokens per sentence; by default, the checkpoint's.
      normalize: whether to divide each vector by its length.
      dtype: dtype to store.
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
    check_flags(normalize=normalize, rows=rows, show_progress=show_progress)
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype {dtype!r} is not one of float32, float16")
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
    devices = encoder.mesh.devices
    job = Job(
        encoder.spec, encoder.dim, encoder.tokenizer.max_length if max_length is None else max_length, normalize,
        language, dtype, format, shard_rows, tuple(map(str, paths)), text, ids,
        f"{devices.size} x {devices.flat[0].device_kind}", f"lsar_jax {version('lsar_jax')}, jax {jax.__version__}",
    )  # fmt: skip
    if STANDARD_INPUT in paths and share()[1] > 1:
        raise ValueError("standard input cannot be shared by processes; write the text to a file that all of them see")
    records = Records(paths, text, ids, rows)
    _Work(encoder, job, folder, show_progress, progress or (lambda _: None)).run(records)


class _Work:
    """One run of a job."""

    def __init__(
        self, encoder: SentenceEncoder, job: Job, folder: Path, bar: bool, progress: Callable[[Progress], None]
    ) -> None:
        self.encoder, self.job, self.folder, self.bar, self.progress = encoder, job, folder, bar, progress
        self.notes = folder / ".job"
        self.number, self.processes = share()
        self.finished: Manifest | None = None
        # Sentences that this run encoded; when, and after which byte of the inputs, it began with the first.
        self.encoded = 0
        self.started = 0.0
        self.before = 0

    def run(self, records: Records) -> None:
        ours = (self.folder / FILE_NAME).is_file() or self.notes.is_dir()
        if not ours and self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise FileExistsError(f"{self.folder} already exists and holds something else; choose another folder")
        with work_folder(self.notes, self.folder) if self.number == 0 else nullcontext():
            self._run(records)

    def _run(self, records: Records) -> None:
        self._begin()
        self._verify()
        count = 0
        with closing(Seen()) as seen:
            position = 0
            for number, part in enumerate(_parts(records, self.job.shard_rows)):
                count = number + 1
                # Before anything is encoded, because later shards may take rows of this one.
                came_first = seen.add([record.text for record in part], number * self.job.shard_rows)
                if number % self.processes == self.number:
                    self._shard(number, part, came_first, records, position)
                    self.progress(self._told(number * self.job.shard_rows + len(part), records))
                position = records.position
        sources = [source._asdict() for source in records.sources]
        write_json(self.notes / f"sources-{self.number}.json", sources)
        wait_for_all("encoded")
        if self.number == 0:
            self._check_sources(sources)
            self._finish(Manifest(self.job, tuple(records.sources), tuple(map(self._finished, range(count)))))
        wait_for_all("finished")

    def _told(self, rows: int, records: Records) -> Progress:
        seconds = time.perf_counter() - self.started if self.encoded else 0.0
        if records.total is None:
            return Progress(rows, self.encoded, seconds, None, None)
        read = records.position - self.before
        left = seconds * (records.total - records.position) / read if self.encoded and read else None
        return Progress(rows, self.encoded, seconds, records.position / max(1, records.total), left)

    def _begin(self) -> None:
        """Creates the folder, or compares the job with the one that it was begun with."""
        if (self.folder / FILE_NAME).is_file():
            self.finished = read_manifest(self.folder)
            begun = self.finished.job
        elif any(self.notes.glob("[0-9]*.json")):
            begun = read_job(self.notes / "job.json")
        else:
            # Nothing was finished with other options, if there were any.
            begun = self.job
        self._compare(begun)
        wait_for_all("checked")
        if self.number == 0:
            write_json(self.notes / "job.json", self.job.to_dict())
            # What a process that was killed left.
            for left in (*self.folder.glob(".*.partial*"), *self.notes.glob(".*.partial*")):
                left.unlink()
        wait_for_all("begun")
        # Those of process 0, if this is another one.
        self._compare(read_job(self.notes / "job.json"))

    def _compare(self, begun: Job) -> None:
        if told := self.job.difference(begun):
            raise ValueError(
                f"{self.folder} was begun with other options: {told}; choose another folder, or remove this one"
            )

    def _verify(self) -> None:
        """Compares this process's share of the finished shards with their digests, before any row is taken of them.

        The record of a shard that is missing is kept aside, to be compared with what is encoded again.
        """
        numbers = [int(path.stem) for path in self.notes.glob("[0-9]*.json")]
        if self.finished is not None:
            numbers = list(range(len(self.finished.shards)))
        for number in sorted(numbers):
            if number % self.processes != self.number:
                continue
            shard = read_shard(self._note(number)) if self.finished is None else self.finished.shards[number]
            if self._is_there(number, shard):
                self._before(number).unlink(missing_ok=True)
            else:
                write_json(self._before(number), asdict(shard))
                self._note(number).unlink(missing_ok=True)
        wait_for_all("verified")

    def _shard(
        self, number: int, part: list[Record], came_first: Int[np.ndarray, " row"], records: Records, position: int
    ) -> None:
        """Encodes a shard unless it is finished; ``position`` is where its text begins."""
        first = number * self.job.shard_rows
        sentences = jsonl(part, first)
        text = text_sha256(sentences.decode())
        known = self._recorded(number)
        if known is not None and known.text != text:
            where = {records.paths[record.source] for record in part}
            raise ValueError(
                f"{' and '.join(map(str, sorted(where)))} changed: rows {first} to {first + len(part) - 1} are not "
                f"those that {file_names(self.job.format, number)[0]} in {self.folder} was made from; choose another "
                "folder"
            )
        if self._is_finished(number):
            return
        if not self.encoded:
            self.started, self.before = time.perf_counter(), position
        vectors, tokens, truncated = self._vectors(part, came_first, first)
        write_shard(self.folder, self.job, number, sentences, vectors)
        names = file_names(self.job.format, number)
        shard = Shard(len(part), {name: sha256([self.folder / name]) for name in names}, text, tokens, truncated)
        if known is not None and known.files != shard.files:
            raise ValueError(
                f"{names[0]} of {self.folder} was encoded again, and is not what it was: the machine or a package "
                "changed; choose another folder"
            )
        if self.finished is None:
            write_json(self._note(number), asdict(shard))
        self._before(number).unlink(missing_ok=True)

    def _recorded(self, number: int) -> Shard | None:
        """Returns what is recorded of a shard that was finished before, whether it is still there or not."""
        if self.finished is not None:
            if number >= len(self.finished.shards):
                raise ValueError(
                    f"{' and '.join(self.job.inputs)} changed: there are more sentences than the {self.finished.rows} "
                    f"that {self.folder} was encoded from; choose another folder"
                )
            return self.finished.shards[number]
        paths = [path for path in (self._note(number), self._before(number)) if path.is_file()]
        return read_shard(paths[0]) if paths else None

    def _finished(self, number: int) -> Shard:
        """Returns what is recorded of a shard that every process takes for finished."""
        shard = self._recorded(number)
        if shard is None or not self._is_finished(number):
            raise ValueError(
                f"{file_names(self.job.format, number)[0]} of {self.folder} was not written: another process ended, or "
                "read other text; run the command again"
            )
        return shard

    def _is_finished(self, number: int) -> bool:
        """Whether a shard is there; other processes see one of this process when its record is written."""
        return self._note(number).is_file() if self.finished is None else not self._before(number).is_file()

    def _note(self, number: int) -> Path:
        return self.notes / f"{number:05d}.json"

    def _before(self, number: int) -> Path:
        return self.notes / f"missing-{number:05d}.json"

    def _is_there(self, number: int, shard: Shard) -> bool:
        """Whether the files of a finished shard are what was written; one that is missing is encoded again."""
        for name, expected in shard.files.items():
            path = self.folder / name
            if not path.is_file():
                _log.warning("%s is missing, and is encoded again", path)
                return False
            if sha256([path]) != expected:
                raise ValueError(f"{path} is damaged: it is not what was written; remove it, and it is encoded again")
        return True

    def _vectors(
        self, part: list[Record], came_first: Int[np.ndarray, " row"], first: int
    ) -> tuple[Float[np.ndarray, "row dim"], int, int]:
        """Returns the vectors of a shard, the tokens encoded for it, and the sentences truncated."""
        new = np.flatnonzero(came_first == np.arange(first, first + len(part)))
        vectors = np.empty((len(part), self.job.dim), np.float32)
        tokens = truncated = 0
        if len(new):
            made, report = self.encoder.encode_with_report(
                [part[row].text for row in new],
                language=self.job.language,
                max_length=self.job.max_length,
                normalize=self.job.normalize,
                show_progress=self.bar,
            )
            vectors[new] = np.asarray(made)
            tokens, truncated = report.tokens, report.truncated
            self.encoded += len(new)
        again = np.flatnonzero((came_first >= first) & (came_first != np.arange(first, first + len(part))))
        vectors[again] = vectors[came_first[again] - first]
        earlier = np.flatnonzero(came_first < first)
        numbers, places = np.divmod(came_first[earlier], self.job.shard_rows)
        for number in np.unique(numbers):
            while not self._is_finished(int(number)):
                # Another process is encoding it; if that one ends, jax ends this one.
                time.sleep(_POLL)
            chosen = numbers == number
            vectors[earlier[chosen]] = read_rows(self.folder, self.job, int(number), places[chosen])
        return vectors, tokens, truncated

    def _check_sources(self, sources: list[dict[str, Any]]) -> None:
        """Raises ValueError if another process read other files."""
        for number in range(1, self.processes):
            theirs = read_json(self.notes / f"sources-{number}.json", list)
            for one, other in zip(sources, theirs, strict=True):
                if one != other:
                    raise ValueError(f"{one['name']} is another file for process {number}; give all processes one text")

    def _finish(self, manifest: Manifest) -> None:
        before = manifest if self.finished is None else self.finished
        if before.rows != manifest.rows:
            raise ValueError(
                f"{' and '.join(self.job.inputs)} changed: {self.folder} was encoded from {before.rows} rows, and "
                f"there are {manifest.rows}; choose another folder"
            )
        for one, other in zip(manifest.sources, before.sources, strict=True):
            if one != other:
                raise ValueError(
                    f"{one.name} changed: it has the digest {one.sha256}, but {self.folder} was encoded from a file "
                    f"with {other.sha256}, although their sentences are the same; choose another folder"
                )
        if later := self._later(len(manifest.shards)):
            raise ValueError(
                f"{' and '.join(self.job.inputs)} changed: it ends after {manifest.rows} rows, but {self.folder} also "
                f"has {later}; choose another folder"
            )
        if self.finished is None:
            manifest.write(self.folder)
        truncated = sum(shard.truncated for shard in manifest.shards)
        if truncated:
            _log.warning("%d sentences were truncated to %d tokens", truncated, self.job.max_length)

    def _later(self, count: int) -> str:
        """Returns the name of a finished shard after the last one of the text, if there is one."""
        later = [path for path in sorted(self.notes.glob("[0-9]*.json")) if int(path.stem) >= count]
        return file_names(self.job.format, int(later[0].stem))[0] if later else ""


def _parts(records: Iterable[Record], rows: int) -> Iterator[list[Record]]:
    stream = iter(records)
    while part := list(islice(stream, rows)):
        yield part
