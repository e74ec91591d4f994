"""``lsar-jax duplicates``: groups the translations and near-duplicates inside one collection."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from lsar_jax import embeddings
from lsar_jax.corpora.records import input_path
from lsar_jax.embeddings.job import work_folder
from lsar_jax.embeddings.manifest import FILES
from lsar_jax.files import check_outputs
from lsar_jax.mining.duplicates import write_duplicates
from lsar_jax.mining.job import notes_of
from lsar_jax.mining.pair_files import check_form
from lsar_jax.mining.thresholds import read_threshold
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.inputs import InputName
from lsar_jax.transforms import Transform

__all__ = ["Duplicates"]


@dataclass(frozen=True)
class Duplicates(InputOptions):
    """Groups the translations, near-duplicates and copies inside one collection of any number of languages.

    Sentences are joined if each is among the nearest others of the other, and their scores reach the threshold.

    Attributes:
      source: a folder that lsar-jax encode wrote, or, with --encoder, a file of text that it could read.
      out: the file to write: group, score, id and text between tabs; or .jsonl, a group a line.
      transform: a file that lsar-jax fit or Transform.save wrote, applied to the vectors.
      threshold: the lowest score of two sentences, a cosine; or a calibration of --transform, with which it is CSLS.
      error: with a calibration, the error of its threshold, which is for searches between languages; by default, 0.05.
      k: number of nearest others of a sentence.
      language: language code of all sentences, or auto to detect each; a shared transform needs none.
      overwrite: replace the output if it exists.
    """

    source: tyro.conf.Positional[InputName]
    out: tyro.conf.Positional[Path]
    threshold: float | Path
    error: float | None = None
    transform: Path | None = None
    k: int = 10
    language: str | None = None
    overwrite: bool = False

    # What --help shows.
    essential = (
        "source", "out", "encoder", "layer", "text", "transform", "threshold", "error", "k", "language", "overwrite"
    )  # fmt: skip

    def run(self) -> None:
        """Writes the groups, and prints how many there are."""
        path, (threshold, error) = input_path(self.source), read_threshold(self.threshold, self.error)
        check_form(self.out)
        check_outputs([self.out], [path, *self.encoder_files()], overwrite=self.overwrite)
        self.check_text([] if path.is_dir() else [path])
        transform = None if self.transform is None else Transform.load(self.transform)
        work = notes_of(self.out)
        with work_folder(work, self.out, f"lock|text/({FILES})?"):
            folder = path if path.is_dir() else work / "text"
            if folder is not path:
                self.encode_file(self.load(transform), path, folder, self.language)
            groups, sentences = write_duplicates(
                embeddings.open(folder), self.out, threshold, error=error, transform=transform,
                language=self.language, k=self.k,
            )  # fmt: skip
        print(f"wrote {groups:,} groups of {sentences:,} sentences to {self.out}")
