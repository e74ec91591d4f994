"""The settings of sentence-transformers beside a transformer, in ``sentence_bert_config.json``."""

from pathlib import Path
from typing import Any

from lsar_jax.files import read_json

__all__ = ["sentence_settings"]

# Of several files, sentence-transformers takes the first that says something.
_KINDS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# The settings that are arguments of what is opened, and the arguments that change no vector.
_ARGUMENTS = (
    "tokenizer_args", "processor_kwargs", "processing_kwargs", "model_args", "model_kwargs", "config_args",
    "config_kwargs",
)  # fmt: skip
_HARMLESS = {
    "attn_implementation", "dtype", "torch_dtype", "trust_remote_code", "add_pooling_layer", "device_map", "use_cache",
    "low_cpu_mem_usage", "use_safetensors", "padding_side", "use_fast",
}  # fmt: skip


def sentence_settings(folder: Path) -> dict[str, Any]:
    """Returns the settings in a folder; raises ValueError if an argument may change a vector."""
    paths = [folder / f"sentence_{kind}_config.json" for kind in _KINDS]
    for path in filter(Path.is_file, paths):
        if settings := read_json(path, dict):
            for name in _ARGUMENTS:
                given = settings.get(name) or {}
                if not isinstance(given, dict) or set(given) - _HARMLESS:
                    raise ValueError(
                        f"{path}: {name} is {given!r:.200}, which is not supported; remove it, or write what it says "
                        "to the file of the tokenizer or the config.json that it changes"
                    )
            modalities = settings.get("modality_config") or {}
            if not isinstance(modalities, dict) or not all(isinstance(entry, dict) for entry in modalities.values()):
                raise ValueError(f"{path}: modality_config is {modalities!r:.200}; it must map modalities to settings")
            return settings
    return {}
