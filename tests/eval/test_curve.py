"""The curve over the number of sentences, on a tiny encoder."""

import json
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.methods import fit_methods
from eval.studies.curve import enough, read_texts
from lsar_jax.retrieval.search import nearest

ENCODER = ["--encoder", str(Path(__file__).parents[1] / "golden" / "bert"), "--layers", "2", "--max-length", "40"]
UDHR = lj.corpora.udhr(languages=["en", "de", "fr"])


@pytest.fixture
def folders(tmp_path):
    """Bitext of the first 30 paragraphs, Tatoeba of the rest."""
    for name in ("bitext", "tatoeba"):
        (tmp_path / name).mkdir()
    for code, three in (("de", "deu"), ("fr", "fra")):
        rows = [f"udhr\t{en}\t{other}\n" for en, other in zip(UDHR["en"][:30], UDHR[code][:30], strict=True)]
        (tmp_path / f"bitext/en-{code}.tsv").write_text("".join([*rows, "udhr\t\tnothing\n"]))
        for side, texts in (("eng", UDHR["en"]), (three, UDHR[code])):
            (tmp_path / f"tatoeba/tatoeba.{three}-eng.{side}").write_text("\n".join(texts[30:]) + "\n")
    return tmp_path


def run(folders, *options):
    out = folders / "out"
    data = ["--data", str(folders / "tatoeba"), "--bitext", str(folders / "bitext"), "--out", str(out)]
    assert main(["curve", *ENCODER, *data, *options]) == 0
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def test_one_line_a_method_and_count(folders, capsys, caplog):
    results = run(folders, "--counts", "1", "10", "--transforms", "original", "lsar", "language-whitening")
    assert [(r["transform"], r["fitted_on"], r["seed"]) for r in results] == [
        ("original", "", None),
        *(("lsar", f"bitext {count}", 0) for count in (1, 10, 30)),
        *(("language-whitening", f"bitext {count}", 0) for count in (10, 30)),
    ]
    assert {(r["layer"], r["n"], r["metric"]) for r in results} == {(2, 40, "en-xx mean over 2")}
    assert [r["parameters"] for r in results if r["transform"] == "lsar"] == [{"rank": 2}] * 3
    printed = capsys.readouterr().out
    assert "cannot fit language-whitening on 1 sentences per language" in printed
    assert "no fit │" in printed
    assert "left out 2 rows of" in caplog.text
    for suffix in ("png", "pdf"):
        assert (folders / f"out/curve.{suffix}").stat().st_size > 5000


def test_all_sentences_are_fit_methods_answer(folders, tiny):
    """With all of them the shuffle does not matter."""
    results = run(folders, "--counts", "10", "--transforms", "center", "whitening")
    x = {code: np.asarray(tiny.encode(texts, layers=(2,), max_length=40))[0] for code, texts in UDHR.items()}
    fit = {code: rows[:30] for code, rows in x.items()}
    # Different English texts are counted once.
    fit["en"] = fit["en"][np.sort(np.unique(UDHR["en"][:30], return_index=True)[1])]
    for method in fit_methods(fit, ("center", "whitening"), source=tiny.spec):
        found = [nearest(method(x["en"][30:], "en"), method(x[code][30:], code))[1][:, 0] for code in ("de", "fr")]
        expected = 100 * np.mean([np.asarray(row) == np.arange(20) for row in found])
        last = [r["value"] for r in results if r["transform"] == method.name][-1]
        assert last == pytest.approx(expected)


def test_seeds_draw_other_sentences(folders):
    results = run(folders, "--counts", "3", "--most", "5", "--seeds", "2", "--transforms", "center", "--queries", "15")
    assert [(r["fitted_on"], r["seed"]) for r in results] == [
        ("bitext 3", 0), ("bitext 3", 1), ("bitext 5", 0), ("bitext 5", 1)
    ]  # fmt: skip
    assert {r["n"] for r in results} == {30}
    assert (
        run(folders, "--counts", "3", "--most", "5", "--transforms", "center", "--queries", "15", "--overwrite")[0][
            "value"
        ]
        == (results[0]["value"])
    )


def test_enough():
    assert enough({25: 50.0, 100: 59.6, 400: 60.0}, 40.0) == 100
    assert enough({25: 59.5, 100: 59.0, 400: 60.0}, 40.0) == 25
    assert enough({25: 50.0, 100: 70.0, 400: 60.0}, 40.0) == 100
    assert enough({25: 59.8, 100: 60.0}, 59.9) == 100
    assert enough({25: 59.8, 100: 60.0}, 61.0) is None


def test_reads_bitext(folders):
    text = read_texts(folders / "bitext")
    assert list(text) == ["de", "fr", "en"]
    assert text["fr"] == [line.strip() for line in UDHR["fr"][:30]]
    assert set(text["en"]) == {line.strip() for line in UDHR["en"][:30]}
    with pytest.raises(FileNotFoundError, match=r"no en-xx.tsv for sw; it has de, fr. Put tables of tab-separated"):
        read_texts(folders / "bitext", ("de", "swh"))
    with pytest.raises(FileNotFoundError, match=r"absent has no en-xx.tsv.*--bitext"):
        read_texts(folders / "absent")
    (folders / "bitext/en-de.tsv").write_text("a\n")
    with pytest.raises(ValueError, match=r"en-de.tsv, line 1 has 1 tab-separated fields; expected 2 or 3"):
        read_texts(folders / "bitext")


@pytest.mark.parametrize("option", ["counts", "most", "queries", "seeds"])
def test_refuses_zero(option, capsys, tmp_path):
    assert main(["curve", f"--{option}", "0", "--out", str(tmp_path / "curve")]) == 1
    message = capsys.readouterr().err
    assert f"--{option} is 0; it must be a whole number from 1 to " in message
