"""``lsar-jax mine``: finds translations in two collections of any size; a job that was stopped goes on."""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from lsar_jax import embeddings
from lsar_jax.checks import errors_of
from lsar_jax.corpora.records import input_path
from lsar_jax.embeddings.job_shares import WHOLE
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.files import check_outputs, is_within
from lsar_jax.mining import KnownPairs, MiningOptions, mine_folders
from lsar_jax.mining.given_pairs import score_file
from lsar_jax.mining.job import check_languages, check_paths, notes_of
from lsar_jax.mining.thresholds import read_threshold
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.shard import ShardOption
from lsar_jax.transforms import Transform

__all__ = ["Mine"]

_ALL_PAIRS = (
    "warning: without --threshold, pairs that are not translations are written too, often many. The best come first: "
    "read some, and cut the file (head -n LINES), or give --threshold or --known, a file of all translations"
)


@dataclass(frozen=True)
class Mine(ShardOption, InputOptions):
    """Finds translations in two collections, best first; or scores those of --pairs FILE, in the order of the file.

    Stop it at any time: the same command goes on, as long as its work is in a folder beside the output, whose name ends
    in .job.

    Attributes:
      paths: SOURCE and TARGET, each a folder that lsar-jax encode wrote or a file of text that it could read, and the
        file to write, OUT: score, source and target separated by tabs; or .jsonl, with the ids of both sentences. With
        --pairs, OUT alone, which as .jsonl has all scores.
      pairs: file of pairs to score and filter, in the forms of the output, or the first of two Moses files
        (NAME.de-en.de); the neighbours of a sentence are those in the same file.
      transform: a file that lsar-jax fit or Transform.save wrote, applied to the vectors.
      languages: language codes of the source and the target, for an encoder or a transform that needs them.
      k: number of nearest neighbours in each direction.
      threshold: the lowest score to write, or a calibration of --transform, by which pairs are scored by CSLS and the
        share --error of wrong ones is accepted, in the pair of --languages if it has that; by default, all pairs are
        written.
      error: with a calibration, the share of sentences without a translation that may be accepted; by default, 0.05.
      known: file of all translations in the inputs, to choose the threshold by: source and target, or their ids, in
        the forms of the output. Mined pairs that are not in it count as wrong.
      correct: the least share of known pairs among those written, in percent, such as 95; by default, the threshold
        has the best F1.
      columns: names of the columns of tables of pairs: source and target, and others; by default, found out.
      block: number of vectors of each side in memory.
      overwrite: replace the output if it exists.
    """

    paths: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[SOURCE TARGET] OUT")]
    pairs: Path | None = None
    transform: Path | None = None
    languages: tuple[str, str] | None = None
    k: int = 4
    threshold: float | Path | None = None
    error: float | None = None
    known: Path | None = None
    correct: float | None = None
    columns: tuple[str, ...] = ()
    block: int = 65_536
    overwrite: bool = False

    # What --help shows.
    essential = (
        "paths", "pairs", "encoder", "layer", "transform", "languages", "threshold", "error", "known", "correct",
        "shard",
    )  # fmt: skip

    @property
    def out(self) -> Path:
        """The file to write."""
        return Path(self.paths[-1])

    def run(self) -> None:
        """Mines or scores, and prints how many pairs there are."""
        if len(self.paths) != (3 if self.pairs is None else 1) or (self.pairs and self.known):
            given = f"{len(self.paths)} paths{' with --pairs' * bool(self.pairs)}{' and --known' * bool(self.known)}"
            raise ValueError(f"{given} are given; give SOURCE TARGET OUT, or --pairs FILE OUT without --known")
        threshold, error = read_threshold(self.threshold, self.error)
        known = None if self.known is self.correct is None else self._known()
        # Pairs are scored whole, also in an array of a scheduler.
        shard = WHOLE if self.pairs is not None and self.shard is None else self.place()
        options = MiningOptions(k=self.k, block=self.block, threshold=known or threshold, error=error, shard=shard)
        inputs = map(input_path, self.paths[:2] if self.pairs is None else [self.pairs, self.pairs])
        paths = dict(zip(("source", "target"), inputs, strict=True))
        self._check_paths(paths)
        files = {name: path for name, path in paths.items() if self.pairs or not path.is_dir()}
        if options.shard != WHOLE and files:
            text = next(iter(files.values()))
            raise ValueError(f"--shard mines folders, but {text} is a file; encode it first, with lsar-jax encode")
        self.check_text([*dict.fromkeys(files.values())])
        transform = None if self.transform is None else Transform.load(self.transform)
        encoder = self.load(transform) if files else None
        self._check_languages(files, encoder, transform)
        languages = self.languages or (None, None)
        used = transform is not None and (transform.languages is not None or isinstance(self.threshold, Path))
        used |= self.pairs is not None and encoder is not None and encoder.uses_language
        options = replace(options, transform=transform, languages=languages if used else (None, None))
        if self.pairs is not None and encoder is not None:
            count, written = score_file(
                self.pairs, self.out, encoder, options, max_length=self.max_length, columns=self.columns
            )
            print(f"wrote {written:,} of {count:,} pairs to {self.out}")
            return
        for (name, path), language in zip(paths.items(), languages, strict=True):
            if encoder is not None and name in files:
                paths[name] = notes_of(self.out) / name
                print(f"encoding the {name}, {path}", flush=True)
                self.encode_file(encoder, path, paths[name], language)
        self._mine(paths, options)

    def _mine(self, paths: dict[str, Path], options: MiningOptions) -> None:
        """Mines two folders."""
        source, target = map(embeddings.open, paths.values())
        count = mine_folders(
            source, target, self.out, options, overwrite=self.overwrite, show_progress=True,
            report=partial(print, flush=True),
        )  # fmt: skip
        if options.shard != WHOLE:
            self.finish(self.out, options.shard, notes_of(self.out))
        else:
            print(f"wrote {count:,} pairs to {self.out}")
            if options.threshold is None:
                print(_ALL_PAIRS, file=sys.stderr)

    def _check_paths(self, paths: dict[str, Path]) -> None:
        """Checks that the output and the work replace nothing else, before any work."""
        if self.pairs is not None:
            check_outputs([self.out], [self.pairs], overwrite=self.overwrite)
            return
        for path in paths.values():
            if is_within(path, notes_of(self.out)):
                raise ValueError(f"{path} is in {notes_of(self.out)}, which is deleted at the end; write another file")
        check_paths(paths["source"], paths["target"], self.out, overwrite=self.overwrite)

    def _check_languages(
        self, files: dict[str, Path], encoder: SentenceEncoder | None, transform: Transform | None
    ) -> None:
        """Raises ValueError, before any text is encoded, if a side cannot be encoded or transformed."""
        languages = self.languages or (None, None)
        with errors_of(f"--languages is {' '.join(self.languages)}" if self.languages else "--languages is not given"):
            check_languages(None if transform is None or transform.languages is None else transform, languages)
            for name, language in zip(("source", "target"), languages, strict=True):
                if encoder is not None and name in files and encoder.uses_language:
                    encoder.encode([], language=language)
        if encoder is not None:
            encoder.encode([], language=languages[0] if encoder.uses_language else None, max_length=self.max_length)
            if transform is not None:
                encoder.with_transform(transform)

    def _known(self) -> KnownPairs:
        """The known pairs that choose the threshold."""
        if self.known is None:
            raise ValueError("--correct needs --known, a file of all translations in the inputs")
        if self.threshold is not None:
            raise ValueError(f"--threshold {self.threshold} and --known are given; omit one")
        return KnownPairs.read(self.known, self.correct, self.columns)
