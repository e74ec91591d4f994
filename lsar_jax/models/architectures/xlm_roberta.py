"""XLM-R, including InfoXLM, S-BERT, multilingual-e5-base and -large, bge-m3 (Conneau et al., ACL 2020); RoBERTa.

The weights have the same names as BERT's; positions are counted from one past the padding id. RoBERTa (Liu et al.,
2019) and CamemBERT (Martin et al., ACL 2020) differ in the name of the architecture alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lsar_jax.models.architectures import bert
from lsar_jax.models.architectures.base import Architecture
from lsar_jax.models.architectures.bert import BertConfig

__all__ = ["CAMEMBERT", "ROBERTA", "XLM_R", "first_position"]


def first_position(config: Mapping[str, Any]) -> int:
    """Returns the position of the first token, one past the padding id; raises ValueError if that is not an id."""
    pad = config.get("pad_token_id", 1)
    if not isinstance(pad, int) or isinstance(pad, bool) or pad < 0:
        raise ValueError(f"pad_token_id is {pad!r}; it must be a whole number, because positions are counted from it")
    return pad + 1


def _read_sizes(config: Mapping[str, Any]) -> BertConfig:
    return bert.read_sizes(config, first_position=first_position(config))


def _export_config(sizes: BertConfig, blocks: int, pad_id: int, *, names: dict[str, Any]) -> dict[str, Any]:
    if pad_id != sizes.first_position - 1:
        raise ValueError(
            f"positions start at {sizes.first_position}; they must start one past the padding id, {pad_id}"
        )
    return bert.export_config(sizes, blocks, pad_id) | names


def _named(model_type: str, torch_class: str) -> Architecture:
    export = partial(_export_config, names={"architectures": [torch_class], "model_type": model_type})
    return replace(bert.BERT, model_type=model_type, read_config=_read_sizes, prefixes=("roberta.",), export=export)


XLM_R = _named("xlm-roberta", "XLMRobertaModel")
ROBERTA = _named("roberta", "RobertaModel")
CAMEMBERT = _named("camembert", "CamembertModel")
