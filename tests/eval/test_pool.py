"""Preference in a pool by construction: languages apart, and languages together."""

import numpy as np
import pytest

from eval.__main__ import main
from eval.data.multilingual_pool import read_lines
from eval.tasks.multilingual_pool import measures
from eval.tasks.udhr import HALF
from tests.eval.test_tasks import ENCODER, is_png, read

pytestmark = pytest.mark.usefixtures("fake")


def score(x, seeds):
    codes = [code for group, code in x if group == "pool"]
    return {(found.metric.name, found.seed): found for found in measures(x, codes, seeds)}


def test_languages_apart_and_together(rng):
    meaning = rng.standard_normal((20, 24)).astype(np.float32)
    noise = {code: 0.01 * rng.standard_normal((20, 24)).astype(np.float32) for code in ("de", "en", "fr")}
    offsets = dict(zip(noise, 30 * np.eye(3, 24, dtype=np.float32), strict=True))
    together = {("pool", code): meaning + noise[code] for code in noise}
    apart = {("pool", code): meaning + offsets[code] for code in noise}
    values = score(together, seeds=(0, 1))
    assert values["mAP", None].value == pytest.approx(100)
    # Two of the first ten are its translations, whose languages are the two others.
    assert values["spread", None].value == pytest.approx(100 / 60)
    assert values["NMI", 0].value < 30
    assert {seed for metric, seed in values if metric == "NMI"} == {0, 1}
    assert ("preference", None) not in values
    values = score(apart, seeds=(0,))
    assert values["mAP", None].value < 15
    assert values["top 10", None].value == 100
    assert values["NMI", 0].value == pytest.approx(100)
    # Questions beside the languages they ask in.
    asked = {("asked", code): apart["pool", code] + noise[code] for code in noise}
    values = score(apart | asked, seeds=(0,))
    assert values["preference", None].value == 100
    assert values["preference", None].n == 60


def test_pool(tmp_path):
    for folder in ("pool", "asked"):
        (tmp_path / folder).mkdir()
        for code in ("de", "eng", "fr"):
            (tmp_path / folder / f"{code}.txt").write_text("".join(f"{a} {b} {code}\n" for a in "abcd" for b in "efg"))
    options = ["--data", str(tmp_path / "pool"), "--queries", str(tmp_path / "asked"), "--layers", "2"]
    assert main(["pool", *ENCODER, *options, "--out", str(tmp_path / "out")]) == 0
    metrics = {r["metric"] for r in read(tmp_path / "out")}
    assert metrics == {"mAP", "spread", "top 10", "pool share", "preference", "NMI"}
    assert is_png(tmp_path / "out" / "methods.png")


def test_data_that_is_wrong(tmp_path, capsys):
    for code, text in (("de", "a\nb\n"), ("en", "a\n")):
        (tmp_path / f"{code}.txt").write_text(text)
    with pytest.raises(ValueError, match=r"differ in their number of lines: .'de': 2, 'en': 1"):
        read_lines(tmp_path, None)
    (tmp_path / "en.txt").write_text("a\n \n")
    with pytest.raises(ValueError, match=", en, line 2 is blank"):
        read_lines(tmp_path, None)
    (tmp_path / "en.txt").write_text("a\nb\n")
    assert main(["pool", *ENCODER, "--data", str(tmp_path), "--out", str(tmp_path)]) == 1
    assert "pool needs at least 3 languages" in capsys.readouterr().err
    asked = tmp_path / "asked"
    asked.mkdir()
    for code in ("de", "en"):
        (asked / f"{code}.txt").write_text("a\n")
    command = ["pool", *ENCODER, "--data", str(tmp_path), "--queries", str(asked), "--out", str(tmp_path)]
    assert main(command) == 1
    assert "has 1 lines per language but " in capsys.readouterr().err


def test_the_pool_of_the_declaration_is_not_fitted_on(tmp_path):
    options = ["--languages", "de", "en", "fr", "--layers", "2", "--seeds", "0"]
    assert main(["pool", *ENCODER, *options, "--out", str(tmp_path)]) == 0
    results = read(tmp_path)
    assert {r["fitted_on"] for r in results if r["transform"] != "original"} == {"udhr fit"}
    assert {tuple(r["fitted_languages"].values()) for r in results if r["transform"] == "lsar"} == {(25, 25, 25)}
    fit, pool = HALF.read(["de"], 100)["de"], read_lines("udhr", None, ("de",))[0]["de"]
    assert not set(fit) & set(pool)
