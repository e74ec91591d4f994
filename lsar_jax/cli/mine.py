"""``lsar-jax mine``: finds translations in two collections of any size; a job that was stopped goes on."""

import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tyro

from lsar_jax import embeddings
from lsar_jax.corpora.records import has_columns, input_path
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.languages import language_code
from lsar_jax.mining import KnownPairs, mine_folders
from lsar_jax.mining.job import check_languages, check_paths, check_settings, notes_of
from lsar_jax.mining.pairs import Margin, Retrieval
from lsar_jax.mining.thresholds import Cut
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.inputs import InputName
from lsar_jax.transforms import Transform

__all__ = ["Mine"]


@dataclass(frozen=True)
class Mine(InputOptions):
    """Finds translations in two collections, and writes them with their scores, best first.

    Stop it at any time: the same command goes on, as long as its work is in a folder beside the output, whose name ends
    in .job.

    Attributes:
      source: a folder that lsar-jax encode wrote, or a file of text that it could read.
      target: the other collection, likewise.
      out: the file to write: score, source and target separated by tabs; or .jsonl, with the ids of both sentences.
      transform: a file that lsar-jax fit or Transform.save wrote, applied to the vectors.
      source_language: language code of the source, for an encoder or a transform that needs it.
      target_language: language code of the target.
      k: number of nearest neighbours in each direction.
      margin: how a pair is scored.
      retrieval: max accepts pairs in order of their score, unless one of the two sentences is in an accepted pair;
        intersection keeps those that are the best of both; forward and backward the best of each source or target.
      threshold: the lowest score to write, or estimate; by default, all pairs are written, and an estimate is printed.
      known: file of all translations in the inputs, to choose the threshold by: source and target, or their ids, in
        the forms of the output. Mined pairs that are not in it count as wrong.
      precision: the least precision on the known pairs in percent, such as 95 (bfloat16 is a value of --products); by
        default, F1 decides.
      products: numeric precision of the products of vectors.
      recall: the share of the neighbours to find at least; below 1, a TPU sorts less.
      block: number of vectors of each side in memory.
      overwrite: replace the output if it exists.
    """

    source: tyro.conf.Positional[InputName]
    target: tyro.conf.Positional[InputName]
    out: tyro.conf.Positional[Path]
    transform: Path | None = None
    source_language: str | None = None
    target_language: str | None = None
    k: int = 4
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"
    threshold: float | Literal["estimate"] | None = None
    known: Path | None = None
    precision: float | None = None
    products: Literal["float32", "bfloat16"] = "float32"
    recall: float = 1.0
    block: int = 65_536
    overwrite: bool = False

    # What --help shows.
    essential = (
        "source", "target", "out", "encoder", "transform", "source_language", "target_language", "k", "retrieval",
        "threshold", "known", "precision", "overwrite",
    )  # fmt: skip

    def run(self) -> None:
        """Mines, and prints how many pairs there are."""
        paths = {"source": input_path(self.source), "target": input_path(self.target)}
        for path in paths.values():
            if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(notes_of(self.out))):
                raise ValueError(f"{path} is in {notes_of(self.out)}, which is deleted at the end; write another file")
        check_paths(paths["source"], paths["target"], self.out, overwrite=self.overwrite)
        names = ("k", "margin", "retrieval", "recall", "block")
        settings = {name: getattr(self, name) for name in names} | {"threshold": self._threshold()}
        check_settings(**settings)
        files = [path for path in paths.values() if not path.is_dir()]
        self.check_text(files)
        transform = None if self.transform is None else Transform.load(self.transform)
        encoder = self.load(transform) if files else None
        languages = self.source_language, self.target_language
        for (name, path), language in zip(paths.items(), languages, strict=True):
            self._check_language(name, language, transform, None if path.is_dir() else encoder)
        if transform is not None and encoder is not None:
            encoder.with_transform(transform)  # refused before the text is encoded
        sides: list[embeddings.Embeddings] = []
        for (name, path), language in zip(paths.items(), languages, strict=True):
            if encoder is not None and not path.is_dir():
                text, path = path, notes_of(self.out) / name
                options: dict[str, Any] = {"text": self.text if has_columns(text) else None}
                options["max_length"] = self.max_length
                options |= {"language": language} if encoder.uses_language else {}
                print(f"encoding the {name}, {text}", flush=True)
                embeddings.encode(encoder, [text], path, **options, show_progress=True)
            sides.append(embeddings.open(path))
        options = settings | {"precision": self.products, "overwrite": self.overwrite}
        options |= {"transform": transform, "show_progress": True, "report": partial(print, flush=True)}
        if transform is not None and transform.languages is not None:
            options["languages"] = languages
        count = mine_folders(sides[0], sides[1], self.out, **options)
        print(f"wrote {count:,} pairs to {self.out}")
        if settings["threshold"] is None:
            print(
                "warning: without --threshold, pairs that are not translations are written too, often many. The best "
                "come first: read some, about the estimated threshold if there is one, and cut the file there (head -n "
                "LINES). Or give --threshold NUMBER, --threshold estimate or --known, a file of all translations in "
                "the inputs",
                file=sys.stderr,
            )

    def _check_language(
        self, name: str, language: str | None, transform: Transform | None, encoder: SentenceEncoder | None
    ) -> None:
        """Raises ValueError, which names the option, if a side cannot be encoded and transformed in its language."""
        try:
            if language is not None and language != "auto":
                language_code(language)
            if transform is not None and transform.languages is not None:
                check_languages(transform, (language, language))
            if encoder is not None:
                encoder.encode([], language=language if encoder.uses_language else None)
        except ValueError as error:
            raise ValueError(f"--{name}-language is {language or 'not given'}: {error}") from error
        if encoder is not None:
            encoder.encode([], language=language if encoder.uses_language else None, max_length=self.max_length)

    def _threshold(self) -> Cut:
        """What the options say of the threshold."""
        if self.known is None:
            if self.precision is not None:
                raise ValueError("--precision needs --known, a file of all translations in the inputs")
            return self.threshold
        if self.threshold is not None:
            raise ValueError(f"--threshold {self.threshold} and --known are given; omit one")
        return KnownPairs.read(self.known, self.precision)
