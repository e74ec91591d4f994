"""The supported architectures, one file each, and the table ``ARCHITECTURES`` of all of them."""

from collections.abc import Mapping
from typing import Any

from lsar_jax.checkpoints.architectures.base import Architecture, Config
from lsar_jax.checkpoints.architectures.bert import BERT
from lsar_jax.checkpoints.architectures.laser import LASER
from lsar_jax.checkpoints.architectures.xlm import XLM
from lsar_jax.checkpoints.architectures.xlm_roberta import XLM_R

__all__ = ["ARCHITECTURES", "BERT", "LASER", "XLM", "XLM_R", "Architecture", "Config", "architecture_of"]

ARCHITECTURES = {each.model_type: each for each in (BERT, XLM_R, XLM, LASER)}


def architecture_of(config: Mapping[str, Any]) -> Architecture:
    """Returns the architecture of a ``config.json``.

    Raises:
      ValueError: the architecture is not supported.
    """
    model_type = config.get("model_type", "xlm" if "emb_dim" in config else None)
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        raise ValueError(f"the checkpoint is of type {model_type!r}; known types are: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[model_type]
