"""Tokenizers that would end the process, or fill its memory: one error."""

import json

import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

import lsar_jax as lj
from lsar_jax.tokens.hugging_face import fast_tokenizer
from tests.parity import GOLDEN


def made(folder, **parts):
    backend = Tokenizer.from_file(str(GOLDEN / "bert" / "tokenizer.json"))
    for name, part in parts.items():
        setattr(backend, name, part)
    backend.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder


EVIL = Regex("(a+)+$")


@pytest.mark.parametrize(
    "parts",
    [{"pre_tokenizer": pre_tokenizers.Split(EVIL, "isolated")}, {"normalizer": normalizers.Replace(EVIL, "b")}],
    ids=["pre_tokenizer", "normalizer"],
)
def test_a_regular_expression_that_never_ends(parts, tmp_path, capfd):
    tokenizer = fast_tokenizer(made(tmp_path, **parts), 64, 20)
    with pytest.raises(ValueError, match="the tokenizer fails on one of the sentences: .*retry-limit-in-match over"):
        tokenizer(["b", "a" * 40 + "b"], 20)
    # It can be used again.
    assert len(tokenizer(["b"], 20)[0][0]) == 3
    capfd.readouterr()


def test_a_prompt_of_megabytes(tiny, tmp_path):
    for give in (tiny.with_prompt, lambda prompt: tiny.encode("a", prompt=prompt)):
        with pytest.raises(ValueError, match="the prompt has 5000001 characters; at most 100000 are accepted"):
            give("a " * 2_500_000 + ":")
    tiny.to_sentence_transformers(tmp_path / "written")
    path = tmp_path / "written" / "config_sentence_transformers.json"
    path.write_text(json.dumps({"prompts": {"query": "a " * 2_500_000}, "default_prompt_name": "query"}))
    with pytest.raises(ValueError, match=f"{path.name}: prompts is .* strings of at most 100000 characters"):
        lj.load_encoder(path.parent)
