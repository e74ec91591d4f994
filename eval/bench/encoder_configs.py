"""Configs of published encoders, as far as they decide the shapes and the work of a program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsar_jax.files import read_json
from lsar_jax.models.architectures import ARCHITECTURES, Architecture, Config

__all__ = ["CONFIGS", "sizes_of"]

# As in config.json, by the name in the rows of a table; those of XLM-R (Conneau et al., ACL 2020, Table 5) are base and
# large.
CONFIGS: dict[str, dict[str, Any]] = read_json(Path(__file__).with_suffix(".json"), dict)


def sizes_of(config: Mapping[str, Any]) -> tuple[Architecture, Config]:
    """Returns the architecture of a config and its sizes; raises ValueError if they are not supported."""
    architecture = ARCHITECTURES[config["model_type"]]
    return architecture, architecture.read_config(config)
