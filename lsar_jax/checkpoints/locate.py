"""Locating the files of a checkpoint in a folder or on the Hugging Face Hub."""

import re
from difflib import get_close_matches
from pathlib import Path

from lsar_jax.checkpoints.presets import PRESETS, Preset
from lsar_jax.hub import Repository, check_no_revision

__all__ = ["CONFIG_FILES", "TOKENIZER_FILES", "is_folder", "locate", "preset_of"]

_LASER_FILES = ("dictionary.json", "bpe.*")
_JSON_FILES = ("tokenizer*.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (*_JSON_FILES, "chat_template*", "vocab.*", "merges.txt", "*.model", *_LASER_FILES)
CONFIG_FILES = ("*config.json", "modules.json", "config_sentence_transformers.json")
_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json")
_PICKLE_FILES = ("*pytorch_model*.bin", "*pytorch_model*.bin.index.json", *_WEIGHT_FILES)


def preset_of(name: str) -> Preset | None:
    """Returns the preset of a name, or None if it is not one, or is a folder in the working directory.

    Raises:
      FileNotFoundError: the encoder of the preset is not on the Hub.
    """
    preset = None if is_folder(name) else PRESETS.get(name)
    if preset and not preset.id:
        raise FileNotFoundError(
            f"{name} is not on the Hub: convert {preset.files} with `lsar-jax convert FILE FOLDER`, then load FOLDER"
        )
    return preset


def locate(name_or_path: str, revision: str | None, *, pickles: bool = False) -> tuple[Path, str, str | None]:
    """Returns the folder of a checkpoint, its id, and its commit on the Hub (None for a folder).

    Args:
      name_or_path: a folder, or a Hub id, whose files are downloaded once and cached by ``huggingface_hub``.
      revision: commit, tag or branch of a Hub id.
      pickles: whether to download pickled weights too, for ``convert``.

    Raises:
      FileNotFoundError: the name is neither a folder nor a Hub id that can be downloaded.
      ValueError: a revision is given for a folder.
    """
    if is_folder(name_or_path):
        check_no_revision(revision, name_or_path)
        folder = Path(name_or_path)
        return folder, folder.resolve().name, None
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name_or_path):
        raise FileNotFoundError(f"there is no folder {name_or_path}, and it is not a Hub id")
    # The first versions of sentence-transformers kept the transformer in a separate folder.
    tokenizers = [*TOKENIZER_FILES, *(f"0_*/{name}" for name in TOKENIZER_FILES)]
    weights = _PICKLE_FILES if pickles else _WEIGHT_FILES
    try:
        local = Repository(name_or_path, revision, "model").download([*CONFIG_FILES, *weights, *tokenizers])
    except FileNotFoundError as error:
        near = _near(name_or_path)
        if not near or name_or_path in near:
            raise
        what = error if "/" in name_or_path else f"there is no encoder {name_or_path!r}"
        raise FileNotFoundError(f"{what}; did you mean {' or '.join(near)}?") from error
    if not pickles and not any(local.rglob("*.safetensors")):
        at = f" --revision {revision}" if revision else ""
        raise FileNotFoundError(
            f"{name_or_path} has no safetensors on the Hub; if it has a pickle, convert it to a folder once: "
            f"lsar-jax convert {name_or_path} NEW_FOLDER{at}"
        )
    # The Hub's cache names the folder after its commit.
    return local, name_or_path, local.name


def is_folder(name: str) -> bool:
    """Whether a name names a folder; raises FileNotFoundError if it cannot, being too long for example."""
    try:
        return Path(name).is_dir()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileNotFoundError(f"{name[:60]!r}... is neither a folder nor a Hub id: {reason}") from error


def _near(name: str) -> list[str]:
    """Returns the presets, or the ids of presets, that a name may have been meant for."""
    known = [preset.id for preset in PRESETS.values()] if "/" in name else ["bundled", *PRESETS]
    by_lower = {spelled.casefold(): spelled for spelled in known}
    close = get_close_matches(name.casefold(), list(by_lower), cutoff=0.9 if "/" in name else 0.6)
    return [by_lower[spelled] for spelled in close]
