"""Each task from the command line, on a tiny encoder; and on the real one where data is at hand."""

import json
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.data.tatoeba import XTREME_36, read_pairs
from eval.methods import Method
from eval.task import Setting
from eval.tasks.tatoeba import tatoeba
from tests.eval.test_published import check_published_metrics

ENCODER = ["--encoder", str(Path(__file__).parents[1] / "golden" / "bert")]
DATA = Path(__file__).parents[2] / "data" / "tatoeba"


def read(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def is_png(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


def test_udhr(tmp_path, capsys):
    languages = ["--languages", "en", "deu", "fr", "es"]
    layers = ["--layers", "1", "3", "--ranks", "2", "3", "--max-length", "24"]
    assert main(["udhr", *ENCODER, *languages, *layers, "--out", str(tmp_path)]) == 0
    results = read(tmp_path)
    methods = [
        ("original", {}),
        ("center", {}),
        ("lir", {"components": 1}),
        ("lsar", {"rank": 2}),
        ("lsar", {"rank": 3}),
    ]
    assert [(r["transform"], r["parameters"]) for r in results if r["metric"] == "mAP" and r["layer"] == 1] == methods
    assert {(r["layer"], r["metric"]) for r in results} == {
        (layer, metric) for layer in (1, 3) for metric in ("mAP", "accuracy into en")
    }
    for r in results:
        assert (r["task"], r["encoder"], r["pooling"], r["dtype"], r["n"]) == (
            "udhr",
            "bert",
            "mean",
            "float32",
            100 if r["metric"] == "mAP" else 75,
        )
        assert r["languages"] == ["de", "en", "es", "fr"]
        assert r["revision"].startswith("sha256:")
        assert 0 < r["value"] <= 100
        assert r["versions"]["jax"]
        assert r["seed"] is None
        assert "4 x cpu" in r["device"]
        assert r["fitted_on"] == ("" if r["transform"] == "original" else "udhr fit")
        fitted = {} if r["transform"] == "original" else dict.fromkeys(["de", "en", "es", "fr"], 25)
        assert r["fitted_languages"] == fitted
        text = {"fit_on": "udhr", "fit_count": 10_000, "fit_languages": "tested", "parallel": None}
        assert r["options"] == {"languages": ["en", "deu", "fr", "es"], **text}
    assert is_png(tmp_path / "space-dark.png")
    assert is_png(tmp_path / "methods.png")


def write_pairs(folder, code, english, other):
    folder.mkdir(exist_ok=True)
    (folder / f"tatoeba.{code}-eng.eng").write_text(english)
    (folder / f"tatoeba.{code}-eng.{code}").write_text(other)


def test_tatoeba(tmp_path, capsys):
    folder = tmp_path / "data"
    write_pairs(folder, "deu", "a cat\nthe dog barks\nno\n", "a cat\nthe dog barks\nno\n")
    write_pairs(folder, "mal", "a cat\nno\n", "no\na cat\n")
    arguments = [
        "--data",
        str(folder),
        "--layers",
        "0",
        "--languages",
        "ml",
        "de",
        "--max-length",
        "24",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(["tatoeba", *ENCODER, *arguments]) == 0
    values = {(r["transform"], r["metric"]): r["value"] for r in read(tmp_path / "out")}
    # German is a copy, so all are found; the two sentences of Malayalam are swapped, so none is.
    assert values["original", "en-de accuracy"] == 100
    assert values["original", "en-ml accuracy"] == 0
    assert values["original", "en-xx mean over 1"] == 100
    assert values["original", "en-xx mean over 2"] == 50
    # There is no text in Malayalam to fit on: what is shared is tested on it all the same.
    assert values["center", "en-xx mean over 1"] == 100
    assert ("center", "en-ml accuracy") not in values
    assert values["lsar", "en-xx mean over 1"] == values["lsar", "xx-en mean over 1"] == 100
    assert values["lsar", "en-xx mean over 1 unseen"] == values["lsar", "en-ml accuracy"] == 0
    assert is_png(tmp_path / "out" / "methods.png")
    assert "Tatoeba" in capsys.readouterr().out
    check_published_metrics("tatoeba", {metric for _, metric in values})


def test_tatoeba_fitted_on_the_evaluated_sentences(tmp_path):
    folder = tmp_path / "data"
    english = [f"{who} {does} {what}" for who in ("a cat", "we") for does in ("see", "go") for what in "abcd"]
    write_pairs(folder, "deu", "\n".join(english), "\n".join(english))
    write_pairs(folder, "fra", "\n".join(english[:15]), "\n".join(text[::-1] for text in english[:15]))
    names = ["original", "center", "lsar", "whitening", "cbie", "mean+lsar", "leace"]
    arguments = ["--data", str(folder), "--layers", "0", "--languages", "de", "fr", "--max-length", "24"]
    command = ["tatoeba", *ENCODER, *arguments, "--fit-on", "evaluated", "--transforms", *names]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    results = read(tmp_path / "out")
    values = {(r["transform"], r["metric"]): r["value"] for r in results}
    # German is a copy of English: whatever is fitted on both sides leaves them the same.
    for name in ("original", "center", "lsar", "language-whitening", "cbie", "mean+lsar", "leace"):
        assert values[name, "en-de accuracy"] == 100 or name == "cbie"
        assert (name, "en-xx mean over 2") in values
    assert {r["fitted_on"] for r in results if r["transform"] != "original"} == {"the evaluated sentences"}
    whitening = next(r for r in results if r["transform"] == "language-whitening")
    assert whitening["parameters"] == {"eps": 1e-8, "absolute": 1}
    # One English of both files: Centered takes its mean over 31 sentences.
    encoder = lj.load_encoder(ENCODER[1], layer=0)
    x = {"en": encoder.encode([*english, *english[:15]]), "fr": encoder.encode([text[::-1] for text in english[:15]])}
    center = lj.transforms.fit_center(x)
    _, found = lj.retrieval.nearest(center(encoder.encode(english[:15]), "en"), center(x["fr"], "fr"))
    expected = 100 * np.mean(np.asarray(found)[:, 0] == np.arange(15))
    assert values["center", "en-fr accuracy"] == expected


def test_every_layer_in_one_run(tmp_path, capsys):
    languages = ["--languages", "en", "de", "fr"]
    names = ["--transforms", "original", "lsar", "--ranks", "1", "2"]
    assert main(["udhr", *ENCODER, *languages, "--layers", *names, "--max-length", "16", "--out", str(tmp_path)]) == 0
    results = [r for r in read(tmp_path) if r["metric"] == "mAP"]
    assert [r["layer"] for r in results] == [layer for layer in range(4) for _ in range(3)]
    assert "mAP by layer" in capsys.readouterr().out
    assert is_png(tmp_path / "sweep.png")
    assert not (tmp_path / "methods.png").exists()


def test_seeds_are_results_of_their_own(tmp_path, capsys):
    options = [
        "--languages",
        "en",
        "de",
        "fr",
        "--layers",
        "1",
        "--max-length",
        "16",
        "--ranks",
        "2",
        "--fit-seeds",
        "0",
        "3",
    ]
    names = ["--transforms", "original", "cbie", "lsar"]
    assert main(["udhr", *ENCODER, *options, *names, "--out", str(tmp_path)]) == 0
    results = [r for r in read(tmp_path) if r["metric"] == "mAP"]
    assert [(r["transform"], r["seed"]) for r in results] == [
        ("original", None), ("cbie", 0), ("cbie", 3), ("lsar", None)
    ]  # fmt: skip
    assert {str(r["parameters"]) for r in results if r["transform"] == "cbie"} == {"{'components': 12}"}
    assert capsys.readouterr().out.count("cbie components=12") == 1


def test_tatoeba_direction(tmp_path):
    write_pairs(tmp_path, "deu", "a\nb\nc\n", "a\nb\nc\n")
    task = tatoeba(tmp_path, languages=("de",))
    english = np.eye(3, dtype=np.float32)
    # Each English vector finds its German one; the second German one would find the first English.
    german = np.array([[1, 0, 0], [1, 0.9, 0], [0, 0.2, 1]], np.float32)
    setting = Setting(lj.EncoderSpec("bundled", "", 1, "mean", "float32"), True, ("de", "en"), (), "")
    first, *_ = task.scores({("en", "de"): english, ("xx", "de"): german}, Method("original", {}, None), setting)
    assert (first.metric, first.value, first.n) == ("en-de accuracy", 100, 3)


def test_tatoeba_data_that_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="copy data/tatoeba/v1 of"):
        read_pairs(tmp_path / "nowhere", ["de"])
    write_pairs(tmp_path / "data", "deu", "one\ntwo\n", "eins\n")
    with pytest.raises(FileNotFoundError, match="has no files for fr; it has de"):
        read_pairs(tmp_path / "data", ["de", "fr"])
    with pytest.raises(ValueError, match="has 2 English lines but 1 lines in de"):
        read_pairs(tmp_path / "data", ["deu"])
    write_pairs(tmp_path / "data", "deu", "one\ntwo\n", "eins\n\n")
    with pytest.raises(ValueError, match="tatoeba.deu-eng.deu, line 2 is blank"):
        read_pairs(tmp_path / "data", ["deu"])


def test_an_error_is_one_line(tmp_path, capsys, monkeypatch):
    # Results of the demo may lie in the folder that the tests run in.
    monkeypatch.chdir(tmp_path)
    assert main(["tatoeba", *ENCODER, "--data", str(tmp_path / "nowhere")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: there is no folder")
    assert error.count("\n") == 1
    assert main(["udhr", "--encoder", str(tmp_path / "x")]) == 1
    assert main(["udhr", *ENCODER, "--layers", "7"]) == 1
    assert "layer is 7; it must be" in capsys.readouterr().err
    assert main(["udhr", *ENCODER, "--layers", "1", "--ranks", "40", "--max-length", "8", "--out", str(tmp_path)]) == 1
    assert "--ranks has 40, but the means of 40 languages span at most 39 dimensions" in capsys.readouterr().err
    assert main(["udhr", *ENCODER, "--layers", "1", "1"]) == 1
    assert main(["udhr", *ENCODER, "--ranks", "2", "3", "2"]) == 1
    assert "--ranks 2 3 2 contains a value twice; remove duplicates" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["udhr", "tatoeba", "geometry"])
def test_help(task, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([task, "--help"])
    assert stopped.value.code == 0
    assert "--layers" in capsys.readouterr().out


def test_the_bundled_encoder_keeps_its_numbers(tmp_path):
    # What make demo does, in seconds: four blocks, four languages, 16 tokens. Printed by this command on jax 0.10.2,
    # 2026-11-23.
    languages = ["--languages", "en", "de", "zh", "sw"]
    arguments = ["--layers", "4", "--ranks", "3", "--max-length", "16", "--out", str(tmp_path)]
    assert main(["udhr", *languages, *arguments]) == 0
    values = {(r["transform"], r["metric"]): r["value"] for r in read(tmp_path)}
    expected = {
        "original": (5.65, 62.67),
        "center": (50.12, 68.00),
        "lir": (50.11, 68.00),
        "lsar": (46.68, 66.67),
    }
    for method, (precision, accuracy) in expected.items():
        assert values[method, "mAP"] == pytest.approx(precision, abs=0.1)
        assert values[method, "accuracy into en"] == pytest.approx(accuracy, abs=1.4)  # one query of 75


@pytest.mark.skipif(not DATA.is_dir(), reason="data/tatoeba is not there")
def test_tatoeba_of_laser():
    pairs = read_pairs(DATA, XTREME_36)
    assert list(pairs) == list(XTREME_36)
    sizes = {code: len(english) for code, (english, _) in pairs.items()}
    # XTREME's sizes: all 1,000 but these.
    small = {"jv": 205, "te": 234, "ta": 307, "sw": 390, "th": 548, "kk": 575, "ml": 687, "ka": 746}
    assert {code: size for code, size in sizes.items() if size != 1000} == small
