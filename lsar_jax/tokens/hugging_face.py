"""The tokenizer of a Hugging Face folder.

``tokenizer.json`` is opened with the ``tokenizers`` library, without importing transformers. If a folder does not have
it (the first BERT checkpoints had only ``vocab.txt``), transformers builds the tokenizer.
"""

import json
from pathlib import Path
from typing import Any

from lsar_jax.files import check_file, read_json
from lsar_jax.tokens.tokenizer import FastTokenizer, check_ids

__all__ = ["fast_tokenizer", "static_tokenizer"]


def fast_tokenizer(folder: Path, vocabulary: int, longest: int) -> FastTokenizer:
    """Opens the tokenizer of a folder.

    Added tokens without an embedding, such as Gemma 3's ``<image_soft_token>``, are left out: a text that spells one
    out is split like any other.

    Args:
      folder: folder of the tokenizer and of ``config.json``.
      vocabulary: rows of the embeddings.
      longest: most tokens that the model takes, including special tokens.

    Raises:
      FileNotFoundError: there is no tokenizer.
      ValueError: a file is damaged, or a token of the vocabulary, of the post-processor or of padding has no
        embedding.
    """
    backend, padding, limit = (_open if (folder / "tokenizer.json").is_file() else _build)(folder)
    lower = False
    for path in sorted(folder.glob("sentence_*_config.json")):
        settings = read_json(path, dict)
        # These override the tokenizer's own settings, as in sentence-transformers.
        limit = settings["max_seq_length"] if _is_length(settings.get("max_seq_length")) else limit
        lower = lower or settings.get("do_lower_case") is True
    if padding is None:
        padding = read_json(folder / "config.json", dict).get("pad_token_id")
    padding = padding if isinstance(padding, int) else 0
    most = int(min(longest, limit)) if _is_length(limit) else longest
    tokenizer = FastTokenizer(_embedded(backend, vocabulary), padding, most, lower)
    backend = tokenizer.backend
    # A post-processor names its special tokens by ids of its own.
    ids = [*backend.get_vocab(with_added_tokens=False).values(), *backend.encode("").ids, *backend.encode("a", "a").ids]
    check_ids(folder, [*ids, padding], vocabulary)
    if most <= sum(tokenizer.specials):
        raise ValueError(f"{folder} takes {most} tokens, but the special tokens alone are {sum(tokenizer.specials)}")
    return tokenizer


def static_tokenizer(folder: Path, vocabulary: int, longest: int) -> FastTokenizer:
    """Opens the tokenizer of static embeddings, which adds no special tokens; arguments as of ``fast_tokenizer``.

    Raises:
      FileNotFoundError: there is no ``tokenizer.json``.
      ValueError: a file is damaged, or a token has no embedding.
    """
    check_file(folder / "tokenizer.json")
    backend = _embedded(_open(folder)[0], vocabulary)
    backend.post_processor = None
    # sentence-transformers and model2vec cut what the file itself says.
    most = min(longest, (backend.truncation or {}).get("max_length", longest))
    check_ids(folder, backend.get_vocab(with_added_tokens=True).values(), vocabulary)
    # In a folder of model2vec alone, as model2vec does.
    own = (folder / "config.json").is_file() and not (folder / "modules.json").is_file()
    return FastTokenizer(backend, 0, most, left_out=_unknown_id(backend) if own else None)


def _unknown_id(backend: Any) -> int | None:
    model = json.loads(backend.to_str())["model"]
    return model.get("unk_id") if model.get("unk_token") is None else backend.token_to_id(model["unk_token"])


def _open(folder: Path) -> tuple[Any, int | None, Any]:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    check_file(path)
    try:
        backend = Tokenizer.from_buffer(path.read_bytes())
    except Exception as error:  # the library raises bare Exception
        raise ValueError(f"{path} is not a tokenizer: {error}") from error
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            settings |= read_json(folder / name, dict)
    token = settings.get("pad_token")
    token = token.get("content") if isinstance(token, dict) else token
    padding = backend.token_to_id(token) if isinstance(token, str) else None
    return backend, padding, settings.get("model_max_length")


def _build(folder: Path) -> tuple[Any, int | None, Any]:
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        for path in sorted(filter(Path.is_file, folder.iterdir())):
            check_file(path)
        raise FileNotFoundError(f"no tokenizer could be loaded from {folder}: {error}") from error
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"the tokenizer of {folder}, {type(loaded).__name__}, has no fast version")
    return backend, loaded.pad_token_id, loaded.model_max_length


def _embedded(backend: Any, vocabulary: int) -> Any:
    """Returns the backend without the added tokens that have no embedding."""
    from tokenizers import Tokenizer

    if max(backend.get_added_tokens_decoder(), default=0) < vocabulary:
        return backend
    state = json.loads(backend.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] < vocabulary]
    # The library numbers added tokens in their order, so the others keep their ids.
    return Tokenizer.from_str(json.dumps(state))


def _is_length(limit: Any) -> bool:
    return isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0
