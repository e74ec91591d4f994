"""The geometry task on a tiny encoder; probes and XQuAD-R's reader by construction."""

import json

import numpy as np
import pytest

from eval.__main__ import main
from eval.data.xquad import XQUAD_R, read_xquad
from eval.figures.language_families import family
from eval.metrics import language_nmi, language_probe
from eval.tasks.geometry import tsne
from tests.eval.test_tasks import ENCODER, is_png, read, write_pairs
from tests.optional import need

FIGURES = ["layers", "means", "contributions", "outliers", "distance_by_rank", "pca", "tsne", "removed"]


def write_xquad(folder, sentences=3):
    folder.mkdir()
    for code in XQUAD_R:
        paragraphs = []
        for number in range(2):
            texts = [f"{code} {number} abc {i}." for i in range(sentences)]
            breaks, start = [], 0
            for text in texts:
                breaks.append([start, start + len(text)])
                start += len(text) + 1
            starts = [low + 2 for low, _ in breaks]
            qas = [
                {"id": f"{number}-{i}", "question": f"what {code} {i}?", "answers": [{"answer_start": start}]}
                for i, start in enumerate(starts)
            ]
            paragraphs.append({"context": " ".join(texts), "sentence_breaks": breaks, "qas": qas})
        (folder / f"{code}.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))


@pytest.mark.slow
def test_geometry(tmp_path, capsys, monkeypatch):
    need("lang2vec")
    monkeypatch.setattr("eval.tasks.answer_preference._QUESTIONS", 5)
    write_xquad(tmp_path / "xquad")
    options = ["--languages", "en", "deu", "fr", "es", "fi", "--layers", "3", "1", "--max-length", "16", "--seeds", "0"]
    names = ["--transforms", "original", "center", "lsar", "whitening", "cbie"]
    out = tmp_path / "out"
    command = ["geometry", *ENCODER, *options, *names, "--xquad", str(tmp_path / "xquad"), "--out", str(out)]
    assert main(command) == 0
    values = {(r["layer"], r["transform"], r["metric"]): r["value"] for r in read(out)}
    for layer in (1, 3):
        # A language has no mean left, so that the mean cosine within it is near 0.
        assert abs(values[layer, "center", "cosine within"]) < 0.2
        assert values[layer, "original", "cosine of all"] > 0.5
        assert abs(values[layer, "whitening", "cosine of all"]) < 0.1
        assert abs(values[layer, "original", "drawn"] - values[layer, "original", "cosine within"]) < 0.01
        assert values[layer, "original", "own in pool"] == pytest.approx(0.2)
        assert 0 <= values[layer, "original", "NMI"] <= 1
        assert 0 <= values[layer, "lsar", "XQuAD-R preference"] <= 1
        assert (layer, "lsar", "syntax, removed (cosine of syntax_knn, lang2vec 1.1.2)") in values
    for name in [*FIGURES, "answers"]:
        assert is_png(out / f"{name}.png"), name
        assert (out / f"{name}.pdf").is_file()
    lines = [json.loads(line) for line in (out / "dimensions.jsonl").read_text().splitlines()]
    assert [(line["layer"], line["language"]) for line in lines][:6] == [
        *((0, code) for code in ("de", "en", "es", "fi", "fr")),
        (1, "de"),
    ]
    assert all(len(line["contributions"]) == 10 for line in lines)
    assert {r["fitted_on"] for r in read(out) if r["metric"].startswith("XQuAD-R")} == {"", "udhr all"}
    printed = capsys.readouterr().out
    assert "Original embeddings by layer" in printed
    assert "is the best answer in the question's language?" in printed


def test_geometry_of_tatoeba(tmp_path):
    folder = tmp_path / "data"
    texts = [f"{a} {b} abc" for a in "abcde" for b in "fgh"]
    for code in ("deu", "fra", "spa"):
        write_pairs(folder, code, "\n".join(texts), "\n".join(code + text for text in texts))
    options = ["--text", "tatoeba", "--data", str(folder), "--languages", "de", "fr", "es", "--layers", "2"]
    command = ["geometry", *ENCODER, *options, "--transforms", "original", "cbie", "--out", str(tmp_path / "out")]
    assert main([*command, "--max-length", "16", "--seeds", "0"]) == 0
    results = read(tmp_path / "out")
    assert {tuple(r["languages"]) for r in results} == {("de", "en", "es", "fr")}
    # The English sides are one text: its fifteen sentences, not forty-five.
    assert {r["n"] for r in results} == {60}


def test_geometry_refusals(tmp_path, capsys):
    for options, message in (
        (["--languages", "en", "de"], "the languages are de, en; geometry needs at least three"),
        (["--text", "tatoeba", "--data", str(tmp_path / "nowhere")], "copy data/tatoeba/v1"),
    ):
        assert main(["geometry", *ENCODER, *options, "--out", str(tmp_path)]) == 1
        assert message in capsys.readouterr().err


def test_probes_on_planted_languages(rng):
    meaning = rng.standard_normal((60, 10))
    codes = ["de"] * 20 + ["en"] * 20 + ["fr"] * 20
    apart = meaning + 30 * np.repeat(np.eye(3, 10), 20, axis=0)
    np.testing.assert_allclose(language_nmi(apart, codes, (0, 1)), 1)
    groups = list(range(20)) * 3
    assert language_probe(apart, codes, groups) == 100
    assert language_nmi(meaning, codes)[0] < 0.2
    assert language_probe(meaning, codes, groups) < 60
    with pytest.raises(ValueError, match="3 languages for 60 embeddings"):
        language_nmi(apart, codes[:3])
    with pytest.raises(ValueError, match="five folds need five embeddings of each language; sv has 1"):
        language_probe(apart, [*codes[:-1], "sv"], groups)


def test_tsne_keeps_clusters_apart(rng):
    x = np.concatenate([rng.standard_normal((20, 60)), rng.standard_normal((20, 60)) + 50])
    plane = tsne(x)
    assert plane.shape == (40, 2)
    centres = plane[:20].mean(axis=0), plane[20:].mean(axis=0)
    assert np.linalg.norm(centres[0] - centres[1]) > 3 * plane[:20].std(axis=0).max()
    np.testing.assert_array_equal(plane, tsne(x))


def test_xquad(tmp_path):
    write_xquad(tmp_path / "x")
    read_in = read_xquad(tmp_path / "x", ("de", "en"))
    assert read_in["de"].answers == [0, 1, 2, 3, 4, 5]
    assert read_in["de"].candidates[4] == "de 1 abc 1."
    assert read_in["de"].ids == read_in["en"].ids
    # A start on the end of a break belongs to that sentence, as in the code of LIR and LSAR.
    path = tmp_path / "x" / "de.json"
    data = json.loads(path.read_text())
    paragraph = data["data"][0]["paragraphs"][0]
    paragraph["qas"][0]["answers"][0]["answer_start"] = paragraph["sentence_breaks"][0][1]
    path.write_text(json.dumps(data))
    assert read_xquad(tmp_path / "x", ("de",))["de"].answers[0] == 0
    paragraph["qas"][0]["answers"][0]["answer_start"] = 999
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"de.json, article 1, paragraph 1: the answer of '0-0' at 999 is not in any"):
        read_xquad(tmp_path / "x", ("de",))
    path.write_text("{}")
    with pytest.raises(ValueError, match="de.json, the top level is not in XQuAD-R's format: KeyError"):
        read_xquad(tmp_path / "x", ("de",))
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere; copy the folder xquad-r"):
        read_xquad(tmp_path / "nowhere")


def test_families():
    assert [family(code) for code in ("de", "zh-Hant", "ta", "ja")] == [
        "Germanic",
        "Sino-Tibetan",
        "Dravidian",
        "other",
    ]
