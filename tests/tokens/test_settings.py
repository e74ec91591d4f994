"""Settings beside tokenizer.json that change ids: they are those of transformers, or refused."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from lsar_jax.tokens.hugging_face import _AS_WRITTEN, fast_tokenizer
from tests.rewriting import edit_json

ROWS, LONGEST = 64, 20
TEXTS = [
    "the cat Is here",
    "",
    "Élan über café",
    "東京 は 東京京",
    "a [MASK] b <extra> c [PAD] d",
    "a <pad> b <extra>c </s> d ",
    "abc def ghi xyz " * 4 + "the end",
    "Ünï a\tb\nc",
    "a <mask> b<mask> <pad> <unk> c <eos> <|endoftext|> [UNK] [CLS]x a's 12",
    "a" * 101,
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(folder, lower=True):
    letters = [*"abcdefghitxyzTIEÉéüUÜ東京は", *(f"##{letter}" for letter in "abcdefghinrstuxyzé東京")]
    pieces = {piece: row for row, piece in enumerate([*SPECIAL, *letters])}
    backend = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(True, True, None, lower)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.add_special_tokens(SPECIAL)
    backend.save(str(folder / "tokenizer.json"))
    config = {"model_type": "bert", "vocab_size": ROWS, "pad_token_id": 0, "max_position_embeddings": LONGEST}
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower, "model_max_length": LONGEST}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


EXTRA = {"content": "<extra>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        *(("tokenizer_config.json", changes) for changes in (
            {}, {"do_lower_case": False}, {"do_lower_case": ...}, {"strip_accents": False}, {"truncation_side": "left"},
            {"model_max_length": ..., "max_len": 10}, {"additional_special_tokens": ["<extra>"]},
            {"extra_special_tokens": {"more_token": "<extra>"}}, {"cls_token": "[MASK]"}, {"unk_token": "a"},
            {"added_tokens_decoder": {"60": EXTRA | {"special": True}}}, {"pad_token": "<extra>"},
        )),
        ("added_tokens.json", {"<extra>": 60}),
        ("special_tokens_map.json", {"sep_token": "[MASK]"}),
        ("tokenizer.json", {"added_tokens": []}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["BertTokenizer", "PreTrainedTokenizerFast", "MPNetTokenizer", ...])
def test_ids_are_those_of_transformers(kind, file, changes, tmp_path):
    folder = bert(tmp_path)
    edit_json(folder / "tokenizer_config.json", tokenizer_class=kind)
    edit_json(folder / file, **changes)
    theirs = AutoTokenizer.from_pretrained(folder)
    length = min(theirs.model_max_length, LONGEST)
    ours = fast_tokenizer(folder, ROWS, LONGEST)
    assert ours.max_length == length
    ids = [row.tolist() for row in ours(TEXTS, length)[0]]
    assert ids == theirs(TEXTS, truncation=True, max_length=length)["input_ids"]
    # As it is written for others.
    ours.save(folder / "written.json")
    written = Tokenizer.from_file(str(folder / "written.json"))
    written.enable_truncation(length, direction=ours.side)
    assert [written.encode(text).ids for text in TEXTS] == ids


@pytest.mark.parametrize("name", _AS_WRITTEN)
def test_transformers_is_not_needed_where_it_takes_the_file_as_it_is(name, tmp_path, monkeypatch):
    changes = {"tokenizer_class": name, "pad_token": "[PAD]", "sep_token": "[SEP]", "do_lower_case": ...}
    edit_json(bert(tmp_path) / "tokenizer_config.json", **changes)
    edit_json(tmp_path / "special_tokens_map.json", pad_token="a")
    expected = [row.tolist() for row in fast_tokenizer(tmp_path, ROWS, LONGEST)(TEXTS, LONGEST)[0]]
    theirs = AutoTokenizer.from_pretrained(tmp_path)(TEXTS, truncation=True, max_length=LONGEST)
    assert theirs["input_ids"] == expected
    monkeypatch.setattr("lsar_jax.tokens.hugging_face._build", None)
    assert [row.tolist() for row in fast_tokenizer(tmp_path, ROWS, LONGEST)(TEXTS, LONGEST)[0]] == expected


def test_sentence_transformers_lower_cases_all_but_special_tokens(tmp_path):
    tokenizer = fast_tokenizer(bert(tmp_path, lower=False), ROWS, LONGEST)
    edit_json(tmp_path / "sentence_bert_config.json", do_lower_case=True)
    lower = fast_tokenizer(tmp_path, ROWS, LONGEST)
    texts = ["The Cat [MASK] Élan", "the cat [MASK] élan"]
    (expected,) = tokenizer(texts[1:], LONGEST)[0]
    for ids in lower(texts, LONGEST)[0]:
        np.testing.assert_array_equal(ids, expected)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("tokenizer_config.json", {"split_special_tokens": True}, "split_special_tokens is true"),
        ("tokenizer_config.json", {"truncation_side": "middle"}, "middle"),
        ("tokenizer_config.json", {"extra_special_tokens": 5}, "no tokenizer could be loaded from"),
        ("tokenizer_config.json", {"added_tokens_decoder": ["a"]}, "no tokenizer could be loaded from"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"60": "a"}}, "no tokenizer could be loaded from"),
        ("tokenizer_config.json", {"tokenizer_class": [1]}, "no tokenizer could be loaded from"),
        ("special_tokens_map.json", {"cls_token": 2}, "no tokenizer could be loaded from"),
        ("sentence_bert_config.json", {"tokenizer_args": 5}, "tokenizer_args is 5, which is not supported"),
        ("sentence_bert_config.json", {"tokenizer_args": {"do_lower_case": False}}, "args is {'do_lower_case': False}"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"max_length": 8}}}, "kwargs is {'text'"),
    ],
)
def test_settings_that_are_refused(file, changes, message, tmp_path):
    edit_json(bert(tmp_path) / file, **changes)
    with pytest.raises(ValueError, match=message):
        fast_tokenizer(tmp_path, ROWS, LONGEST)
