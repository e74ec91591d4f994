"""RoBERTa and CamemBERT: the tiny XLM-R under their names; and the byte-level pieces that RoBERTa has."""

import shutil

import numpy as np
import pytest
from tokenizers import ByteLevelBPETokenizer, Tokenizer, processors

import lsar_jax as lj
from tests import parity
from tests.optional import need
from tests.rewriting import edit_json, edit_tensors


@pytest.fixture(params=["roberta", "camembert"])
def folder(request, tmp_path):
    folder = shutil.copytree(parity.GOLDEN / "xlm-roberta", tmp_path / request.param)
    edit_json(folder / "config.json", model_type=request.param)
    return folder


def test_the_states_are_those_of_xlm_r(folder):
    encoder = lj.load_encoder(folder)
    assert encoder.architecture.model_type == folder.name
    assert parity.errors(encoder.model, parity.golden("xlm-roberta")).max() <= parity.MODEL


def test_torch_agrees_on_what_is_written(folder, tmp_path):
    torch = need("torch")
    from transformers import AutoModel

    encoder = lj.load_encoder(folder)
    parity.check_written(encoder, tmp_path / "written")
    model = AutoModel.from_pretrained(tmp_path / "written").eval()
    assert type(model).__name__ == {"roberta": "RobertaModel", "camembert": "CamembertModel"}[folder.name]
    case = parity.golden("xlm-roberta")
    with torch.no_grad():
        hidden, _ = parity.hidden_states(model, case["ids"], case["lengths"])
    assert parity.errors(encoder.model, case | {"hidden": hidden}).max() <= parity.MODEL


@pytest.mark.parametrize("folder", ["roberta"], indirect=True)
def test_byte_level_pieces(folder, tmp_path, rng):
    """Pieces of bytes, as RoBERTa has: what a letter outside ASCII is made of has ids, and no text is unknown."""
    learned = ByteLevelBPETokenizer()
    learned.train_from_iterator(["a cat sat"], vocab_size=262, special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    backend = Tokenizer.from_str(learned.to_str())
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    backend.save(str(folder / "tokenizer.json"))
    rows = backend.get_vocab_size()
    words = rng.standard_normal((rows, 32)).astype(np.float32)
    edit_tensors(folder, {"embeddings.word_embeddings.weight": words})
    edit_json(folder / "config.json", vocab_size=rows)

    encoder = lj.load_encoder(folder)
    assert tuple(encoder.tokenizer.specials) == (1, 1)
    [ids], _ = encoder.tokenizer(["sat “é"], 40)
    assert len(ids) == len("sat “é".encode()) + 2 - (len("sat") - len(learned.encode("sat").ids))
    assert learned.token_to_id("<unk>") not in ids
    parity.check_written(encoder, tmp_path / "written")
