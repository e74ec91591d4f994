"""Prompts by name and as text, in the library and in commands."""

import json
import shutil

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main as evaluate
from lsar_jax.__main__ import main
from tests.optional import need
from tests.parity import GOLDEN, TEXTS

# That of the checkpoint is named query.
INSTRUCTION = "Ab: a\nc:"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = shutil.copytree(GOLDEN / "labse", tmp_path_factory.mktemp("named") / "labse")
    settings = {"prompts": {"query": "ab: ", "document": "", "task-1": INSTRUCTION}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    return lj.load_encoder(folder)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [("query", "ab: "), ("document", ""), ("task-1", INSTRUCTION), ("ab: ", "ab: "), ("", ""), ("ab:", "ab:"),
     ("two words", "two words"), ("查询", "查询")],
)  # fmt: skip
def test_a_prompt_is_a_name_or_text(encoder, prompt, text):
    expected = encoder.encode([text + sentence for sentence in TEXTS])
    np.testing.assert_array_equal(encoder.encode(TEXTS, prompt=prompt), expected)
    named = encoder.with_prompt(prompt)
    assert (named.prompt, named.spec.prompt) == (text, text)
    np.testing.assert_array_equal(named.encode(TEXTS), expected)
    assert encoder.moments(TEXTS, prompt=prompt).source == named.spec


def test_a_word_is_never_text(encoder, tiny):
    message = (
        "prompt 'qeury' is one word, which is read as the name of a prompt, and those of this encoder are query, "
        "document, task-1; text before a sentence ends in another sign, such as 'qeury: '"
    )
    for call in (lambda: encoder.encode(TEXTS, prompt="qeury"), lambda: encoder.with_prompt("qeury")):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match="and this encoder has none"):
        tiny.with_prompt("query")


@pytest.mark.parametrize("prompt", ["query", INSTRUCTION, "new: "])
def test_it_is_exported(encoder, prompt, tmp_path):
    named = encoder.with_prompt(prompt)
    named.to_sentence_transformers(tmp_path / "written")
    expected = named.encode(TEXTS)
    again = lj.load_encoder(tmp_path / "written")
    np.testing.assert_array_equal(again.encode(TEXTS), expected)
    assert encoder.prompts.items() <= again.prompts.items()
    model = need("sentence_transformers").SentenceTransformer(str(tmp_path / "written"), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
    theirs = model.encode(TEXTS, prompt_name="task-1")
    np.testing.assert_allclose(theirs, encoder.encode(TEXTS, prompt="task-1"), atol=1e-5)


@pytest.mark.parametrize("prompts", [{"default": "old: "}, {}, {"query": "new: "}])
def test_the_names_that_prompts_are_exported_by(encoder, tmp_path, prompts):
    named = encoder.with_prompt("new: ")
    named.prompts = prompts
    named.to_sentence_transformers(tmp_path / "written")
    again = lj.load_encoder(tmp_path / "written")
    new = {} if "query" in prompts else {"default_" if prompts else "default": "new: "}
    assert (again.prompts, again.prompt) == (prompts | new, "new: ")


def test_commands_take_it(encoder, folder, tmp_path, refused):
    files = {code: tmp_path / f"{code}.txt" for code in ("de", "en")}
    for path, part in zip(files.values(), (TEXTS[:4], TEXTS[2:]), strict=True):
        path.write_text("\n".join(text or "a" for text in part), encoding="utf-8")
    options = ["--encoder", str(folder), "--prompt", "query"]
    assert main(["encode", str(files["de"]), str(tmp_path / "out"), *options]) == 0
    spec = encoder.with_prompt("query").spec
    assert lj.embeddings.open(tmp_path / "out").spec == spec
    assert main(["fit", "center", str(tmp_path / "center"), "--texts", *map(str, files.values()), *options]) == 0
    assert lj.Transform.load(tmp_path / "center").source == spec
    moved = ["apply", str(tmp_path / "center"), str(files["de"]), str(tmp_path / "moved.npy"), "--language", "de"]
    assert main([*moved, *options]) == 0
    assert "prompt 'ab: ', not ''" in refused(main, [*moved, *options[:2], "--overwrite"])
    mined = ["mine", *map(str, files.values()), str(tmp_path / "pairs.tsv"), *options]
    assert main([*mined, "--k", "1"]) == 0


def test_a_backslash_in_a_command_is_refused(folder, tmp_path, refused):
    (tmp_path / "a.txt").write_text("a\n")
    options = ["encode", str(tmp_path / "a.txt"), str(tmp_path / "out"), "--encoder", str(folder)]
    message = refused(main, [*options, "--prompt", "Instruct: a\\nQuery:"])
    assert "--prompt has a backslash and an n; in bash, write a line break as $'Instruct: a\\nQuery:'" in message


def test_evaluations_record_it(folder, tmp_path):
    options = ["--encoder", str(folder), "--transforms", "original", "--languages", "en", "de", "--max-length", "16"]
    out = ["--layers", "3", "--out", str(tmp_path / "out")]
    assert evaluate(["udhr", *options, "--prompt", "query", *out]) == 0
    results = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert {result["prompt"] for result in results} == {"ab: "}
