"""The settings of sentence-transformers and of adapters: each is read, changes no vector, or is refused.

The table is ``module_settings.csv``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsar_jax.files import read_table
from lsar_jax.tokens.sentence_settings import sentence_settings

__all__ = ["APPLIED", "KEYS", "MODES", "SENTENCE", "Unsupported", "check_keys", "check_text"]

#: Where an export says which transforms are in its Dense layers, as ``Transform.applied``.
APPLIED = "lsar_jax_applied"
#: Our names of the poolings; those of version 6 of sentence-transformers, which joins them in the order of its list;
#: and the flags of older versions, which join them in this order.
MODES = {
    "cls": ("cls", "cls_token"), "max": ("max", "max_tokens"), "mean": ("mean", "mean_tokens"),
    "mean_sqrt_len": ("mean_sqrt_len_tokens",) * 2, "weighted_mean": ("weightedmean", "weightedmean_tokens"),
    "last": ("lasttoken", "lasttoken"),
}  # fmt: skip
SENTENCE = "config_sentence_transformers.json"
#: Of each kind of file: the keys that are read, or change no vector of ``encode``, and the only values of some.
KEYS: dict[str, dict[str, list[Any]]] = {}
for _row in read_table(Path(__file__).with_suffix(".csv")):
    KEYS.setdefault(_row["kind"], {})[_row["key"]] = json.loads(_row["only"] or "[]")


class Unsupported(ValueError):
    """Part of a pipeline is not supported; its transformer may still be."""


def check_keys(where: Path, config: Mapping[str, Any], kind: str) -> None:
    """Raises an error if a config has an unknown key, or sets a known one to a value that is not supported."""
    known = KEYS[kind]
    for key, value in config.items():
        if key not in known:
            names = ", ".join(sorted(known))
            raise Unsupported(f"{where}: {key} is not known; known are {names}; remove it if it changes no vector")
        if known[key] and value not in (None, *known[key]):
            raise Unsupported(f"{where}: {key} is {value!r}; only {known[key][0]!r} is supported")


def check_text(transformer: Path) -> None:
    """Raises an error if the settings of version 6 give other states of a text than the last ones."""
    settings = sentence_settings(transformer)
    check_keys(transformer, settings, "sentence_bert_config.json")
    modalities = settings.get("modality_config") or {"text": {}}
    if not modalities.keys() & {"text", "message"}:
        raise Unsupported(f"{transformer}: modality_config is {modalities!r:.200}; it needs text or message")
    for key in ("text", "message"):
        check_keys(transformer, modalities.get(key, {}), "modality_config")
