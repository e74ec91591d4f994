"""Texts in the chat template of a checkpoint: as by hand, and as sentence-transformers 6 has them."""

import json
import shutil

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.tokens.pair_tokens import tokenize_pairs
from lsar_jax.tokens.word_tokens import tokenize_words
from tests.optional import need
from tests.parity import GOLDEN, TEXTS
from tests.rewriting import edit_json, write_modules

# The text is trimmed, as by many templates, and more follows it than the last token.
FLAT = "{% for m in messages %}[MASK]{{ m.role }} {{ m.content | trim }} end[PAD]{% endfor %}"
STRUCTURED = FLAT.replace("m.content |", "m.content[0].text |")
FORWARD = {"method": "forward", "method_output_name": "last_hidden_state"}
TEMPLATES = [("flat", FLAT), ("structured", STRUCTURED)]
EVERY = [*TEXTS, "a b c " * 30, "  two  spaces "]


def written(folder, form, template, name="qwen3", pooling="lasttoken"):
    shutil.copytree(GOLDEN / name, folder)
    edit_json(folder / "tokenizer_config.json", chat_template=template)
    modalities = {"text": FORWARD, "message": FORWARD | {"format": form}}
    edit_json(folder / "sentence_bert_config.json", modality_config=modalities, module_output_name="token_embeddings")
    write_modules(folder, "Transformer", "Pooling")
    edit_json(folder / "1_Pooling" / "config.json", embedding_dimension=32, pooling_mode=pooling)
    return folder


@pytest.mark.parametrize(("form", "template"), TEMPLATES)
def test_each_text_is_put_into_the_template(form, template, tmp_path):
    need("jinja2")
    encoder = lj.load_encoder(written(tmp_path / "chat", form, template))
    # The same text by hand, and no token besides.
    plain = shutil.copytree(GOLDEN / "qwen3", tmp_path / "plain")
    edit_json(plain / "tokenizer.json", post_processor=None)
    bare = lj.load_encoder(plain, pooling="last")
    for text in TEXTS[:3]:
        expected = bare.encode(f"[MASK]user {text.strip()} end[PAD]")
        np.testing.assert_array_equal(encoder.encode(text), expected)
        assert np.abs(lj.load_encoder(GOLDEN / "qwen3").encode(text) - expected).max() > 0.1
    prompted = bare.encode("[MASK]system be kind end[PAD][MASK]user a cat end[PAD]")
    np.testing.assert_array_equal(encoder.encode("a cat", prompt="be kind "), prompted)
    # What follows a text that is cut stays.
    ids = encoder.tokenizer(["a b c " * 30], 12)[0][0]
    tail = encoder.tokenizer.backend.encode(" end[PAD]", add_special_tokens=False).ids
    assert ids[-len(tail) :].tolist() == tail
    encoder.to_sentence_transformers(tmp_path / "written")
    np.testing.assert_array_equal(lj.load_encoder(tmp_path / "written").encode(EVERY), encoder.encode(EVERY))


@pytest.mark.parametrize(
    ("name", "pooling", "include_prompt"),
    [("qwen3", "lasttoken", True), ("gemma3", "mean", False), ("gemma3-causal", "weightedmean", True)],
)
@pytest.mark.parametrize(("form", "template"), TEMPLATES)
def test_as_sentence_transformers_saves_it(form, template, name, pooling, include_prompt, tmp_path):
    st, modules = need("sentence_transformers"), need("sentence_transformers.sentence_transformer.modules")
    template = template if name == "qwen3" else template.replace("[MASK]", "<bos>").replace("[PAD]", "<eos>")
    folder = shutil.copytree(GOLDEN / name, tmp_path / "bare")
    (folder / "chat_template.jinja").write_text(template)
    edit_json(folder / "tokenizer_config.json", bos_token="<bos>", eos_token="<eos>")
    if name == "qwen3":
        edit_json(folder / "tokenizer_config.json", bos_token=..., eos_token=...)
    pooled = modules.Pooling(32, pooling_mode=pooling, include_prompt=include_prompt)
    theirs = st.SentenceTransformer(modules=[modules.Transformer(str(folder)), pooled], device="cpu")
    theirs.save(str(tmp_path / "saved"))
    assert json.loads((tmp_path / "saved" / "sentence_bert_config.json").read_text())["modality_config"]["message"]
    encoder = lj.load_encoder(tmp_path / "saved")
    # So is a folder that it did not write.
    ids, bare = (x.tokenizer(EVERY, 40)[0] for x in (encoder, lj.load_encoder(folder, pooling="mean")))
    assert [row.tolist() for row in bare] == [row.tolist() for row in ids]
    encoder.to_sentence_transformers(tmp_path / "written")
    again = st.SentenceTransformer(str(tmp_path / "written"), device="cpu")
    for prompt in ("", "be kind: "):
        for model in (theirs, again):
            expected = model.encode(EVERY, prompt=prompt or None)
            np.testing.assert_allclose(encoder.encode(EVERY, prompt=prompt), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("form", "template", "message"),
    [
        ("auto", FLAT, "the format of message in modality_config 'auto' is not one of flat, structured"),
        ("flat", ..., "chat_template"),
        ("flat", "{{ strftime_now('%d') }}" + FLAT, "the chat template writes the day"),
    ],
)
def test_templates_that_are_refused(form, template, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        lj.load_encoder(written(tmp_path / "chat", form, template))


def test_what_has_no_place_in_a_template(tmp_path):
    need("jinja2")
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + FLAT
    encoder = lj.load_encoder(written(tmp_path / "chat", "flat", template))
    with pytest.raises(ValueError, match="the chat template fails with a prompt: no system"):
        encoder.encode("a", prompt="be kind: ")
    for tokenize, given in ((tokenize_pairs, [("a", "b")]), (tokenize_words, [["a", "b"]])):
        with pytest.raises(ValueError, match="puts each text into a chat template, which has no place for"):
            tokenize(encoder.tokenizer, given, 20)
