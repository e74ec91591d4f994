"""Sentences of the Hugging Face Hub's parquet datasets, of which no more is fetched than is needed.

A dataset's files are read by the ranges of their bytes that hold the text of the next rows, until
there are enough sentences. Where the Hub is away, what its client keeps is used, or a folder.

Data: wikimedia/wikipedia (20231101.{language}), google/wiki40b ({language}).
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lsar_jax.documents import COUNT, Filter, check_count, oscar_lines, take, wiki40b_pieces
from lsar_jax.languages import language_code

__all__ = ["HUB_SETS", "HubSet", "hub"]


@dataclass(frozen=True)
class HubSet:
    """What is known of a dataset.

    Attributes:
      config: name of a language's folder, with ``{}`` for the language.
      filter: from documents to sentences.
      revision: the commit that is read by default; None where none has been checked.
    """

    config: str = "{}"
    filter: Filter = oscar_lines
    revision: str | None = None


HUB_SETS = {
    "wikimedia/wikipedia": HubSet("20231101.{}", oscar_lines, "b04c8d1ceb2f5cd4588862100d08de323dccfbaa"),
    "google/wiki40b": HubSet("{}", wiki40b_pieces),
}

# Seconds until a Hub that does not answer is given up.
_PATIENCE = 10.0
# Bytes of a column, and rows, that are read at once.
_BUFFER = 1 << 20
_ROWS = 64

_log = logging.getLogger("lsar_jax")


@dataclass(frozen=True)
class _Place:
    """A dataset on the Hub or in a folder: its files, how to open one, and the error when one cannot be read."""

    name: str
    files: Sequence[str]
    open: Callable[[str], Any]
    failed: Callable[[Exception], Exception]


def hub(
    id: str | Path,
    language: str,
    *,
    revision: str | None = None,
    config: str | None = None,
    split: str = "train",
    field: str = "text",
    filter: Filter | None = None,
    count: int | None = COUNT,
) -> list[str]:
    """Returns the first sentences of a language of a parquet dataset.

    A Hub that does not answer is given up after ten seconds; one that stops answering on the way, after
    the six tries of its client.

    Args:
      id: of a dataset on the Hub, or a folder of its files, laid out as there.
      language: any code of it; a name that the dataset itself uses comes first.
      revision: commit, tag or branch of a dataset on the Hub; by default the one in ``HUB_SETS``.
      config: name of the folder of files; by default the language's.
      split: of the dataset.
      field: column of the text.
      filter: from documents to sentences; by default the one in ``HUB_SETS``, or ``oscar_lines``.
      count: sentences at most; None for all.

    Raises:
      FileNotFoundError: the Hub does not answer, has no such dataset or revision, or a file is missing.
      ValueError: no revision is known, an unknown language, configuration, split or field, a file
        that is not parquet, no sentence, or a count below 1.
      ImportError: pyarrow is not installed.
    """
    check_count(count)
    folder = Path(id)
    known = next((known for name, known in HUB_SETS.items() if folder.name == name.split("/")[1]), HubSet())
    if folder.is_dir():
        if revision is not None:
            raise ValueError(
                f"revision {revision!r} is for ids of the Hub; {id} is a folder here: leave the revision out"
            )
        place = _kept(folder)
    else:
        known = HUB_SETS.get(str(id), HubSet())
        place = _on_hub(str(id), revision or known.revision, config or known.config.format(_code(language) or language))
    files = _files(place, config or _config(place, known.config, language), split)
    return take(_texts(place, files, field), filter or known.filter, count, f"split {split!r} of {place.name}")


def _on_hub(id: str, revision: str | None, config: str) -> _Place:
    from huggingface_hub import HfApi, HfFileSystem, constants, snapshot_download

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", id):
        raise FileNotFoundError(f"there is no folder {id}, and it is not an id of the Hub; known are {_known()}")
    if revision is None:
        raise ValueError(
            f"no revision of {id} is pinned here; say revision=, a commit of "
            f"https://huggingface.co/datasets/{id}/commits/main. Pinned are {_known()}"
        )
    missing = partial(_unavailable, id, revision, config)
    away: Exception | None = None
    if not constants.HF_HUB_OFFLINE:
        try:
            info = HfApi().dataset_info(id, revision=revision, timeout=_PATIENCE)
        except Exception as error:  # the client raises a dozen kinds, those of its network library included
            status = getattr(getattr(error, "response", None), "status_code", None)
            if status is not None and status < 500:
                raise missing(error) from error
            away = error
        else:
            system = HfFileSystem(endpoint=constants.ENDPOINT)

            def open_there(name: str) -> Any:
                _check_answers(id, str(info.sha), name)
                # Just the ranges that are asked for: pyarrow knows what it needs.
                return system.open(f"datasets/{id}@{info.sha}/{name}", "rb", cache_type="none")

            return _Place(f"{id}@{info.sha}", [file.rfilename for file in info.siblings or []], open_there, missing)
    try:
        kept = snapshot_download(id, repo_type="dataset", revision=revision, local_files_only=True)
    except Exception as error:
        raise missing(away or error) from error
    if away is not None:
        _log.warning("the Hub did not answer (%s); using the files that are kept in %s", type(away).__name__, kept)
    return _kept(Path(kept))


def _kept(folder: Path) -> _Place:
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.parquet"))]

    def failed(error: Exception) -> Exception:
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(f"{error.filename} is missing; download it too, or take fewer sentences")
        return error

    return _Place(str(folder), names, lambda name: (folder / name).open("rb"), failed)


def _check_answers(id: str, revision: str, name: str) -> None:
    """Asks for a file with patience, which the client has too much of; files come from other machines."""
    from huggingface_hub import constants, get_session, hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

    url = hf_hub_url(id, name, repo_type="dataset", revision=revision, endpoint=constants.ENDPOINT)
    headers = {**build_hf_headers(), "range": "bytes=0-3"}
    with get_session().stream("GET", url, headers=headers, timeout=_PATIENCE, follow_redirects=True) as response:
        hf_raise_for_status(response)


def _config(place: _Place, template: str, language: str) -> str:
    """The folder of a language."""
    before, after = template.split("{}")
    there: dict[str, str] = {}
    for folder in sorted({name.split("/")[0] for name in place.files if "/" in name}):
        if folder.startswith(before) and folder.endswith(after):
            there[folder[len(before) : len(folder) - len(after)]] = folder
    if language in there:
        return there[language]
    wanted = language_code(language)
    same = [own for own in there if _code(own) == wanted]
    if len(same) == 1:
        return there[same[0]]
    if same:
        raise ValueError(f"language {language!r} is {' and '.join(same)} in {place.name}; say which")
    raise ValueError(f"language {language!r} is not in {place.name}; known are {', '.join(there) or 'none'}")


def _code(own: str) -> str | None:
    try:
        return language_code(own)
    except ValueError:
        return None


def _files(place: _Place, config: str, split: str) -> list[str]:
    """The files of a split, in their order; those of a numbered series that are not there, too."""
    inside = [name.removeprefix(f"{config}/") for name in place.files if name.startswith(f"{config}/")]
    inside = [name for name in inside if name.endswith(".parquet")]
    found = sorted(name for name in inside if re.fullmatch(rf"{re.escape(split)}([-.].*|/[^/]*)", name))
    if not found:
        splits = sorted({re.split(r"[-./]", name)[0] for name in inside})
        have = f"the splits {', '.join(splits)}" if splits else "no parquet file"
        raise ValueError(f"there is no split {split!r} of configuration {config!r} in {place.name}, which has {have}")
    series = re.fullmatch(r"(.*-)\d{5}(-of-(\d{5})(?:-\w+)?\.parquet)", found[0])
    if series and all(name.endswith(series[2]) for name in found):
        found = [f"{series[1]}{number:05d}{series[2]}" for number in range(int(series[3]))]
    return [f"{config}/{name}" for name in found]


def _texts(place: _Place, files: Sequence[str], field: str) -> Iterator[str]:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            "the Hub's datasets need pyarrow: pip install 'lsar_jax[hub]' (in a checkout: pip install -e '.[hub]')"
        ) from error
    for name in files:
        try:
            with closing(place.open(name)) as file:
                table = ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
                columns = table.schema_arrow.names
                if field not in columns:
                    raise ValueError(f"field {field!r} is not in {name} of {place.name}; it has {', '.join(columns)}")
                for batch in table.iter_batches(batch_size=_ROWS, columns=[field], use_threads=False):
                    yield from (text for text in batch.column(0).to_pylist() if text)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
            raise ValueError(f"{name} of {place.name} cannot be read as parquet: {error}") from error
        except ValueError:
            raise
        except Exception as error:
            raise place.failed(error) from error


def _known() -> str:
    return ", ".join(name for name, known in HUB_SETS.items() if known.revision)


def _unavailable(id: str, revision: str, config: str, reason: Exception) -> FileNotFoundError:
    first = (str(reason).strip().splitlines() or [""])[0]
    return FileNotFoundError(
        f"{id!r} is not a folder and cannot be read from the Hugging Face Hub ({type(reason).__name__}: {first}). "
        f"Where the Hub can be reached, run `hf download {id} --repo-type dataset --revision {revision} --include "
        f"'{config}/*' --local-dir {id}`, and copy that folder to {id} here, or pass its path in place of the id"
    )
