"""GTE: its older name, and models without segments."""

import json
import shutil

import numpy as np

import lsar_jax as lj
from tests import parity
from tests.rewriting import edit_tensors

CONFIG = json.loads((parity.GOLDEN / "gte" / "config.json").read_text())
# As gte-multilingual-base has it on disk.
OLD = {name: value for name, value in CONFIG.items() if name != "rope_parameters"} | {
    "model_type": "new", "rope_theta": 20.0, "rope_scaling": {"factor": 8.0, "type": "ntk"},
    "position_embedding_type": "rope", "layer_norm_type": "layer_norm", "pack_qkv": True, "pack_upgate_proj": True,
    "logn_attention_scale": False, "logn_attention_clip1": False, "unpad_inputs": True,
    "use_memory_efficient_attention": True,
}  # fmt: skip


def test_a_checkpoint_of_the_older_name(tmp_path):
    folder = shutil.copytree(parity.GOLDEN / "gte", tmp_path / "new")
    (folder / "config.json").write_text(json.dumps(OLD))
    encoder = lj.load_encoder(folder)
    assert encoder.spec.pooling == "cls"
    np.testing.assert_array_equal(encoder.encode("abc"), lj.load_encoder(parity.GOLDEN / "gte").encode("abc"))
    encoder.to_sentence_transformers(tmp_path / "written")
    assert json.loads((tmp_path / "written" / "config.json").read_text())["model_type"] == "gte"


def test_no_segment_embeddings(tmp_path):
    folder = shutil.copytree(parity.GOLDEN / "gte", tmp_path / "gte")
    (folder / "config.json").write_text(json.dumps(CONFIG | {"type_vocab_size": 0}))
    edit_tensors(folder, {"embeddings.token_type_embeddings.weight": ...})
    assert lj.load_encoder(folder, layer=0).model.embeddings.token_type is None
