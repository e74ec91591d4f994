"""Encodes text of any length into a folder, shard after shard; a job that was stopped goes on where it was.

A shard is done once ``.job/00000.json`` is written, after its files. A run compares the shards that are done, and their
sentences as it reads the text from its beginning, with their digests, so that shards of different text are never mixed.
The vectors of a shard depend only on its own sentences, so a job ends in the same bytes however often it was stopped.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from lsar_jax.arrays import log
from lsar_jax.checks import check_choice, check_flags, whole_number
from lsar_jax.corpora.records import STANDARD_INPUT, Record, Records, input_path
from lsar_jax.embeddings.job import (
    RECORD,
    Progress,
    check_digest,
    is_part_of,
    remove_partial_files,
    versions,
    work_folder,
)
from lsar_jax.embeddings.job_shares import WHOLE, check_share, finish_share
from lsar_jax.embeddings.manifest import (
    DTYPES,
    FILE_NAME,
    FILES,
    FORMATS,
    MOST_ROWS,
    RECORDS,
    SHARD_FILES,
    WORK,
    WORK_FILES,
    Job,
    Manifest,
    Shard,
    file_names,
    finished_shards,
    read_record,
)
from lsar_jax.embeddings.merge import finish_folder
from lsar_jax.embeddings.shards import as_jsonl, write_shard
from lsar_jax.encoders.progress import Meter
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.files import check_absent, is_within, text_sha256, write_json

__all__ = ["encode"]


# Rows of a shard, which a job that is killed loses at most, on accelerators and on a CPU.
_ROWS, _ROWS_ON_CPU = 65_536, 2_048


def encode(
    encoder: SentenceEncoder,
    inputs: Sequence[str | Path],
    folder: str | Path,
    *,
    text: str | None = None,
    ids: str | None = None,
    language: str | None = None,
    max_length: int | None = None,
    normalize: bool = False,
    store: Literal["float32", "float16"] = "float32",
    format: Literal["npy", "parquet"] = "npy",
    shard_rows: int | None = None,
    shard: tuple[int, int] = WHOLE,
    show_progress: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    r"""Encodes the sentences of files into a folder, a row for each line or record.

    A sentence that occurs several times in a shard is encoded once. Memory does not grow with the text. If the process
    is stopped, the same call goes on and ends in the same bytes; a call for a finished folder checks it. With ``shard``
    a process encodes every n-th shard of rows alone, and ``merge`` ends the job, in the same bytes.

    Args:
      encoder: the encoder, with its transform if there is one.
      inputs: text files with a sentence per line (an empty line is an empty sentence), files with columns, or ``-``
        for standard input; ``lsar_jax.corpora.records.Records`` lists their suffixes. A line has at most 4 MiB.
      folder: the folder; ``lsar_jax.embeddings.open`` opens it once it is finished.
      text: the column of the sentences in files with columns; by default, ``text``.
      ids: the column of their ids; by default, the id of a sentence is the number of its row.
      language: the code of all sentences, or ``auto``, if the encoder or its transform needs it.
      max_length: as for ``encoder.encode``.
      normalize: whether to divide each vector by its length.
      store: dtype of the stored vectors.
      format: ``npy``, with sentences in JSON lines beside it, or ``parquet``.
      shard_rows: rows of each shard but the last; by default 65,536, and 2,048 on a CPU.
      shard: the number of this process's share of the job, from 0, and the number of shares; each reads all text.
      show_progress: whether to show the share that is done and the time left, as ``encoder.encode`` does.
      progress: called after each shard that was encoded.

    Raises:
      FileExistsError: the folder holds something else.
      FileNotFoundError: an input does not exist.
      ValueError: the folder was begun from other text, with another encoder, with other options or in another number of
        shares, a finished shard is damaged, or a sentence cannot be encoded.
    """
    check_flags(normalize=normalize, show_progress=show_progress)
    check_choice("store", store, DTYPES)
    check_choice("format", format, FORMATS)
    if not (paths := [input_path(path) for path in inputs]):
        raise ValueError("there is nothing to encode; give one or more files, or - for standard input")
    devices, folder, shard = encoder.mesh.devices, Path(folder), check_share(shard)
    usual = _ROWS_ON_CPU if devices.flat[0].platform == "cpu" else _ROWS
    rows = whole_number("shard_rows", usual if shard_rows is None else shard_rows, 1, MOST_ROWS, "rows of a shard")
    for path in paths:
        if path != STANDARD_INPUT and is_within(path, folder):
            raise ValueError(f"{path} is read, and is in {folder}, which is written; choose another folder")
    work = folder / WORK
    if not (folder / FILE_NAME).is_file() and not (work / RECORD).is_file():
        check_absent(folder, [WORK])  # a run that was killed at once leaves a folder without a record
    job = Job(
        spec=encoder.spec, dim=encoder.dim, normalize=normalize, language=language, dtype=store, format=format,
        max_length=encoder.tokenizer.max_length if max_length is None else max_length, shard_rows=rows,
        inputs=tuple(map(str, paths)), text="text" if text is None else text, ids=ids, versions=versions(),
        devices=f"{devices.size} x {devices.flat[0].device_kind}", applied=tuple(sorted(encoder.applied)),
    )  # fmt: skip
    # A share of a finished folder checks all of it.
    shard = WHOLE if (folder / FILE_NAME).is_file() else shard
    with work_folder(work, folder, WORK_FILES, shard, finished=folder / FILE_NAME), Meter(show_progress) as meter:
        _Encoding(encoder, job, folder, Records(paths, text, ids), meter, shard).run(progress)


class _Encoding:
    """A run of a job, with the shards that are done."""

    def __init__(
        self, encoder: SentenceEncoder, job: Job, folder: Path, records: Records, meter: Meter, shard: tuple[int, int]
    ) -> None:
        self.encoder, self.job, self.folder, self.records = encoder, job, folder, records
        self.meter, self.shard = meter, shard
        self.manifest = Manifest.read(folder) if (folder / FILE_NAME).is_file() else None
        self.done: dict[int, Shard] = {}

    def run(self, progress: Callable[[Progress], None] | None) -> None:
        """Encodes the shards that are not done, of this share, and then writes the manifest, or the share's mark."""
        self._begin()
        missing = self._missing()
        share, shares = self.shard
        rows, stream, total = self.job.shard_rows, iter(self.records), self.records.total
        count, before, encoded = 0, 0, 0.0

        def show(more: float) -> Progress:
            nonlocal encoded
            encoded += more
            done, byte = number * rows + round(encoded * len(part)), before + encoded * (self.records.position - before)
            left = self.meter(f"encoded {done:,} sentences", done if total is None else byte, total)
            return Progress(done, None if total is None else byte / max(1, total), left)

        while part := list(islice(stream, rows)):
            number, count = count, count + 1
            if number % shares == share:
                sentences = as_jsonl(part, number * rows)
                self._check_text(number, part, sentences)
                if number not in self.done or number in missing:
                    self._write(number, part, sentences, show)
                    if progress is not None:
                        progress(show(1 - encoded))
            before, encoded = self.records.position, 0.0
        if count < (begun := max(self.done, default=-1) + 1):
            raise self._changed(f"there are sentences for only {count} of its {begun} shards")
        sources = tuple(self.records.sources)
        if shares > 1:
            inputs = [source._asdict() for source in sources]
            found = {"inputs": inputs, "shards": count, "job": self.job.digest}
            finish_share(self.folder / WORK, self.shard, found)
        elif self.manifest is None:
            finish_folder(self.folder, self.job, sources, count)

    def _begin(self) -> None:
        """Records the job, or compares it with the one that was begun, and finds the shards that are done."""
        work, begun = self.folder / WORK, self.job
        if self.manifest is not None:
            begun = self.manifest.job
        elif any(work.glob(RECORDS)) or (self.shard[1] > 1 and (work / RECORD).is_file()):
            begun = read_record(work / RECORD, Job.from_dict)  # until a shard is done, options may change
        if self.shard[1] > 1 and begun.devices != self.job.devices:
            log.warning("the job was begun on %s, not on %s: last digits differ", begun.devices, self.job.devices)
            self.job = replace(self.job, devices=begun.devices)
        if difference := self.job.difference(begun):
            raise ValueError(f"{self.folder} was begun with other options: {difference}; choose another folder")
        # An encoder of another name is the same, and records carry the digest of this job.
        self.job = begun
        self.done = finished_shards(work, begun) if self.manifest is None else dict(enumerate(self.manifest.shards))
        write_json(work / RECORD, begun.to_dict())
        remove_partial_files(self.folder, FILES, self.shard)
        # Without a record, files of shards may be those of other options.
        for file in self.folder.iterdir() if not self._of_share(self.done) else ():
            named = re.fullmatch(SHARD_FILES, file.name) is not None and is_part_of(file, self.shard)
            if named and file.is_file() and not file.is_symlink():
                file.unlink()

    def _of_share(self, numbers: Iterable[int]) -> list[int]:
        """The shards of rows of this share."""
        return [number for number in sorted(numbers) if number % self.shard[1] == self.shard[0]]

    def _missing(self) -> set[int]:
        """The shards of this share that are done and lack a file, after comparing the files with their digests."""
        missing = set()
        for number in self._of_share(self.done):
            for name, digest in self.done[number].files.items():
                if (self.folder / name).is_file():
                    check_digest(self.folder / name, digest, "remove it, and run the command again")
                else:
                    log.warning("%s is missing, and is written again", self.folder / name)
                    missing.add(number)
        return missing

    def _check_text(self, number: int, part: list[Record], sentences: bytes) -> None:
        """Raises ValueError if a shard that is done was made from other sentences."""
        if number not in self.done and self.manifest is not None:
            raise self._changed(f"there are more sentences than its {self.manifest.rows}")
        if number in self.done and self.done[number].text != text_sha256(sentences.decode()):
            first, name = number * self.job.shard_rows, file_names(self.job.format, number)[0]
            raise self._changed(f"rows {first} to {first + len(part) - 1} are not those of {name}")

    def _changed(self, difference: str) -> ValueError:
        """The error of inputs that changed since the folder was begun."""
        names = " and ".join(self.job.inputs)
        return ValueError(f"{names} changed since {self.folder} was begun: {difference}; choose another folder")

    def _write(self, number: int, part: list[Record], sentences: bytes, show: Callable[[float], object]) -> None:
        """Writes the files of a shard and then, unless it is done, its record."""
        places = {text: place for place, text in enumerate(dict.fromkeys(record.text for record in part))}
        result, report = self.encoder.encode_with_report(
            list(places), language=self.job.language, max_length=self.job.max_length, normalize=self.job.normalize,
            show_progress=lambda count: show(count / len(places)),
        )  # fmt: skip
        vectors = np.asarray(result)[[places[record.text] for record in part]]
        before = self.done[number].files if number in self.done else {}
        files = write_shard(self.folder, self.job, number, sentences, vectors, before)
        if number not in self.done:
            digest = text_sha256(sentences.decode())
            shard = Shard(len(part), files, digest, report.tokens, report.truncated, report.decomposed)
            write_json(self.folder / WORK / f"{number:05d}.json", {"job": self.job.digest, **asdict(shard)})
