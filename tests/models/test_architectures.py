"""What every architecture of transformers' checkpoints can do: prefixes of tensor names, an early exit."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lsar_jax.checkpoints.checkpoint import read_folder
from lsar_jax.checkpoints.fill import fill
from tests import parity


@pytest.mark.parametrize("name", [name for name in parity.ARCHITECTURES if not name.startswith("laser")])
def test_an_early_exit_reads_its_blocks_alone(name, tmp_path):
    """Under each prefix of a checkpoint with a head; what is not needed holds NaN, which would be refused."""
    folder = shutil.copytree(parity.GOLDEN / name, tmp_path / name)
    whole = read_folder(folder, id=name)
    needed = {key.format(0) for leaf, key in whole.keys.items() if not leaf.startswith("norm.")}
    tensors = load_file(folder / "model.safetensors")
    tensors |= {key: np.full_like(tensor, np.nan) for key, tensor in tensors.items() if key not in needed}
    case = parity.golden(name)
    for prefix in whole.architecture.prefixes:
        save_file({prefix + key: tensor for key, tensor in tensors.items()}, folder / "model.safetensors")
        model = fill(read_folder(folder, id=name), blocks=1, dtype="float32")
        states = parity.all_states(model, case["ids"], case["lengths"], case["languages"])
        real = np.arange(case["ids"].shape[1]) < case["lengths"][:, None]
        for ours, theirs in zip(states, case["hidden"][:2], strict=True):
            np.testing.assert_allclose(ours[real], theirs[real], atol=1e-5 * np.abs(theirs).max())
