"""A job of mining: its options, the places that it writes to, and the record with which it goes on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Array, Float

from lsar_jax.checks import check_choice, whole_number
from lsar_jax.embeddings.job import JOB_FILES, NUMBER, RECORD, changed_options, check_own, is_written
from lsar_jax.embeddings.job_shares import WHOLE, check_share
from lsar_jax.embeddings.manifest import FILES
from lsar_jax.files import check_outputs, read_json, same_file, text_sha256, write_json
from lsar_jax.mining.known_pairs import KnownPairs
from lsar_jax.mining.pair_files import check_form
from lsar_jax.mining.thresholds import bank_of, check_threshold, threshold_of
from lsar_jax.retrieval.calibration import Calibration
from lsar_jax.retrieval.plan import Precision
from lsar_jax.retrieval.search import LOCAL
from lsar_jax.transforms import Transform

__all__ = ["MiningOptions", "begin", "check_languages", "check_paths", "neighbour_options", "notes_of", "work_files"]

# The names in the folder of a job's work, but those of text that is encoded there.
_WORK_FILES = rf"{JOB_FILES}|(forward|backward)-{NUMBER}\.safetensors"


@dataclass(frozen=True)
class MiningOptions:
    """Options of the mining of two folders, which the record of a job has.

    Attributes:
      k: number of nearest neighbours in each direction.
      precision: of the products, as for ``mine``.
      threshold: the lowest score to write; only positive scores are written, and by default all of these. Or
        ``KnownPairs`` to choose it by: mined pairs that are not among them count as wrong, so they should be all
        translations in the two folders. Or the ``Calibration`` of the transform: each source has its first target by
        CSLS, each target once, and the score is CSLS.
      error: with a calibration, the share of sources without a translation that may be accepted.
      transform: applied to the vectors as they are read.
      languages: language codes of the source and the target, for a transform that needs them, and for the threshold of
        this pair, if the calibration has it.
      block: number of vectors of each side in memory.
      shard: the number of this process's share of the work, from 0, and the number of shares; not in the record.

    Raises:
      ValueError: an option is out of range, as far as this does not depend on the folders, or the transform does not
        know a language.
    """

    k: int = 4
    precision: Precision = "float32"
    threshold: float | KnownPairs | Calibration | None = None
    error: float = 0.05
    transform: Transform | None = None
    languages: tuple[str | None, str | None] = (None, None)
    block: int = 65_536
    shard: tuple[int, int] = WHOLE

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, get_args(Precision))
        if not isinstance(self.threshold, KnownPairs | Calibration | None):
            check_threshold(self.threshold)
        whole_number("k", self.k, 1, 1 << 24, "the neighbours of a sentence")
        whole_number("block", self.block, 1024, 1 << 24, "vectors")
        check_languages(self.transform, self.languages)
        check_share(self.shard)

    @property
    def bank(self) -> Float[Array, "row dim"] | None:
        """The bank of the transform for a calibration, else None; ValueError if they do not belong together."""
        return bank_of(self.threshold, self.transform) if isinstance(self.threshold, Calibration) else None

    @property
    def neighbours(self) -> int:
        """The number of neighbours of a sentence that are kept."""
        return max(self.k, LOCAL) if isinstance(self.threshold, Calibration) else self.k

    @property
    def record(self) -> dict[str, Any]:
        """The options as the record of a job has them."""
        threshold: Any = self.threshold
        if isinstance(threshold, KnownPairs):
            threshold = ["known", text_sha256(json.dumps(threshold.pairs)), threshold.least_precision]
        elif isinstance(threshold, Calibration):
            threshold = ["calibrated", threshold_of(threshold, self.error, self.languages)]
        elif threshold is not None:
            threshold = float(threshold)
        bank = self.bank
        return {
            "k": int(self.neighbours), "bank": "" if bank is None else text_sha256(np.asarray(bank).tobytes().hex()),
            "precision": self.precision, "threshold": threshold, "languages": list(self.languages),
            "block": int(self.block), "transform": list(self.transform.digests) if self.transform else [],
        }  # fmt: skip


def neighbour_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the neighbours depend on."""
    return {name: value for name, value in options.items() if name != "threshold"}


def check_languages(transform: Transform | None, languages: Sequence[str | None]) -> None:
    """Raises ValueError if ``transform`` cannot be applied to a source and a target of these languages."""
    if transform is None:
        return
    nothing = np.zeros([0, transform.dim], np.float32)
    for language in languages:
        transform(nothing, language)


def notes_of(out: Path) -> Path:
    """Returns the folder in which a job that writes ``out`` keeps its work until it is finished."""
    return out.with_name(f"{out.name}.job")


def check_paths(source: Path, target: Path, out: Path, *, overwrite: bool) -> None:
    """Checks the places of a job: two inputs, and an output and a folder of work that replace nothing else.

    Raises:
      OSError: there is a file at ``out``, which no job that can go on has written, and ``overwrite`` is not given.
      ValueError: the inputs are one, the output or the work is in the place of something else, or the output has the
        suffix of another form.
    """
    if same_file(source, target):
        raise ValueError(f"{source} is given for both sides; give two collections")
    check_form(out)
    notes = notes_of(out)
    check_own(notes, work_files(notes, source, target))
    check_outputs([out], [source, target], overwrite=overwrite or is_written(notes, out))


def work_files(notes: Path, source: Path, target: Path) -> str:
    """The names that a job writes into the folder of its work: also text, of a side that is encoded there."""
    sides = (("source", source), ("target", target))
    text = [name for name, path in sides if not path.is_dir() or same_file(path, notes / name)]
    return "|".join([_WORK_FILES, *(rf"{name}/({FILES})?" for name in text)])


def begin(notes: Path, out: Path, options: Mapping[str, Any], shared: bool = False) -> int | None:
    """Records the options of a job, or compares them with those it was begun with, if ``shared`` by another process.

    Returns the number of pairs if the job has written its output, and else None.
    """
    path = notes / RECORD
    record = read_json(path, dict) if path.is_file() else {}
    begun = {name: value for name, value in record.items() if name not in ("written", "pairs")}
    parts, written = sorted(notes.glob("*ward-*.safetensors")), is_written(notes, out)
    # Until there is a part or the output, options may change, if no other process does parts.
    compared = dict if written or shared else neighbour_options
    if begun and (parts or written or shared) and (difference := changed_options(compared(begun), compared(options))):
        raise ValueError(f"{notes} was begun with other options: {difference}; remove it, or write another file")
    if written:
        return int(record["pairs"])
    # The record is written before the parts, and removed after them.
    if parts and not begun:
        raise ValueError(f"{parts[0]} is of no job that is known; remove it, or write another file")
    write_json(path, dict(options))
    return None
