"""Changes files of arrays as an attacker would: what is written has no digests, as in the first versions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

__all__ = ["rewrite"]

Change = Callable[[dict[str, np.ndarray], Any, dict[str, str]], object]


def rewrite(path: Path, change: Change) -> None:
    """Writes the file again after ``change(arrays, header, metadata)``; ``metadata["raw"]`` replaces the header."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - not a dict
        contents = json.loads(json.loads(file.metadata()["lsar_jax"])["contents"])
    metadata = {"format": contents["format"]}
    change(arrays, contents["header"], metadata)
    metadata["header"] = metadata.pop("raw", json.dumps(contents["header"]))
    save_file(arrays, str(path), metadata)
