"""XLM-R, including InfoXLM, S-BERT, multilingual-e5-base and -large, bge-m3 (Conneau et al., ACL 2020).

The weights have the same names as BERT's; positions are counted from one past the padding id.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lsar_jax.models.architectures import bert
from lsar_jax.models.architectures.bert import BertConfig

__all__ = ["XLM_R"]


def _read_sizes(config: Mapping[str, Any]) -> BertConfig:
    pad = config.get("pad_token_id", 1)
    if not isinstance(pad, int) or isinstance(pad, bool) or pad < 0:
        raise ValueError(f"pad_token_id is {pad!r}; it must be a whole number, because positions are counted from it")
    return bert.read_sizes(config, first_position=pad + 1)


def _export_config(sizes: BertConfig, blocks: int, pad_id: int) -> dict[str, Any]:
    if pad_id != sizes.first_position - 1:
        raise ValueError(
            f"positions start at {sizes.first_position}; they must start one past the padding id, {pad_id}"
        )
    names = {"architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta"}
    return bert.export_config(sizes, blocks, pad_id) | names


XLM_R = replace(
    bert.BERT, model_type="xlm-roberta", read_config=_read_sizes, prefixes=("roberta.",), export=_export_config
)
