"""A TensorFlow Datasets builder of any source of rows, in the format array_record, without TensorFlow.

What is in the files is known by a ``DatasetFiles``; TensorFlow Datasets is only told its fields, its splits
and its rows, which are read from files that are there: nothing is downloaded. The rows keep
their order, and what is read back equals the files. ``tfds.data_source`` and
``tfds.builder_from_directory`` read a prepared folder too, and give bytes.
"""

import contextlib
import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.corpora.tfds import import_tfds, rows
from lsar_jax.files import new_folder

__all__ = ["VERSION", "DatasetFiles", "FolderDataset", "Row", "fields_of", "prepare", "unique"]

VERSION = "1.0.0"

Row = dict[str, Any]
Field = Literal["text", "texts", "ints"]


class DatasetFiles(ABC):
    """Files of a known form.

    Attributes:
      name: of the dataset.
      fields: of a row.
    """

    name: ClassVar[str]
    fields: ClassVar[Mapping[str, Field]]

    @property
    @abstractmethod
    def configs(self) -> tuple[str, ...]:
        """The languages or pairs that there are."""

    @abstractmethod
    def splits(self, config: str) -> tuple[str, ...]:
        """The splits of a language or pair."""

    @abstractmethod
    def rows(self, config: str, split: str) -> Iterator[Row]:
        """Yields the rows of a split; errors name the file and the line."""


class FolderDataset(DatasetFiles):
    """A source that is made of a folder, and whose rows are also read back from a prepared one."""

    @abstractmethod
    def __init__(self, folder: str | Path) -> None: ...

    @staticmethod
    @abstractmethod
    def gather(rows: Iterable[Row]) -> Any:
        """Returns the rows as plain Python lists with names."""

    @classmethod
    def known(cls, folder: str | Path) -> tuple[str, ...]:
        """Returns the languages or pairs of a folder of files, or of one that ``prepare`` wrote."""
        written = sorted(path.parent.parent.name for path in Path(folder).glob(f"*/{VERSION}/dataset_info.json"))
        return tuple(written) or cls(folder).configs

    @classmethod
    def load(cls, folder: str | Path, config: str, split: str) -> Any:
        """Returns what ``gather`` makes of a split, of a folder of files or of one that ``prepare`` wrote.

        Raises:
          FileNotFoundError: no such folder, file, language or pair.
          ValueError: a file is not of its form; the error names the file and the line.
        """
        written = Path(folder) / config / VERSION
        return cls.gather(rows(written, split) if written.is_dir() else cls(folder).rows(config, split))


def prepare(dataset: DatasetFiles, out: str | Path) -> dict[str, Path]:
    """Writes the rows of a source as a TensorFlow dataset: all of them, or nothing.

    Args:
      dataset: ``Monolingual``, ``Parallel``, ``XquadR`` or ``Bucc``.
      out: a folder of datasets; this one becomes ``{out}/{dataset.name}/{language or pair}/1.0.0``.

    Returns:
      The folder of each language or pair, for ``prepared`` or the ``read`` of the source's class.

    Raises:
      FileExistsError: the dataset is there already.
      FileNotFoundError: a file of the source is not.
      ValueError: a file is not of its form; the error names the file and the line.
      ImportError: tensorflow-datasets is not installed.
    """
    folder = Path(out) / dataset.name
    configs = dataset.configs
    with new_folder(folder) as new:
        for config in configs:
            (new / config / VERSION).mkdir(parents=True)
            _prepare(dataset, config, new / "unfinished", new / config / VERSION)
        shutil.rmtree(new / "unfinished")
    return {config: folder / config / VERSION for config in configs}


def fields_of(path: Path, count: int) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each line of a file and its fields, which tabs are between.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line has another number of fields, or is not UTF-8; or the file is empty.
    """
    for number, line in enumerate(stream_lines(path), start=1):
        fields = line.split("\t")
        if len(fields) != count:
            raise ValueError(f"{path}, line {number} has {len(fields)} fields with tabs between them; expected {count}")
        yield number, fields


def unique(seen: dict[str, int], id: str, path: Path, number: int, what: str = "id") -> None:
    """Remembers the line of an id.

    Raises:
      ValueError: it is empty, or was on a line before.
    """
    if not id:
        raise ValueError(f"{path}, line {number} has an empty {what}")
    if id in seen:
        raise ValueError(f"{path}, line {number}: the {what} {id!r} is on line {seen[id]} too")
    seen[id] = number


def _prepare(dataset: DatasetFiles, config: str, unfinished: Path, folder: Path) -> None:
    builder = _builder(dataset, config, unfinished)
    # It says where it writes, and that is a folder which is about to be renamed.
    with contextlib.redirect_stdout(io.StringIO()):
        builder.download_and_prepare(download_dir=str(unfinished / "downloads"))
    written = Path(builder.data_dir)
    for file in sorted(written.iterdir()):
        file.replace(folder / file.name)


def _builder(dataset: DatasetFiles, config: str, data_dir: Path) -> Any:
    library = import_tfds()
    features = {
        "text": library.features.Text(),
        "texts": library.features.Sequence(library.features.Text()),
        "ints": library.features.Sequence(np.int64),
    }

    # There is a class for each source, and a registry of classes takes a name once.
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
