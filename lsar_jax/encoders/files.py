"""Where a checkpoint's files are: a folder, or the Hugging Face Hub and its cache."""

import hashlib
import json
import logging
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "CONFIG_FILES",
    "TOKENIZER_FILES",
    "check_absent",
    "inside",
    "new_folder",
    "read_json",
    "resolve",
    "sha256",
    "write_json",
]

TOKENIZER_FILES = (
    "tokenizer*.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "dictionary.json",
    "bpe.*",
)
CONFIG_FILES = ("*config.json", "modules.json", "config_sentence_transformers.json")
_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json")
_PICKLE_FILES = ("*pytorch_model*.bin", "*pytorch_model*.bin.index.json", *_WEIGHT_FILES)

# Seconds until a Hub that does not answer is given up.
_PATIENCE = 10.0

_log = logging.getLogger("lsar_jax")


def resolve(name_or_path: str, revision: str | None, *, pickles: bool = False) -> tuple[Path, str, str | None]:
    """Returns the folder of a checkpoint, its id, and its revision on the Hub.

    A folder stands for itself. Anything else is a Hub id: the files are downloaded once and
    kept by ``huggingface_hub``; with ``HF_HUB_OFFLINE=1``, or where the Hub does not answer
    within ten seconds, only what is kept is used.

    Args:
      name_or_path: a folder or a Hub id.
      revision: commit, tag or branch of a Hub id.
      pickles: whether to download pickled weights too, for ``convert``.

    Raises:
      FileNotFoundError: neither a folder nor a Hub id that can be downloaded.
      ValueError: a revision of a folder.
    """
    folder = Path(name_or_path)
    if folder.is_dir():
        if revision is not None:
            raise ValueError(f"revision {revision!r} is for Hub ids; {name_or_path} is a folder")
        return folder, folder.resolve().name, None
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name_or_path):
        raise FileNotFoundError(f"there is no folder {name_or_path}, and it is not a Hub id")
    # The first versions of sentence-transformers kept the transformer in a folder of its own.
    tokenizers = [*TOKENIZER_FILES, *(f"0_*/{name}" for name in TOKENIZER_FILES)]
    weights = _PICKLE_FILES if pickles else _WEIGHT_FILES
    local = _download(name_or_path, revision, [*CONFIG_FILES, *weights, *tokenizers])
    if not pickles and not any(local.rglob("*.safetensors")):
        at = f" --revision {revision}" if revision else ""
        raise FileNotFoundError(
            f"{name_or_path} has no safetensors on the Hub; if it has a pickle, turn it into a folder once: "
            f"lsar-jax convert {name_or_path} NEW_FOLDER{at}"
        )
    # The Hub's cache names the folder by its commit.
    return local, name_or_path, local.name


def read_json(path: Path, kind: type) -> Any:
    """Returns what a JSON file holds.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not JSON, or not of this kind.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path.name} in {path.parent}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, kind):
        raise ValueError(f"{path} holds a JSON {type(value).__name__}, expected a {kind.__name__}")
    return value


def inside(folder: Path, part: str, named_in: Path) -> Path:
    """Returns ``folder / part``.

    Raises:
      ValueError: ``part`` leads out of the folder.
    """
    # By its words alone: the Hub's cache is made of links that leave the folder.
    if Path(part).is_absolute() or ".." in Path(part).parts:
        raise ValueError(f"{named_in} names a path outside its folder: {part}")
    return folder / part


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` for people to read too."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_absent(folder: Path) -> None:
    """Raises FileExistsError if there is anything at ``folder`` but an empty folder."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists; nothing is written over it")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder that becomes ``folder`` when all is written, and never a part of it.

    Raises:
      FileExistsError: something is there already.
    """
    check_absent(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield new
        new.chmod(0o755)
        new.replace(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def sha256(paths: Iterable[Path]) -> str:
    """Returns the digest of the files' contents, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def _download(id: str, revision: str | None, patterns: list[str]) -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download

    away: Exception | None = None
    if not constants.HF_HUB_OFFLINE:
        try:
            # snapshot_download asks the same question first, and waits for ever.
            HfApi().model_info(id, revision=revision, timeout=_PATIENCE)
        except Exception as error:  # the client raises a dozen kinds, those of its network library included
            if _answered(error):
                raise _unavailable(id, revision, error) from error
            away = error
        else:
            try:
                return Path(snapshot_download(id, revision=revision, allow_patterns=patterns, etag_timeout=_PATIENCE))
            except Exception as error:
                # Not what is kept: it may be a part of this very download.
                raise _unavailable(id, revision, error) from error
    try:
        local = Path(snapshot_download(id, revision=revision, allow_patterns=patterns, local_files_only=True))
    except Exception as error:
        raise _unavailable(id, revision, away or error) from error
    if away is not None:
        _log.warning("the Hub did not answer (%s); using the files that are kept in %s", type(away).__name__, local)
    return local


def _answered(error: Exception) -> bool:
    """Whether the Hub was there and said no: no such model or revision, no permission."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is not None and status < 500


def _unavailable(id: str, revision: str | None, reason: Exception) -> FileNotFoundError:
    first = (str(reason).strip().splitlines() or [""])[0]
    at = f" --revision {revision}" if revision else ""
    return FileNotFoundError(
        f"{id!r} is not a folder and cannot be downloaded from the Hugging Face Hub "
        f"({type(reason).__name__}: {first}). Where the Hub can be reached, run `hf download {id}{at}` "
        "and pass the folder that it prints"
    )
