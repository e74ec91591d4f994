"""The files of a dataset of the Hugging Face Hub, parquet or JSON lines, and their rows.

A file of parquet is read by the ranges of its bytes that hold the next rows, one of JSON lines from its
beginning: no more is fetched than is needed. Where the Hub is away, what its client keeps is used, or a
folder that is laid out as on the Hub: a folder of files for each configuration.
"""

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lsar_jax.extras import import_extra
from lsar_jax.hub import Repository

__all__ = ["PINNED", "HubFiles", "hub_files"]

# The commits that are read by default: of Wikipedia our own choice, of the others MTEB's.
PINNED = {
    "wikimedia/wikipedia": "b04c8d1ceb2f5cd4588862100d08de323dccfbaa",
    "mteb/tatoeba-bitext-mining": "69e8f12da6e31d59addadda9a9c8a2e601a0e282",
    "mteb/bucc-bitext-mining": "1739dc11ffe9b7bfccd7f3d585aeb4c544fc6677",
    "mteb/sts17-crosslingual-sts": "faeb762787bd10488a50c8b5be4a3b82e411949c",
    "mteb/AmazonReviewsClassification": "6b5d328eaae8ef408dd7d775040245cf86f92e9d",
}

# Bytes of a column or a file, and rows, that are read at once.
_BUFFER = 1 << 20
_ROWS = 64
# In the order of preference, where a split is there in several forms.
_FORMS = (".parquet", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class HubFiles:
    """A dataset on the Hub or in a folder.

    Attributes:
      name: of the dataset, for errors.
      files: their names, a configuration's below its own.
      open: opens one of them.
      failed: the error when one cannot be read.
      commit: of the Hub; empty for a folder.
    """

    name: str
    files: Sequence[str]
    open: Callable[[str], Any]
    failed: Callable[[Exception], Exception]
    commit: str = ""

    @property
    def configs(self) -> list[str]:
        """The configurations, in alphabetical order."""
        return sorted({name.split("/")[0] for name in self.files if "/" in name and name.endswith(_FORMS)})

    def splits(self, config: str) -> list[str]:
        """The splits of a configuration, in alphabetical order."""
        return sorted({re.split(r"[-./]", name)[0] for name in self._inside(config)})

    def rows(self, config: str, split: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows of a split in their order.

        Args:
          config: name of a folder of files.
          split: its name, as files begin with it.
          columns: those wanted; by default all.

        Raises:
          FileNotFoundError: a file is missing or cannot be fetched.
          ValueError: no such split or column, or a file that is not of its form.
          ImportError: a file is parquet, and pyarrow is not installed.
        """
        for name in self._files(config, split):
            try:
                with closing(self.open(name)) as file:
                    if name.endswith(".parquet"):
                        yield from self._parquet(name, file, columns)
                    else:
                        yield from self._json_lines(name, file, columns)
            except (ValueError, TypeError, ImportError):
                raise
            except Exception as error:
                raise self.failed(error) from error

    def _inside(self, config: str) -> list[str]:
        inside = (name.removeprefix(f"{config}/") for name in self.files if name.startswith(f"{config}/"))
        return [name for name in inside if name.endswith(_FORMS)]

    def _files(self, config: str, split: str) -> list[str]:
        """The files of a split, in their order; those of a numbered series that are not there, too."""
        found = sorted(
            name for name in self._inside(config) if re.fullmatch(rf"{re.escape(split)}([-.].*|/[^/]*)", name)
        )
        if not found:
            splits = self.splits(config)
            have = f"the splits {', '.join(splits)}" if splits else "no file of parquet or JSON lines"
            raise ValueError(
                f"there is no split {split!r} of configuration {config!r} in {self.name}, which has {have}"
            )
        form = next(form for form in _FORMS if found[0].endswith(form))
        found = [name for name in found if name.endswith(form)]
        series = re.fullmatch(r"(.*-)\d{5}(-of-(\d{5})(?:-\w+)?(?:\.\w+)+)", found[0])
        if series and all(name.endswith(series[2]) for name in found):
            found = [f"{series[1]}{number:05d}{series[2]}" for number in range(int(series[3]))]
        return [f"{config}/{name}" for name in found]

    def _parquet(self, name: str, file: Any, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
        pyarrow = import_extra("pyarrow", "hub", "the Hub's parquet")
        parquet = import_extra("pyarrow.parquet", "hub", "the Hub's parquet", "pyarrow")
        try:
            table = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
            self._check_columns(name, table.schema_arrow.names, columns)
            wanted = None if columns is None else list(columns)
            for batch in table.iter_batches(batch_size=_ROWS, columns=wanted, use_threads=False):
                yield from batch.to_pylist()
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise ValueError(f"{name} of {self.name} cannot be read as parquet: {error}") from error

    def _json_lines(self, name: str, file: Any, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
        number = 0
        try:
            with (
                io.BufferedReader(file, _BUFFER) as buffered,
                gzip.GzipFile(fileobj=buffered) if name.endswith(".gz") else nullcontext(buffered) as lines,
            ):
                while line := lines.readline():
                    number += 1
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError("it is not an object")
                    self._check_columns(name, list(row), columns)
                    yield row if columns is None else {column: row[column] for column in columns}
        except (ValueError, EOFError, gzip.BadGzipFile) as error:
            if self.name in str(error):
                raise
            raise ValueError(f"{name} of {self.name} cannot be read as JSON lines, line {number}: {error}") from error

    def _check_columns(self, name: str, there: Sequence[str], wanted: Sequence[str] | None) -> None:
        for column in wanted or ():
            if column not in there:
                raise ValueError(f"field {column!r} is not in {name} of {self.name}; it has {', '.join(there)}")


def hub_files(id: str | Path, revision: str | None = None, include: str = "*") -> HubFiles:
    """Returns the files of a dataset.

    A Hub that does not answer is given up after ten seconds; one that stops answering on the way, after
    the six tries of its client.

    Args:
      id: of a dataset on the Hub, or a folder of its files, laid out as there.
      revision: commit, tag or branch of a dataset on the Hub; by default the one in ``PINNED``.
      include: pattern of the files to download elsewhere, for the error.

    Raises:
      FileNotFoundError: the Hub does not answer, or has no such dataset or revision.
      ValueError: no revision is known, or there is one of a folder.
    """
    folder = Path(id)
    if folder.is_dir():
        if revision is not None:
            raise ValueError(
                f"revision {revision!r} is for ids of the Hub; {id} is a folder here: leave the revision out"
            )
        return _folder(folder)
    return _on_hub(str(id), revision or PINNED.get(str(id)), include)


def _on_hub(id: str, revision: str | None, include: str) -> HubFiles:
    from huggingface_hub import HfFileSystem, constants

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", id):
        raise FileNotFoundError(
            f"there is no folder {id}, and it is not an id of the Hub; known are {', '.join(PINNED)}"
        )
    if revision is None:
        raise ValueError(
            f"no revision of {id} is pinned here; say revision=, a commit of "
            f"https://huggingface.co/datasets/{id}/commits/main. Pinned are {', '.join(PINNED)}"
        )
    repository = Repository(id, revision, "dataset", include)
    info = repository.info()
    if info is None:
        cached = repository.cached()
        return replace(_folder(cached), commit=cached.name)
    system = HfFileSystem(endpoint=constants.ENDPOINT)

    def open_there(name: str) -> Any:
        repository.check_answers(str(info.sha), name)
        # Only the ranges that are asked for are fetched: pyarrow knows what it needs.
        return system.open(f"datasets/{id}@{info.sha}/{name}", "rb", cache_type="none")

    files = [file.rfilename for file in info.siblings or []]
    return HubFiles(f"{id}@{info.sha}", files, open_there, repository.unavailable, str(info.sha))


def _folder(folder: Path) -> HubFiles:
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.name.endswith(_FORMS)]

    def failed(error: Exception) -> Exception:
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(f"{error.filename} is missing; download it too, or take fewer sentences")
        return error

    return HubFiles(str(folder), names, lambda name: (folder / name).open("rb"), failed)
