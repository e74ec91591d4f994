"""XLM-R, including InfoXLM, S-BERT, multilingual-e5-base and -large, bge-m3 (Conneau et al., ACL 2020); RoBERTa.

The weights have the same names as BERT's; positions are counted from one past the padding id. RoBERTa (Liu et al.,
2019) and CamemBERT (Martin et al., ACL 2020) differ in the name of the architecture alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lsar_jax.checks import whole_number
from lsar_jax.models.architectures import bert
from lsar_jax.models.encoder import EncoderConfig

__all__ = ["CAMEMBERT", "ROBERTA", "XLM_R", "first_position"]


def first_position(config: Mapping[str, Any]) -> int:
    """Returns the position of the first token, one past the padding id; raises ValueError if that is not an id."""
    pad = config.get("pad_token_id", 1)
    return whole_number("pad_token_id in config.json", pad, 0, 1 << 18, "positions are counted from it") + 1


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    return bert.read_sizes(config, first_position=first_position(config))


XLM_R = replace(
    bert.BERT,
    model_type="xlm-roberta",
    read_config=_read_sizes,
    prefixes=("roberta.",),
    exported=("XLMRobertaModel", "xlm-roberta"),
    # Positions are counted from the padding id of the config, whatever the tokenizer pads with.
    export_options=lambda sizes, blocks: {"pad_token_id": sizes.first_position - 1},
)
ROBERTA = replace(XLM_R, model_type="roberta", exported=("RobertaModel", "roberta"))
CAMEMBERT = replace(XLM_R, model_type="camembert", exported=("CamembertModel", "camembert"))
