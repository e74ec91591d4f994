"""Every architecture of transformers' checkpoints: prefixes of tensor names, an early exit."""

import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.load_weights import load_weights
from tests import parity


@pytest.mark.parametrize("name", [name for name in parity.ARCHITECTURES if not name.startswith("laser")])
def test_an_early_exit_reads_its_blocks_alone(name, tmp_path):
    """Under each prefix of a checkpoint with a head; what is not needed holds NaN, which would be refused."""
    folder = shutil.copytree(parity.GOLDEN / name, tmp_path / name)
    whole = read_folder(folder, id=name)
    norms = {key for leaf, key in whole.keys.items() if leaf.startswith("norm.")}
    tensors = load_file(folder / "model.safetensors")
    for key, tensor in tensors.items():
        if re.search(r"\.[1-9]\.", key) or key in norms or whole.architecture.is_unused(key):
            tensors[key] = np.full_like(tensor, np.nan)
    case = parity.golden(name)
    for prefix in whole.architecture.prefixes:
        save_file({prefix + key: tensor for key, tensor in tensors.items()}, folder / "model.safetensors")
        model = load_weights(read_folder(folder, id=name), blocks=1, dtype="float32")
        states = parity.all_states(model, case["ids"], case["lengths"], case["languages"])
        real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
        for ours, theirs in zip(states, case["hidden"][:2], strict=True):
            np.testing.assert_allclose(ours[real], theirs[real], atol=1e-5 * np.abs(theirs).max())
