"""Checkpoints with a task head, whose tensors have a prefix."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from tests.parity import GOLDEN

HEADS = [
    ("xlm-roberta", "roberta.", "lm_head.dense.weight"),
    ("distilbert", "distilbert.", "vocab_transform.weight"),
    ("qwen3", "model.", "lm_head.weight"),
    ("eurobert", "model.", "lm_head.weight"),
]


@pytest.mark.parametrize(("name", "prefix", "head"), HEADS)
def test_names_with_a_prefix_and_a_head(tmp_path, name, prefix, head):
    folder = shutil.copytree(GOLDEN / name, tmp_path / "model")
    tensors = {prefix + key: value for key, value in load_file(folder / "model.safetensors").items()}
    save_file(tensors | {head: np.ones((3, 3), np.float32)}, folder / "model.safetensors")
    ours, theirs = (lj.load_encoder(path).encode("a bc") for path in (folder, GOLDEN / name))
    np.testing.assert_array_equal(ours, theirs)
