"""``lsar-jax mine``: finds translations in two collections of any size; a job that was stopped goes on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from lsar_jax import embeddings
from lsar_jax.cli.inputs import check_unread, load_with
from lsar_jax.encoders import SentenceEncoder
from lsar_jax.files import check_outputs
from lsar_jax.mining import MiningProgress, mine_folders
from lsar_jax.mining.folders import notes_of
from lsar_jax.mining.pairs import Margin, Retrieval
from lsar_jax.transforms import Transform

__all__ = ["Mine"]


@dataclass(frozen=True)
class Mine:
    """Finds translations in two collections, and writes them with their scores, best first.

    Stop it at any time: the same command goes on. Until it is finished, its work is in a folder beside the output,
    whose name ends in .job.

    Attributes:
      source: a folder that lsar-jax encode wrote, or a file of text that it could read.
      target: the other collection, the like.
      out: the file to write: score, source and target separated by tabs; or .jsonl, with the ids of both sentences.
      encoder: encoder of text: bundled, a preset, a folder or a Hub id. Omit it for folders.
      revision: commit, tag or branch of a Hub id.
      layer: hidden-state layer; by default, that of the transform, or the checkpoint's.
      pooling: pooling of the tokens; by default, the checkpoint's.
      max_length: maximum number of tokens per sentence.
      transform: a file that lsar-jax fit or Transform.save wrote, applied to the vectors.
      source_language: language code of the source, for an encoder or a transform that needs it.
      target_language: language code of the target.
      k: number of nearest neighbours in each direction.
      margin: how a pair is scored.
      retrieval: max accepts pairs in order of their score, unless one of the two sentences is in an accepted pair;
        intersection keeps those that are the best of both; forward and backward the best of each source or target.
      threshold: the lowest score to write.
      precision: precision of the products.
      block: number of vectors of each side in memory.
      shard_rows: rows of a shard of encoded text, after each of which encoding can be stopped without loss.
      text: column of the sentences in files with columns.
      overwrite: replace the output if it exists.
    """

    source: tyro.conf.Positional[Path]
    target: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    encoder: str | None = None
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    max_length: int | None = None
    transform: Path | None = None
    source_language: str | None = None
    target_language: str | None = None
    k: int = 4
    margin: Margin = "ratio"
    retrieval: Retrieval = "max"
    threshold: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    block: int = 65_536
    shard_rows: int | None = None
    text: str = "text"
    overwrite: bool = False

    def run(self) -> None:
        """Mines, and prints a line after each block of sources.

        Raises:
          FileExistsError: ``out`` exists, and ``overwrite`` is not given.
          FileNotFoundError: a file or folder does not exist.
          ValueError: the collections are of different embedding spaces, or the job was begun with other options.
        """
        sides = {"source": self.source, "target": self.target}
        for path in sides.values():
            if not path.exists():
                raise FileNotFoundError(f"there is no file or folder {path}")
        check_outputs([self.out], sides.values(), overwrite=self.overwrite)
        text = [path for path in sides.values() if not path.is_dir()]
        if not text:
            if self.encoder is not None:
                raise ValueError(f"--encoder {self.encoder} is given, but there is no text to encode; omit it")
            check_unread(self)
        elif self.encoder is None:
            raise ValueError(f"{text[0]} is text, which needs an encoder; give --encoder")
        fitted = None if self.transform is None else Transform.load(self.transform)
        encoder = None
        if self.encoder is not None:
            layer = fitted.source.layer if self.layer is None and fitted is not None and fitted.source else self.layer
            encoder = load_with(None, self.encoder, layer=layer, revision=self.revision, pooling=self.pooling)
        languages = self.source_language, self.target_language
        source, target = (
            self._side(name, path, encoder, code) for (name, path), code in zip(sides.items(), languages, strict=True)
        )
        needed = fitted is not None and fitted.languages is not None
        count = mine_folders(
            source, target, self.out, k=self.k, margin=self.margin, retrieval=self.retrieval, precision=self.precision,
            threshold=self.threshold, transform=fitted, languages=languages if needed else (None, None),
            block=self.block, overwrite=self.overwrite, progress=_told,
        )  # fmt: skip
        print(f"wrote {count:,} pairs to {self.out}")

    def _side(
        self, name: str, path: Path, encoder: SentenceEncoder | None, language: str | None
    ) -> embeddings.Embeddings:
        """Returns an encoded folder; text is encoded into the folder of the job."""
        if path.is_dir():
            return embeddings.open(path)
        assert encoder is not None
        folder = notes_of(self.out) / name
        folder.parent.mkdir(exist_ok=True)
        embeddings.encode(
            encoder, [path], folder, text=self.text, max_length=self.max_length, shard_rows=self.shard_rows,
            language=language if encoder.uses_language else None,
            progress=lambda done: print(f"{name}: {done}", flush=True),
        )  # fmt: skip
        return embeddings.open(folder)


def _told(progress: MiningProgress) -> None:
    left = f"; {progress.left / 60:,.1f} min left" if progress.blocks < progress.total else ""
    print(f"{progress.blocks} of {progress.total} blocks{left}", flush=True)
