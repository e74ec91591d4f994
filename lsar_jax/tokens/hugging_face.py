"""The tokenizer of a Hugging Face folder.

``tokenizer.json`` is opened with the ``tokenizers`` library, without importing transformers, which takes seconds. Only
if a folder does not have it (the first BERT checkpoints had only ``vocab.txt``), if the settings beside it say
otherwise, as ``do_lower_case`` does, or if their class is not compared with it here, transformers builds the tokenizer.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lsar_jax.files import check_file, read_json
from lsar_jax.tokens.tokenizer import FastTokenizer, backend_errors, check_ids

__all__ = ["fast_tokenizer", "static_tokenizer"]

# The classes of transformers that take tokenizer.json as it is; the others build the tokenizer from their settings.
_PLAIN = ("PreTrainedTokenizer", "TokenizersBackend")
# Those of the others that are compared with tokenizer.json here: the kind of their model, and their special tokens, if
# the settings name no others.
_BERT = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
_XLM_R = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
_SPECIAL = {
    "BertTokenizer": ("WordPiece", _BERT),
    "DistilBertTokenizer": ("WordPiece", _BERT),
    "XLMRobertaTokenizer": ("Unigram", _XLM_R),
    "GemmaTokenizer": ("BPE", _XLM_R | {"bos_token": "<bos>", "eos_token": "<eos>"}),
    "Qwen2Tokenizer": ("BPE", dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>")),
}
# The class of a model whose settings name none.
_CLASSES = dict.fromkeys(("bert", "distilbert", "nomic_bert"), "BertTokenizer") | {
    "xlm-roberta": "XLMRobertaTokenizer", "gemma3_text": "GemmaTokenizer", "qwen3": "Qwen2Tokenizer",
}  # fmt: skip
# How those of BPE normalise and split, and whether they have bytes in place of unknown characters.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
_BPE = {
    "GemmaTokenizer": (
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        True,
    ),
    "Qwen2Tokenizer": (
        {"type": "NFC"},
        {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Isolated", "invert": False},
                _BYTES,
            ],
        },
        False,
    ),
}
# The kinds that settings must have, if they are not null.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("bos_token", "eos_token", "sep_token", *_BERT), (str, dict)),
    **dict.fromkeys(("do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space"), (bool,)),
    "split_special_tokens": (bool,),
    **dict.fromkeys(("model_max_length", "max_len"), (int, float)),
    "added_tokens_decoder": (dict,),
    "additional_special_tokens": (list,),
    "extra_special_tokens": (list, dict),
}
# Options of sentence-transformers that are no part of what is computed.
_HARMLESS = {"padding_side", "use_fast", "trust_remote_code"}
# How many times longer the replacements of a normalizer may make a text.
_MOST_GROWTH = 1000
# What may make a regular expression match the empty string.
_MAY_BE_EMPTY = re.compile(r"[*?^$]|(^|[(|])\||\|($|[)|])|\{[0,]|\\[^sSdDwWpPnt]")


class _Opened(NamedTuple):
    backend: Any
    padding: int | None
    limit: Any
    side: Any


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
    settings = _settings(folder)
    opened = _open(folder, settings) if (folder / "tokenizer.json").is_file() else _build(folder)
    backend, padding, limit, side = opened
    # sentence-transformers reads the first of several.
    files = sorted(folder.glob("sentence_*_config.json"), key=lambda path: path.name != "sentence_bert_config.json")
    for path in files[:1]:
        settings = read_json(path, dict)
        for name in ("tokenizer_args", "processor_kwargs", "processing_kwargs"):
            given = settings.get(name) or {}
            if not isinstance(given, dict) or set(given) - _HARMLESS:
                raise ValueError(f"{path}: {name} is {given!r:.200}, which is not supported; remove it")
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
    tokenizer = FastTokenizer(_embedded(backend, vocabulary), padding, most, _side(folder, side))
    backend = tokenizer.backend
    # A post-processor names its special tokens by ids of its own.
    with backend_errors(f"the tokenizer of {folder} fails"):
        added = [*backend.encode("").ids, *backend.encode("a", "a").ids]
    ids = [*backend.get_vocab(with_added_tokens=False).values(), *added]
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
    backend = _embedded(_backend(folder), vocabulary)
    backend.post_processor = None
    # sentence-transformers and model2vec cut what the file itself says.
    cut = backend.truncation or {}
    most = min(longest, cut.get("max_length", longest))
    check_ids(folder, backend.get_vocab(with_added_tokens=True).values(), vocabulary)
    # In a folder of model2vec alone, as model2vec does.
    own = (folder / "config.json").is_file() and not (folder / "modules.json").is_file()
    side = _side(folder, cut.get("direction"))
    return FastTokenizer(backend, 0, most, side, left_out=_unknown_id(backend) if own else None)


def _unknown_id(backend: Any) -> int | None:
    model = json.loads(backend.to_str())["model"]
    return model.get("unk_id") if model.get("unk_token") is None else backend.token_to_id(model["unk_token"])


def _backend(folder: Path) -> Any:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    check_file(path)
    with backend_errors(f"{path} is not a tokenizer"):
        backend = Tokenizer.from_buffer(path.read_bytes())
    _check_growth(path, backend)
    return backend


def _settings(folder: Path) -> dict[str, Any]:
    """Returns the settings beside ``tokenizer.json``, after checking their kinds."""
    settings: dict[str, Any] = {}
    for path in (folder / "special_tokens_map.json", folder / "tokenizer_config.json"):
        given = read_json(path, dict) if path.is_file() else {}
        for name, kinds in _KINDS.items():
            if not isinstance(value := given.get(name), (*kinds, type(None))):
                known = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"{path}: {name} is {value!r:.80}; it must be of type {known}")
        settings |= given
    return settings


def _open(folder: Path, settings: dict[str, Any]) -> _Opened:
    backend = _backend(folder)
    if settings.get("split_special_tokens"):
        raise ValueError(f"{folder}: split_special_tokens is true in the settings; only false is supported")
    config = read_json(folder / "config.json", dict) if (folder / "config.json").is_file() else {}
    kind = settings.get("tokenizer_class") or config.get("tokenizer_class")
    if not isinstance(kind, str | None):
        raise ValueError(f"{folder}: tokenizer_class is {kind!r:.80}, which is not the name of a class")
    added = read_json(folder / "added_tokens.json", dict) if (folder / "added_tokens.json").is_file() else {}
    pad = _content(settings.get("pad_token"))
    if str(kind).removesuffix("Fast") in _PLAIN and isinstance(pad, str) and backend.token_to_id(pad) is not None:
        backend.add_special_tokens([pad])  # as transformers does, whose import takes seconds
    try:
        agrees = _agrees(backend, settings, config, added)
    except TypeError:  # a setting of another kind
        agrees = False
    if not agrees:
        return _build(folder)
    token = _content(settings.get("pad_token"))
    padding = backend.token_to_id(token) if isinstance(token, str) else None
    side = settings.get("truncation_side") or (backend.truncation or {}).get("direction")
    return _Opened(backend, padding, settings.get("model_max_length", settings.get("max_len")), side)


def _agrees(backend: Any, settings: Mapping[str, Any], config: Mapping[str, Any], added: Mapping[str, Any]) -> bool:
    """Whether ``tokenizer.json`` alone is the tokenizer that transformers makes of it and of the other settings.

    Where that is not sure, it is False, which takes time alone.
    """
    named = {name: _content(token) for name, token in settings.items() if name.endswith("_token")}
    lists = [settings.get(name) or [] for name in ("additional_special_tokens", "extra_special_tokens")]
    more = [token for tokens in lists for token in (tokens.values() if isinstance(tokens, dict) else tokens)]
    tokens = {*filter(_is_text, named.values()), *filter(_is_text, map(_content, more)), *added}
    declared = settings.get("tokenizer_class") or config.get("tokenizer_class")
    name = str(declared or _CLASSES.get(config.get("model_type", ""))).removesuffix("Fast")
    plain, model = name in _PLAIN, backend.model
    kind, defaults = _SPECIAL.get(name, ("", {}))
    if not plain and kind != type(model).__name__:
        return False
    special = {} if plain else defaults | {name: token for name, token in named.items() if token}
    known = {row: token.__getstate__() for row, token in backend.get_added_tokens_decoder().items()}
    if not tokens | {*filter(_is_text, special.values())} <= {token["content"] for token in known.values()}:
        return False
    if "added_tokens_decoder" in settings:
        declared = settings["added_tokens_decoder"]
        if {str(row): token for row, token in known.items()} != declared:
            return False
    if plain:
        return True
    normalizer, before = _state(backend.normalizer), _state(backend.pre_tokenizer)
    if kind == "BPE":
        same = (model.byte_fallback, model.fuse_unk, model.ignore_merges) == (_BPE[name][2], _BPE[name][2], False)
        return same and (normalizer, before) == _BPE[name][:2] and backend.post_processor is not None
    if kind == "WordPiece":
        expected = {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings.get("tokenize_chinese_chars", True),
            "strip_accents": settings.get("strip_accents"),
            "lowercase": settings.get("do_lower_case", True),
        }
        ends = [special["cls_token"], special["sep_token"]]
        same = normalizer == expected and before == {"type": "BertPreTokenizer"}
        own = (model.unk_token, model.continuing_subword_prefix, model.max_input_chars_per_word)
        same = same and own == (special["unk_token"], "##", 100)
    else:
        scheme = "always" if settings.get("add_prefix_space", True) else "never"
        space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
        ends = [special["bos_token"], special["eos_token"]]
        same = before == {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}
        same = same and (normalizer is None or normalizer["type"] == "Precompiled")
    return same and backend.encode("").tokens == ends


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
    _check_growth(folder, backend)
    return _Opened(backend, loaded.pad_token_id, loaded.model_max_length, loaded.truncation_side)


def _check_growth(path: Path, backend: Any) -> None:
    """Raises ValueError if replacements of replacements would fill the memory with what they make of a short text."""
    # What a replacement makes of a character of the text, at most, and the characters that it writes.
    written: list[tuple[float, str]] = []
    for step in _steps(_state(backend.normalizer)):
        content, pattern = step["content"], step["pattern"]
        string, regex = pattern.get("String"), pattern.get("Regex", "")
        growth = max(1, len(content) / len(string)) if string else 1 + len(content)
        if string is None and not _MAY_BE_EMPTY.search(regex):
            growth = max(1, len(content))
        before = [most for most, characters in written if not string or set(string) & set(characters)]
        written.append((growth * max(before, default=1), content))
    if (most := max(written, default=(1, ""))[0]) > _MOST_GROWTH:
        raise ValueError(
            f"{path}: the replacements of the normalizer, one after the other, may make a text {most:.0e} times "
            f"longer; at most {_MOST_GROWTH} times is accepted"
        )


def _steps(normalizer: Any) -> list[dict[str, Any]]:
    """Returns the replacements of a normalizer."""
    if not normalizer or normalizer["type"] != "Sequence":
        return [normalizer] if normalizer and normalizer["type"] == "Replace" else []
    return [step for part in normalizer["normalizers"] for step in _steps(part)]


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


def _state(part: Any) -> Any:
    """Returns a part of a backend as it is in ``tokenizer.json``."""
    return None if part is None else json.loads(part.__getstate__())


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _side(folder: Path, side: Any) -> str:
    side = side or "right"
    if str(side).lower() not in ("left", "right"):
        raise ValueError(f"{folder}: the side of truncation is {side!r}; it must be left or right")
    return str(side).lower()
