"""Sentences, rows and files of datasets on the Hugging Face Hub, in parquet or JSON lines.

Only the data that is needed is fetched: byte ranges of parquet files, and JSON lines files from their beginning
up to the last row that is read. If the Hub cannot be reached, cached files are used. A local folder can be read
instead if it has the layout of the Hub: one folder of files per configuration.

Data: wikimedia/wikipedia (20231101.{language}), google/wiki40b ({language}), oscar-corpus/oscar
(unshuffled_deduplicated_{language}).
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsar_jax.corpora.row_files import BUFFER, is_parquet, rows_in
from lsar_jax.corpora.sentence_filters import COUNT, Filter, document_lines, oscar_lines, take, wiki40b_pieces
from lsar_jax.files import check_file, read_table
from lsar_jax.hub import Repository, check_no_revision
from lsar_jax.languages import code_or_none, own_name

__all__ = ["HUB_SETS", "PINNED", "HubFiles", "hub", "hub_files"]

# Known datasets of text: what the name of a language's folder begins with, and the filter of sentences.
HUB_SETS: dict[str, tuple[str, Filter]] = {
    "wikimedia/wikipedia": ("20231101.", document_lines),
    "google/wiki40b": ("", wiki40b_pieces),
    "oscar-corpus/oscar": ("unshuffled_deduplicated_", oscar_lines),
}

# The commits that are read by default: our own choice for Wikipedia, MTEB's for the others.
PINNED = {row["id"]: row["commit"] for row in read_table(Path(__file__).with_suffix(".csv"))}

# In order of preference, if a split is available in several formats.
_FORMS = (".parquet", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class HubFiles:
    """A dataset on the Hub at a commit, or in a folder, with files in a folder per configuration."""

    name: str
    files: Sequence[str]
    open: Callable[[str], AbstractContextManager[Any]]
    commit: str = ""

    @property
    def configs(self) -> list[str]:
        """The configurations, in alphabetical order."""
        return sorted({name.split("/")[0] for name in self.files if "/" in name and name.endswith(_FORMS)})

    def splits(self, config: str) -> list[str]:
        """The splits of a configuration, in alphabetical order."""
        return sorted({re.split(r"[-./]", name)[0] for name in self._inside(config)})

    def rows(self, config: str, split: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows of a split in order, with all columns or the given ones."""
        for name in self._files(config, split):
            yield from self.file_rows(name, columns)

    def file_rows(self, name: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows of a file, as ``rows`` does."""
        with self.open(name) as file:
            buffered = file if is_parquet(Path(name)) else io.BufferedReader(file, BUFFER)
            for _, row in rows_in(buffered, Path(name), columns, f"{name} of {self.name}"):
                yield row

    def _inside(self, config: str) -> list[str]:
        start = f"{config}/"
        return [name.removeprefix(start) for name in self.files if name.startswith(start) and name.endswith(_FORMS)]

    def _files(self, config: str, split: str) -> list[str]:
        """The files of a split in order, including missing files of a numbered series."""
        of_split = re.compile(rf"{re.escape(split)}([-.].*|/[^/]*)")
        found = sorted(filter(of_split.fullmatch, self._inside(config)))
        if not found:
            splits = ", ".join(self.splits(config)) or "no parquet or JSON lines files"
            raise ValueError(f"there is no split {split!r} in configuration {config!r} of {self.name}: it has {splits}")
        form = next(form for form in _FORMS if found[0].endswith(form))
        found = [name for name in found if name.endswith(form)]
        series = re.fullmatch(r"(.*-)\d{5}(-of-(\d{5})(?:-\w+)?(?:\.\w+)+)", found[0])
        if series and all(name.endswith(series[2]) for name in found):
            found = [f"{series[1]}{number:05d}{series[2]}" for number in range(int(series[3]))]
        return [f"{config}/{name}" for name in found]


def hub(
    id: str | Path, language: str, *, revision: str | None = None, split: str = "train", field: str = "text",
    count: int | None = COUNT,
) -> list[str]:  # fmt: skip
    """Returns the first sentences of one language in a dataset, by its filter in ``HUB_SETS``, or the first lines.

    Args:
      id: id of a dataset on the Hub, or a folder of its files with the same layout.
      language: any code of the language; a name that the dataset itself uses takes precedence.
      revision: commit, tag or branch of a dataset on the Hub; by default, the one in ``PINNED``.
      split: split of the dataset.
      field: name of the column with the text.
      count: maximum number of sentences; None for all.

    Raises:
      FileNotFoundError: the Hub does not answer, has no such dataset or revision, or a file is missing.
      ValueError: no revision is given or pinned; the language, split or field is unknown; a file is not in the
        format of its name; there is no sentence; or ``count`` is below 1.
      ImportError: pyarrow is not installed.

    Example:
      >>> text = lj.corpora.hub("wikimedia/wikipedia", "de", count=100)  # doctest: +SKIP
    """
    folder = Path(id)
    # A folder is recognised as a copy of a known dataset by its name.
    names = [name for name in HUB_SETS if name == str(id) or (folder.is_dir() and name.endswith(f"/{folder.name}"))]
    start, filter = HUB_SETS[names[0]] if names else ("", document_lines)
    files = hub_files(id, revision, f"{start}{code_or_none(language) or language}/*")
    languages = [name.removeprefix(start) for name in files.configs if name.startswith(start)]
    config = start + own_name(language, languages, files.name)
    texts = (row[field] for row in files.rows(config, split, [field]) if row[field])
    return take(texts, filter, count, f"split {split!r} of {files.name}")


def hub_files(id: str | Path, revision: str | None = None, include: str = "*") -> HubFiles:
    """Returns the files of a dataset on the Hub or in a folder.

    If the Hub does not answer within ten seconds, cached files are used. If the Hub stops answering later, reading
    fails after the six attempts that the Hub's client makes.

    Args:
      id: id of a dataset on the Hub, or a folder of its files with the same layout.
      revision: commit, tag or branch of a dataset on the Hub; by default, the one in ``PINNED``.
      include: pattern of the files to download elsewhere, used in error messages.

    Raises:
      FileNotFoundError: the Hub does not answer and nothing is cached, or it has no such dataset or revision.
      ValueError: no revision is given or pinned for a Hub id, or a revision is given for a folder.
    """
    name = str(id)
    if Path(id).is_dir():
        check_no_revision(revision, id)
        return _folder(Path(id))
    from huggingface_hub import HfFileSystem, constants

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise FileNotFoundError(f"{id} is neither a folder nor a Hub id; known datasets are {', '.join(PINNED)}")
    if (revision := revision or PINNED.get(name)) is None:
        raise ValueError(
            f"no revision of {id} is pinned; pass a commit of https://huggingface.co/datasets/{id}/commits/main as "
            f"revision= (on the command line, hub:{id}@REVISION). Pinned datasets are {', '.join(PINNED)}"
        )
    repository = Repository(name, revision, "dataset", include)
    info = repository.info()
    if info is None:
        cached = repository.cached()
        return _folder(cached, cached.name)
    system = HfFileSystem(endpoint=constants.ENDPOINT)

    @contextmanager
    def open_there(path: str) -> Iterator[Any]:
        try:
            repository.fetch_first_bytes(str(info.sha), path)
            # No cache or read-ahead: pyarrow asks for exactly the byte ranges that it needs.
            with system.open(f"datasets/{id}@{info.sha}/{path}", "rb", cache_type="none") as file:
                yield file
        except (ValueError, TypeError, ImportError):
            raise
        except Exception as error:
            raise repository.unavailable(error) from error

    return HubFiles(f"{id}@{info.sha}", [file.rfilename for file in info.siblings or []], open_there, str(info.sha))


def _folder(folder: Path, commit: str = "") -> HubFiles:
    # Files of other forms, such as CSV, are not of configurations.
    paths = sorted(path for path in folder.rglob("*") if path.name.endswith((*_FORMS, ".csv")))
    names = [path.relative_to(folder).as_posix() for path in paths]

    def open_there(path: str) -> Any:
        check_file(folder / path)
        return (folder / path).open("rb")

    return HubFiles(str(folder), names, open_there, commit)
