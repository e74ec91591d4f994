"""The options of the report and the explorer: text of the user's, and the encoder of it or its vectors."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import tyro

from lsar_jax.checks import check_option
from lsar_jax.corpora.records import is_parquet
from lsar_jax.options.encoder import EncoderOptions
from lsar_jax.options.texts import stem_of
from lsar_jax.options.user_text import Aligned, UserText, read_user_text

__all__ = ["TextFolderOptions"]


@dataclass(frozen=True)
class TextFolderOptions(EncoderOptions):
    """Text, and the encoder of it or its vectors.

    Attributes:
      texts: folder of files, or files, each named after its language (de.txt, de.jsonl.gz) or LANGUAGE=PATH; folder of
        parallel text of English and other languages; or tables with the columns language and text (parquet, .jsonl,
        .csv or .tsv); by default the parquet file of the vectors.
      text: column of the sentences in tables; by default, text.
      vectors: vectors of the text, of any model; by default, the text is encoded. For a folder of text, a folder with
        de.npy, or a folder de that lsar-jax encode wrote, for de.txt, with a vector for each line. For a file, a .npy
        file with a vector for each row, or a parquet file with them in the column vector.
      layers: hidden-state layers, 0 for the embedding output.
      cache: folder for embeddings, which tasks of python -m eval read too; by default, none are kept.
      languages: language codes; by default, all that the text has.
      columns: names of the columns of tables of pairs: source and target, or codes; by default, found out.
      aligned: whether line i has the same content in all files; by default found out from the text.
      count: maximum number of sentences of each language, drawn at random; by default, 4,000 shared by the languages,
        but at least 100 and at most 1,000.
      overwrite: replace earlier output.
    """

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    text: str | None = None
    vectors: Path | None = None
    layers: tuple[int, ...] | None = None
    cache: Path | None = None
    languages: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    aligned: Aligned = "auto"
    count: int | None = None
    overwrite: bool = False

    @property
    def items(self) -> Sequence[str]:
        """The folders and files of the text."""
        if not self.texts and (self.vectors is None or not is_parquet(self.vectors)):
            raise ValueError("name a folder of text, such as mycorpus/ with de.txt and en.txt")
        return self.texts or [str(self.vectors)]

    @property
    def title(self) -> str:
        """The title of a page."""
        return f"Language in {stem_of(Path(self.items[0].partition('=')[2] or self.items[0]).resolve())}"

    def read_text(self, count: int | None = None) -> UserText:
        """Reads the text, at most ``count`` sentences a language."""
        given = self.items, self.languages, count or self.count, self.aligned, 0
        return read_user_text(*given, self.columns, self.text)

    def check_vectors(self) -> None:
        """Raises ValueError for options of the encoder beside vectors."""
        of_encoder = (*(option.name for option in fields(EncoderOptions)), "layers", "cache")
        for option in fields(self) if self.vectors is not None else ():
            value = getattr(self, option.name)
            right = option.name not in of_encoder or value == option.default
            check_option(right, "left out: with --vectors nothing is encoded", **{option.name: value})
