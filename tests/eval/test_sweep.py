"""The sweep: every layer, method and rank, equal to fits one by one."""

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.methods import Method, fit_methods
from eval.studies.sweep import truncated
from eval.tasks.udhr import pool_precision
from tests.compilations import count_compilations
from tests.eval.test_tasks import ENCODER, is_png, read

LANGUAGES = ["en", "de", "fr", "es", "fi"]


def test_sweep(tmp_path, capsys):
    names = ["original", "center", "mean", "lir", "lsar", "mean+lsar", "outliers", "whitening", "leace", "cbie"]
    options = ["--languages", *LANGUAGES, "--ranks", "1", "4", "9", "--components", "1", "2", "--max-length", "24"]
    command = ["sweep", *ENCODER, *options, "--transforms", *names, "--out", str(tmp_path), "--baseline"]
    assert main(command) == 0
    results = read(tmp_path)
    assert {r["layer"] for r in results} == {0, 1, 2, 3}
    first = [(r["transform"], r["parameters"]) for r in results if r["layer"] == 0]
    assert first == [
        ("original", {}),
        ("center", {}),
        ("mean", {}),
        ("lir", {"components": 1}),
        ("lir", {"components": 2}),
        ("lsar", {"rank": 1}),
        ("lsar", {"rank": 4}),
        ("mean+lsar", {"rank": 1}),
        ("mean+lsar", {"rank": 4}),
        ("outliers", {"sigma": 3.0}),
        ("whitening", {"eps": 1e-3}),
        ("leace", {}),
        ("cbie", {"components": 12}),
    ]
    printed = capsys.readouterr().out
    for words in ("peak memory", "encoding the last layer alone", "encoding all 4 layers"):
        assert words in printed
    assert is_png(tmp_path / "sweep.png")
    assert (tmp_path / "sweep.pdf").read_bytes()[:5] == b"%PDF-"

    # One of them alone, by hand.
    encoder = lj.load_encoder(ENCODER[1])
    fit, test = (
        {code: encoder.encode(texts, layers=(2,), max_length=24)[0] for code, texts in part.items()}
        for part in (lj.corpora.udhr("fit", LANGUAGES), lj.corpora.udhr("test", LANGUAGES))
    )
    lsar = lj.transforms.fit_lsar(fit, 1)
    expected = pool_precision({code: np.asarray(lsar(x)) for code, x in test.items()}).mean
    found = {(r["transform"], r["layer"], str(r["parameters"])): r["value"] for r in results}
    value = found["lsar", 2, "{'rank': 1}"]
    assert value == pytest.approx(expected, abs=0.05)


def test_the_first_columns_are_the_fit_of_a_smaller_rank(rng):
    x = {code: rng.standard_normal((12, 20)).astype(np.float32) + 3 * rng.standard_normal(20) for code in LANGUAGES}
    x = {code: rows.astype(np.float32) for code, rows in x.items()}
    spec = lj.EncoderSpec("e", "1", 0, "mean", "float32")
    for name in ("lsar", "lir", "mean+lsar"):
        [largest] = fit_methods(x, (name,), {"rank": (4,), "components": (4,)}, source=spec)
        for count, got in zip((1, 3), truncated(largest, (1, 3)), strict=True):
            [expected] = fit_methods(x, (name,), {"rank": (count,), "components": (count,)}, source=spec)
            assert got.label == expected.label
            assert got.transform.fits == expected.transform.fits
            np.testing.assert_allclose(got(x["de"], "de"), expected(x["de"], "de"), atol=1e-4)
    with pytest.raises(AssertionError, match="the original has no subspace"):
        list(truncated(Method("original", {}, None), (1,)))


def test_layers_share_their_programs(rng):
    x = {code: rng.standard_normal((30, 20)).astype(np.float32) for code in LANGUAGES}
    specs = [lj.EncoderSpec("e", "1", layer, "mean", "float32") for layer in (1, 2)]
    names = ("center", "lir", "lsar", "whitening", "cbie")
    first, second = (fit_methods(x, names, {"rank": (2,)}, source=spec) for spec in specs)
    for method in first:
        method(x["de"][:10], "de")
    with count_compilations() as compiled:
        for method in second:
            method(x["de"][:10], "de")
    assert compiled == []


def test_refusals(tmp_path, capsys):
    for options, message in (
        (["--languages", "en"], "--languages is en; give at least two different languages"),
        (["--components", "26"], "--components is 26; it must be 1 to 25"),
        (["--languages", "en", "xx"], "'xx'"),
    ):
        assert main(["sweep", *ENCODER, *options, "--out", str(tmp_path)]) == 1
        assert message in capsys.readouterr().err
