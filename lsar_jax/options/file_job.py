"""A command that writes files, whole or in shares, whose parts are in a folder beside the output until a merge."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from lsar_jax.corpora.records import STANDARD_INPUT
from lsar_jax.embeddings.job import JOB_FILES, RECORD, changed_options, is_written, versions, work_folder
from lsar_jax.embeddings.job_shares import WHOLE, finish_share, found_by_shares, share_count
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.files import check_file, check_outputs, read_json, sha256, text_sha256, write_json
from lsar_jax.mining.job import notes_of
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.shard import ShardOption

__all__ = ["FileJob"]

# Options that need not be alike in all shares, paths of files that are compared by their digests, and what a merge
# adds to the record.
_FREE = ("shard", "arguments", "overwrite", "out", "save", "texts", "moments", "written")


@dataclass(frozen=True, kw_only=True)
class FileJob(ShardOption, InputOptions):
    """A job whose parts are files, of names that match ``parts``.

    Attributes:
      overwrite: replace outputs that exist.
    """

    parts: ClassVar[str] = ""

    overwrite: bool = False

    @cached_property
    def opened(self) -> SentenceEncoder | None:
        """The encoder, by default of a transform's layer; None for vectors."""
        return None if self.encoder is None else self.load(getattr(self, "loaded", None))

    def whole(self) -> None:
        """Does the job."""

    def share(self, shard: tuple[int, int], folder: Path) -> dict[str, Any]:
        """Writes the missing parts of a share, and returns what it found of the whole job, as JSON values."""
        return {}

    def merge(self, found: Mapping[str, Any], folder: Path) -> None:
        """Writes the outputs, from the parts and what all shares found."""

    def run_job(self, outputs: Sequence[Path], inputs: Mapping[str, Sequence[Path]]) -> None:
        """Does the whole job, or a share of it, or ends one that shares did; the work is beside the first output.

        Raises:
          OSError, ValueError: as for ``check_outputs``, ``work_folder`` and ``found_by_shares``; or the job was begun
            with other options or inputs, or has no parts.
        """
        work, shard = notes_of(outputs[0]), self.place()
        # All, unless a merge was killed at its end.
        left = [path for path in outputs if not is_written(work, path)]
        check_outputs(left, chain(*inputs.values(), self.encoder_files()), overwrite=self.overwrite)
        if (count := share_count(work) if shard == WHOLE else shard[1]) == 1:
            self.whole()
            return
        if not self.parts:
            advice = "encode the text in shares, with lsar-jax encode, and fit on the folders, with --shard 0/1"
            raise ValueError(f"--shard sums moments, but this method is fitted on the embeddings; {advice}")
        options = {field.name: getattr(self, field.name) for field in fields(self)} | dict.fromkeys(_FREE)
        options |= {name: [_digest(path) for path in paths] for name, paths in inputs.items()}
        options |= {"command": type(self).__name__, "versions": versions(), "outputs": len(outputs), "count": count}
        with work_folder(work, outputs[0], f"{JOB_FILES}|[0-9a-f]{{64}}/({self.parts})?", shard):
            begun = read_json(work / RECORD, dict) if (work / RECORD).is_file() else {}
            # A merge does not open the encoder.
            options["spec"] = begun.get("spec") if shard == WHOLE else self.opened and self.opened.spec.to_dict()
            record = json.loads(json.dumps(options, default=str))
            if begun and (difference := changed_options(begun | {"written": None}, record)):
                raise ValueError(f"{work} was begun with other options: {difference}; remove it, or write another file")
            # Shares of other options, or of another number, that began at the same time have parts elsewhere.
            parts = work / text_sha256(json.dumps(record, sort_keys=True))
            if shard != WHOLE:
                write_json(work / RECORD, record)
                parts.mkdir(exist_ok=True)
                finish_share(work, shard, record | self.share(shard, parts))
                self.finish(outputs[0], shard, work)
            elif left:
                self.merge(found_by_shares(work, outputs[0]), parts)


def _digest(path: Path) -> str:
    """The digest by which shares compare a file, or the manifest of a folder."""
    if path == STANDARD_INPUT:
        raise ValueError("standard input cannot be read in shares; write it to a file")
    file = (path / "manifest.json" if path.is_dir() else path).absolute()
    check_file(file)
    return sha256([file])
