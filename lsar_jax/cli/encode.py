"""``lsar-jax encode``: encodes text of any length into a folder of shards; a job that was stopped goes on."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lsar_jax import embeddings
from lsar_jax.console.output import decomposed_note
from lsar_jax.corpora.by_language import named_files
from lsar_jax.corpora.records import input_path
from lsar_jax.embeddings.job_shares import WHOLE
from lsar_jax.embeddings.manifest import FILE_NAME, WORK
from lsar_jax.files import check_outside
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.shard import ShardOption
from lsar_jax.options.texts import is_encoded, stem_of
from lsar_jax.transforms import Transform

__all__ = ["Encode", "summary"]


@dataclass(frozen=True)
class Encode(ShardOption, InputOptions):
    """Encodes text into a folder, a row for each line or record.

    Stop it at any time: the same command resumes, and writes the same bytes. The folder has a manifest with the
    encoder, the digests of the inputs and of every shard.

    Attributes:
      paths: text files with one sentence per line, JSON lines (.jsonl, .jsonlines, .jl, .ndjson, .json), .csv, .tsv or
        parquet files (.parquet, .pq), all but parquet perhaps compressed (.gz), or - for standard input; and, last, the
        folder to write. Or a folder with a file per language, such as de.txt, for which OUT/de is written, and so on.
      dim: number of dimensions to keep of a Matryoshka embedding, which is normalised again; by default, all.
      transform: a file that lsar-jax fit or Transform.save wrote.
      language: language code of all sentences, or auto; needed if the encoder or the transform depends on it.
      normalize: divide each vector by its length.
      store: dtype of the stored vectors.
      format: npy writes .npy files with JSON lines of the sentences beside them; parquet one file with both.
      shard_rows: rows of a shard; by default 65,536, and 2,048 on a CPU.
      ids: column of their ids in files with columns; by default, the number of the row.
    """

    # Of tyro's positional arguments, one of several values takes all of them.
    paths: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="IN [IN ...] OUT")]]
    dim: int | None = None
    transform: Path | None = None
    language: str | None = None
    normalize: bool = False
    store: Literal["float32", "float16"] = "float32"
    format: Literal["npy", "parquet"] = "npy"
    shard_rows: int | None = None
    ids: str | None = None

    # What --help shows.
    essential = (
        "paths", "encoder", "layer", "prompt", "max_length", "text", "dtype", "transform", "language", "normalize",
        "shard",
    )  # fmt: skip

    def run(self) -> None:
        """Encodes, and prints what the folder has."""
        if len(self.paths) < 2:
            raise ValueError("give the files to encode, or - for standard input, and then the folder to write")
        inputs, out = list(map(input_path, self.paths[:-1])), Path(self.paths[-1])
        jobs = {out: inputs}
        if len(inputs) == 1 and inputs[0].is_dir():
            advice = f"encode it alone, as in lsar-jax encode {inputs[0] / 'german.txt'} {out / 'de'}"
            forms = r"(.*?)\.(txt|jsonl|jsonlines|jl|ndjson|json|csv|tsv|parquet|pq)(\.gz)?"
            named = named_files(inputs[0], [forms], None, "{}.txt", advice)
            jobs = {out / stem_of(path): [path] for path in named.values()}
        self.check_text([*chain(*jobs.values())])
        for path in self.encoder_files():
            check_outside(out, path)
        transform = None if self.transform is None else Transform.load(self.transform)
        encoder = self.load(transform, self.dim)
        if transform is not None:
            encoder = encoder.with_transform(transform)
        names = ("text", "ids", "language", "max_length", "normalize", "store", "format", "shard_rows")
        options = {name: getattr(self, name) for name in names}
        shard, uses_language = self.place(), encoder.uses_language or (transform and transform.languages)
        for folder in [folder for folder in jobs if shard != WHOLE and folder != out and not is_encoded(folder)]:
            (folder / WORK).mkdir(parents=True)  # by which a merge sees what no share has begun
        for folder, paths in jobs.items():
            if folder != out and uses_language:
                options["language"] = self.language or folder.name
            embeddings.encode(encoder, paths, folder, **options, shard=shard, show_progress=True)
            if (folder / FILE_NAME).is_file():
                print(summary(folder))
            elif folder == [*jobs][-1]:
                self.finish(out, shard, folder / WORK)


def summary(out: Path) -> str:
    """A line on a finished folder."""
    x = embeddings.open(out)
    shards = len(x.manifest.shards)
    note = decomposed_note(sum(shard.decomposed for shard in x.manifest.shards))
    return f"{out} has {len(x):,} vectors of width {x.shape[1]} in {shards} shard{'s' * (shards != 1)}{note}"
