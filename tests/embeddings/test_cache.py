"""Distinct sentences are encoded once, and those on disk are read."""

import numpy as np

from eval.__main__ import main
from eval.report.page import provenance
from lsar_jax.embeddings.cache import encode_all
from lsar_jax.measures.results import read_results
from tests.conftest import TINY
from tests.eval.test_tasks import write_pairs
from tests.parity import GOLDEN

TEXTS = {("a", "en"): ["a cat", "the dog barks", "a cat"], ("b", "de"): ["die Katze", "a cat"], ("c", "fr"): ["no"]}
LANGUAGES = {key: key[1] for key in TEXTS}


def counted(monkeypatch, encoder):
    """The sentences of every call of the encoder."""
    seen, encode = [], type(encoder).encode_with_report

    def call(self, sentences, **options):
        seen.append(list(sentences))
        return encode(self, sentences, **options)

    monkeypatch.setattr(type(encoder), "encode_with_report", call)
    return seen


def test_only_what_is_not_on_disk_is_encoded(tiny, monkeypatch, tmp_path, capsys):
    seen = counted(monkeypatch, tiny)
    first = encode_all(tiny, TEXTS, (1, 2), 16, LANGUAGES, tmp_path)
    assert seen == [["a cat", "the dog barks", "die Katze", "no"]]
    again = encode_all(tiny, TEXTS, (2, 1), 16, LANGUAGES, tmp_path)
    assert len(seen) == 1
    for key, value in first.items():
        np.testing.assert_array_equal(again[key], value[::-1])
        np.testing.assert_allclose(value, tiny.encode(TEXTS[key], layers=(1, 2), max_length=16), rtol=1e-5, atol=1e-6)
    seen.clear()
    assert "using the cached embeddings of 4 of 4 sentences" in capsys.readouterr().out
    # A further sentence, and then a further layer.
    encode_all(tiny, {("a", "en"): ["a cat", "a bird"]}, (1, 2), 16, {("a", "en"): "en"}, tmp_path)
    encode_all(tiny, {("a", "en"): ["a cat", "no"]}, (1, 3), 16, {("a", "en"): "en"}, tmp_path)
    encode_all(tiny, {("a", "en"): ["a cat"]}, (1, 2), 8, {("a", "en"): "en"}, tmp_path)
    assert seen == [["a bird"], ["a cat", "no"], ["a cat"]]


def test_a_layer_that_lacks_a_text_that_another_has(tiny, tmp_path):
    """As after a run that was killed between the files of two layers, or between tasks with different layers."""
    first = encode_all(tiny, TEXTS, (1, 2), 16, LANGUAGES, tmp_path)
    again = encode_all(tiny, TEXTS, (1, 3), 16, LANGUAGES, tmp_path)
    next(iter(sorted(tmp_path.glob("*.safetensors")))).unlink()
    last = encode_all(tiny, TEXTS, (1, 2, 3), 16, LANGUAGES, tmp_path)
    for key, value in first.items():
        np.testing.assert_array_equal(last[key], np.stack([value[0], value[1], again[key][1]]))


def test_tasks_share_embeddings(tmp_path, printed):
    for code in ("deu", "fra"):
        write_pairs(tmp_path, code, "a cat\nthe dog barks\nno\n", f"{code} one\n{code} two\n{code} three\n")
    task = ["tatoeba", "--encoder", TINY, "--layers", "1", "--max-length", "16", "--data", tmp_path]
    task += ["--languages", "de", "fr", "--transforms", "original", "--cache", tmp_path / "cache"]
    values = []
    for out, said in (("first", "encoded 9 sentences"), ("second", "using the cached embeddings of 9 of 9 sentences")):
        assert said in printed(main, [*task, "--out", tmp_path / out])
        values.append([result.value for result in read_results(tmp_path / out / "results.jsonl")])
    assert values[0] == values[1]


def test_results_say_what_the_encoder_was_loaded_with(tmp_path):
    options = f"--encoder {GOLDEN / 'qwen3'} --transforms original --languages en de --max-length 16".split()
    for name, more in (("normed", ["--layers", "1", "--final-norm"]), ("cut", ["--layers", "3", "--dim", "8"])):
        assert main(["udhr", *options, *more, "--out", str(tmp_path / name)]) == 0
    normed, cut = (read_results(tmp_path / name / "results.jsonl")[0] for name in ("normed", "cut"))
    assert ((normed.dim, normed.final_norm), (cut.dim, cut.final_norm)) == ((None, True), (8, False))
    [line, _] = provenance([normed, cut])
    assert "final norm on all layers, float32" in line
