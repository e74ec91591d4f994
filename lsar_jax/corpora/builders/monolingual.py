"""A TensorFlow dataset from a folder of text files, one per language, with one sentence per line."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from lsar_jax.corpora.builders.base import DatasetFiles, Row
from lsar_jax.corpora.by_language import language_files
from lsar_jax.corpora.text_files import stream_lines

__all__ = ["Monolingual"]


class Monolingual(DatasetFiles):
    r"""Files ``{language}.txt`` in a folder, each named with any code of its language; every line is a row.

    Raises:
      FileNotFoundError: there is no folder or file (when the files are first needed).
      ValueError: two files are for the same language, or a file is not named after a language.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import builders
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = Path(folder, "deu.txt").write_text("Eins.\nZwei.\n", encoding="utf-8")
      ...     builders.Monolingual.known(folder), builders.Monolingual.load(folder, "de", "train")
      (('de',), ['Eins.', 'Zwei.'])
    """

    name: ClassVar = "monolingual"
    fields: ClassVar = {"text": "text"}

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of each language."""
        return language_files(self.folder, ".txt")

    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the lines."""
        return ({"text": line} for line in stream_lines(self.files[config]))

    @staticmethod
    def gather(rows: Iterable[Row]) -> list[str]:
        """Returns the lines."""
        return [row["text"] for row in rows]
