"""The tokenizer of a Hugging Face folder.

``tokenizer.json`` alone is opened where the class that the settings beside it name is known to take it as it is, as in
the folders that this library writes. All others are built by transformers, whose import takes seconds.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lsar_jax.checks import check_choice, errors_of, whole_number
from lsar_jax.files import check_file, read_json
from lsar_jax.tokens.chat_template import ChatTemplate, form_of
from lsar_jax.tokens.sentence_settings import sentence_settings
from lsar_jax.tokens.tokenizer import FastTokenizer, Tokenizer, backend_errors, check_ids

__all__ = ["fast_tokenizer", "static_tokenizer", "with_end_token"]

# The classes of transformers that take tokenizer.json as it is; the others build the tokenizer from their settings.
_AS_WRITTEN = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
# The settings of these classes, besides their special tokens, that change no ids.
_NO_IDS = {
    "tokenizer_class", "backend", "is_local", "local_files_only", "model_max_length", "truncation_side", "padding_side",
    "clean_up_tokenization_spaces",
}  # fmt: skip
# The tokens to which model2vec cuts a text where a config names no ``max_length``.
_MODEL2VEC = 512

# The backend, the id of padding, the limit and the side of truncation, as the settings have them, and the tokenizer of
# transformers, if it was built.
_Opened = tuple[Any, int | None, Any, Any, Any]


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
      ValueError: a file is damaged or has a setting that is not supported, or a token of the vocabulary, of the
        post-processor or of padding has no embedding.
    """
    settings = sentence_settings(folder)
    message = (settings.get("modality_config") or {}).get("message")
    backend, padding, limit, side, built = _open(folder) if message is None else _build(folder)
    if message is None and not any((place / "modules.json").is_file() for place in (folder, folder.parent)):
        # So sentence-transformers opens a folder that it did not write.
        written = getattr(built, "chat_template", None)
        message = {"format": form_of(written)} if written else None
    with errors_of(folder):
        template = None if message is None else ChatTemplate(built, message.get("format"))
    # These override the tokenizer's own settings, as in sentence-transformers.
    limit = settings["max_seq_length"] if _is_length(settings.get("max_seq_length")) else limit
    if settings.get("do_lower_case") is True:
        from tokenizers import normalizers

        parts = [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        backend.normalizer = normalizers.Sequence(parts)
    if padding is None:
        padding = read_json(folder / "config.json", dict).get("pad_token_id")
    padding = padding if isinstance(padding, int) else 0
    most = int(min(longest, limit)) if _is_length(limit) else longest
    tokenizer = FastTokenizer(_embedded(backend, vocabulary), padding, most, _side(folder, side), template=template)
    backend = tokenizer.backend
    # A post-processor names its special tokens by ids of its own.
    with backend_errors(f"the tokenizer of {folder} fails"):
        added = [*backend.encode("").ids, *backend.encode("a", "a").ids]
    ids = [*backend.get_vocab(with_added_tokens=False).values(), *added]
    check_ids(folder, [*ids, padding], vocabulary)
    whole_number(f"{folder}: max_length", most, sum(tokenizer.specials) + 1, longest, "more than the special tokens")
    return tokenizer


def with_end_token(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Returns the tokenizer with the ``eos_token`` that ``add_eos_token`` asks for, where it adds no token at the end.

    Version 5 of transformers leaves it out, although the last token is pooled.
    """
    settings = _settings(folder)
    asked = settings.get("add_eos_token") is True and not tokenizer.specials.after
    if not isinstance(tokenizer, FastTokenizer) or tokenizer.template or not asked:
        return tokenizer
    from tokenizers import processors

    end, backend = settings.get("eos_token"), tokenizer.backend
    end = str(end.get("content") if isinstance(end, dict) else end)
    if (row := backend.token_to_id(end)) is None:
        return tokenizer
    last = processors.TemplateProcessing(single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, row)])
    earlier = [] if backend.post_processor is None else [backend.post_processor]
    backend.post_processor = processors.Sequence([*earlier, last])
    return replace(tokenizer)


def static_tokenizer(folder: Path, vocabulary: int, longest: int) -> FastTokenizer:
    """Opens the tokenizer of static embeddings, which adds no special tokens; arguments as of ``fast_tokenizer``.

    Raises:
      FileNotFoundError: there is no ``tokenizer.json``.
      ValueError: a file is damaged, or a token has no embedding.
    """
    check_file(folder / "tokenizer.json")
    backend = _embedded(_backend(folder), vocabulary)
    backend.post_processor = None
    check_ids(folder, backend.get_vocab(with_added_tokens=True).values(), vocabulary)
    config = folder / "config.json"
    if not config.is_file() or (folder / "modules.json").is_file():
        # sentence-transformers cuts what the file itself says.
        cut = backend.truncation or {}
        most = min(longest, cut.get("max_length", longest))
        return FastTokenizer(backend, 0, most, _side(folder, cut.get("direction")))
    # model2vec cuts what its config says, and before that as many times the median length of a token.
    limit = read_json(config, dict).get("max_length", _MODEL2VEC)
    most, middle, model = longest, None, json.loads(backend.to_str())["model"]
    unknown = model.get("unk_id") if model.get("unk_token") is None else backend.token_to_id(model["unk_token"])
    if limit is not None:
        most = min(longest, whole_number(f"{config}: max_length", limit, 1, 1 << 31, "tokens of a text"))
        middle = int(np.median([len(token) for token in backend.get_vocab()]))
    return FastTokenizer(backend, 0, most, left_out=unknown, characters=middle)


def _backend(folder: Path) -> Any:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    check_file(path)
    with backend_errors(f"{path} is not a tokenizer"):
        return Tokenizer.from_buffer(path.read_bytes())


def _settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for path in (folder / "tokenizer_config.json", folder / "special_tokens_map.json"):
        settings |= read_json(path, dict) if path.is_file() else {}
    return settings


def _open(folder: Path) -> _Opened:
    settings = _settings(folder)
    if settings.get("split_special_tokens"):
        raise ValueError(f"{folder}: split_special_tokens is true in the settings; only false is supported")
    tokens = {name: token for name, token in settings.items() if name.endswith("_token")}
    files = any((folder / name).exists() for name in ("added_tokens.json", "chat_template.jinja"))
    further = settings.keys() - tokens.keys() - _NO_IDS or files
    if further or settings.get("tokenizer_class") not in _AS_WRITTEN or not (folder / "tokenizer.json").is_file():
        return _build(folder)
    backend = _backend(folder)
    if not all(isinstance(token, str) and backend.token_to_id(token) is not None for token in tokens.values()):
        return _build(folder)
    # As transformers does.
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    backend.add_special_tokens([token for token in tokens.values() if token not in known])
    padding = backend.token_to_id(tokens["pad_token"]) if "pad_token" in tokens else None
    side = settings.get("truncation_side") or (backend.truncation or {}).get("direction")
    return backend, padding, settings.get("model_max_length"), side, None


def _build(folder: Path) -> _Opened:
    from transformers import AutoTokenizer

    try:
        with backend_errors(f"no tokenizer could be loaded from {folder}"):
            loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ValueError as error:
        for path in sorted(filter(Path.is_file, folder.iterdir())):
            check_file(path)
        kind = ValueError if (folder / "tokenizer.json").is_file() else FileNotFoundError
        raise kind(str(error)) from error
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(f"the tokenizer of {folder}, {type(loaded).__name__}, has no fast version")
    return backend, loaded.pad_token_id, loaded.model_max_length, loaded.truncation_side, loaded


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


def _side(folder: Path, side: Any) -> str:
    side = str(side or "right").lower()
    check_choice(f"{folder}: truncation_side", side, ("left", "right"))
    return side
