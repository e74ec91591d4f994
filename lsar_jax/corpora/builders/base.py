"""A TensorFlow Datasets builder for any source of rows, in the array_record format, without TensorFlow.

A ``DatasetFiles`` knows the contents of the files and gives TensorFlow Datasets its fields, splits and
rows. All rows come from existing files; nothing is downloaded. Reading a prepared dataset back gives the
rows of the files in the same order. ``tfds.data_source`` and ``tfds.builder_from_directory`` can also
read a prepared folder, but return bytes.
"""

import contextlib
import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from lsar_jax.corpora.tfds import import_tfds, rows
from lsar_jax.files import new_folder

__all__ = ["VERSION", "DatasetFiles", "Row", "prepare"]

VERSION = "1.0.0"

Row = dict[str, Any]
Field = Literal["text", "texts", "ints"]


class DatasetFiles(ABC):
    """A source of rows: a folder of files in a known format, which can be read back from a prepared dataset.

    Attributes:
      name: name of the dataset.
      fields: fields of a row and their types.
      split: name of the split of a dataset that has no more.

    Example:
      >>> from lsar_jax.corpora import builders
      >>> class Letters(builders.DatasetFiles):  # a source of one's own, for builders.prepare
      ...     name, fields = "letters", {"text": "text"}
      ...     files = {"en": "ab"}
      ...
      ...     def rows(self, config, split):
      ...         return ({"text": letter} for letter in self.files[config])
      >>> list(Letters().rows("en", "train"))
      [{'text': 'a'}, {'text': 'b'}]
    """

    name: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]]
    split: ClassVar[str] = "train"

    def __init__(self, folder: str | Path = "") -> None:
        self.folder = Path(folder)

    @property
    def files(self) -> Mapping[str, Any]:
        """The files of each language, or of each pair such as ``en-de``."""
        raise NotImplementedError

    @property
    def configs(self) -> tuple[str, ...]:
        """The languages or pairs."""
        return tuple(self.files)

    def splits(self, config: str) -> tuple[str, ...]:
        """The splits of a language or pair; by default, there is one."""
        return (self.split,)

    @abstractmethod
    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the rows of a split; errors name the file and the line."""

    @staticmethod
    def gather(rows: Iterable[Row]) -> Any:
        """The rows as plain Python lists, collected by field."""
        return list(rows)

    @classmethod
    def read(cls, folder: str | Path, split: str = "") -> Any:
        """The rows of a split in the prepared folder of a language or pair, as ``gather`` collects them."""
        return cls.gather(rows(folder, split or cls.split))

    @classmethod
    def known(cls, folder: str | Path) -> tuple[str, ...]:
        """Returns the languages or pairs in a folder of files, or in one that ``prepare`` wrote."""
        written = sorted(path.parent.parent.name for path in Path(folder).glob(f"*/{VERSION}/dataset_info.json"))
        return tuple(written) or cls(folder).configs

    @classmethod
    def stream(cls, folder: str | Path, config: str, split: str, **options: Any) -> Iterator[Row]:
        """Yields the rows that ``load`` gathers; ``options`` are the source's for a folder of files."""
        written = Path(folder) / config / VERSION
        return rows(written, split) if written.is_dir() else cls(folder, **options).rows(config, split)

    @classmethod
    def load(cls, folder: str | Path, config: str, split: str) -> Any:
        """Reads a split from a folder of files, or from one that ``prepare`` wrote; ``gather`` makes the result.

        Raises:
          FileNotFoundError: the folder, a file, the language or the pair does not exist.
          ValueError: a file is malformed; the error names the file and the line.
        """
        return cls.gather(cls.stream(folder, config, split))


def prepare(dataset: DatasetFiles, out: str | Path) -> dict[str, Path]:
    """Writes all rows of a source as a TensorFlow dataset; if this fails, nothing is written.

    Args:
      dataset: ``Monolingual``, ``Parallel``, ``XquadR`` or ``Bucc``.
      out: a folder of datasets; the new one is written to ``{out}/{dataset.name}/{language or pair}/1.0.0``.

    Returns:
      The folder of each language or pair, to pass to ``prepared`` or to the ``read`` method of the source's class.

    Raises:
      FileExistsError: the dataset already exists.
      FileNotFoundError: a file of the source does not exist.
      ValueError: a file is malformed; the error names the file and the line.
      ImportError: tensorflow-datasets is not installed.
    """
    folder = Path(out) / dataset.name
    configs = dataset.configs
    with new_folder(folder) as new:
        for config in configs:
            builder = _builder(dataset, config, new / "unfinished")
            # The output is silenced, because it contains a temporary path that is about to be renamed.
            with contextlib.redirect_stdout(io.StringIO()):
                builder.download_and_prepare(download_dir=str(new / "unfinished" / "downloads"))
            (new / config).mkdir()
            Path(builder.data_dir).replace(new / config / VERSION)
        shutil.rmtree(new / "unfinished")
    return {config: folder / config / VERSION for config in configs}


def _builder(dataset: DatasetFiles, config: str, data_dir: Path) -> Any:
    library = import_tfds()
    features = {
        "text": library.features.Text(),
        "texts": library.features.Sequence(library.features.Text()),
        "ints": library.features.Sequence(np.int64),
    }

    # Every source needs a class of its own, but the registry of TensorFlow Datasets accepts a name only once.
    with library.core.registered.skip_registration():

        class Builder(library.core.GeneratorBasedBuilder):
            name = dataset.name
            VERSION = library.core.Version(VERSION)
            BUILDER_CONFIGS: ClassVar = [library.core.BuilderConfig(name=name) for name in dataset.configs]

            def _info(self) -> Any:
                fields = {name: features[field] for name, field in dataset.fields.items()}
                return library.core.DatasetInfo(
                    builder=self, features=library.features.FeaturesDict(fields), disable_shuffling=True
                )

            def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
                return {split: self._generate_examples(split) for split in dataset.splits(config)}

            def _generate_examples(self, split: str) -> Iterator[tuple[int, Row]]:
                yield from enumerate(dataset.rows(config, split))

    return Builder(config=config, data_dir=str(data_dir), file_format="array_record")
