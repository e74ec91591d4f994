"""Whole runs of ``lsar-jax report`` on text whose answer is known."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.cli import report as command
from lsar_jax.files import read_json
from lsar_jax.measures.compared_methods import FITTED
from lsar_jax.report import method_comparison
from lsar_jax.transforms.methods.lsar import fit_mean_then_lsar
from tests.eval.test_tasks import ENCODER, read
from tests.report.planted_text import LINES, planted, write

pytestmark = pytest.mark.usefixtures("fake")


def run(folder, out, *options, layers=("2",)):
    options = [str(folder), *ENCODER, "--max-length", "24", "--layers", *layers, *options, "--out", str(out)]
    return main(["report", *options])


def test_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lsar_jax.options.encoder.load_encoder", lj.load_encoder)
    for code, text in lj.corpora.udhr("fit", ["de", "en", "es", "fr"]).items():
        (tmp_path / f"{code}.txt").write_text("\n".join(text) + "\n")
    monkeypatch.setattr("lsar_jax.report.one_threshold.ERROR", 0.2)  # for which ten lines are enough
    out, methods = tmp_path / "out", ["--transforms", "original", "center", "mean+lsar"]
    (out / "figures").mkdir(parents=True)
    for name in ("accuracy-of-pairs", "mine"):
        (out / "figures" / f"{name}.svg").write_text("")
    assert run(tmp_path, out, "--aligned", "yes", *methods, layers=("3", "1", "2")) == 0
    results = read(out)
    assert {r["metric"] for r in results} == {"mAP", *(metric.name for metric in command._MEASURES)}
    # Not significantly worse than Centered, and it needs no language.
    best = max((r for r in results if r["metric"] == "mAP" and r["transform"] != "center"), key=lambda r: r["value"])
    printed = capsys.readouterr().out
    assert f"Recommended: layer {best['layer']}, {best['transform']}" in printed
    assert f" to {best['value']:.1f} (" in printed
    page = (out / "report.html").read_text()
    # Four measures with a legend, and the space by language and by meaning; none is a bitmap, or loaded.
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert page.count("<svg ") == len(drawn) - 1 + page.count('<svg id="curve"') == 9
    # Those of an earlier report, of pairs, are replaced; other files are left.
    assert {name for name in drawn if not re.fullmatch(command._FIGURE, name)} == {"mine.svg"}
    assert "accuracy-of-pairs.svg" not in drawn
    assert not re.search(r"<img|src=|data:image", page)
    # The recommended row stands out, with the interval that is printed.
    [row] = re.findall(r'<tr class="marked"><th scope="row">(.*?)</tr>', page)
    assert row.startswith(f"{best['transform']} rank={best['parameters']['rank']} (recommended)")
    saved = lj.Transform.load(out / "transform.safetensors")
    assert (saved.source.layer, saved.fits[-1].method) == (best["layer"], "lsar")
    assert dict(saved.fits[0].fitted_on) == {code: 25 for code in ("de", "en", "es", "fr")}
    calibration = lj.Calibration.load(out / "calibration.safetensors")
    calibration.check(saved)
    assert "One threshold for all pairs of languages" in page
    # From the moments, the transform is fitted again, and no sentence is encoded.
    moments, source = lj.load_moments(out / "moments.safetensors")
    again = fit_mean_then_lsar(moments, best["parameters"]["rank"], source=source)
    np.testing.assert_allclose(*(t.as_affine()[0] for t in (saved, again)), atol=1e-6)
    assert not (out / ".job").exists()
    # Once more, the report is replaced; other options are refused.
    assert run(tmp_path, out, "--transforms", "original", "center") == 1
    assert "was made with other options" in capsys.readouterr().err


def test_a_function_in_a_file_is_compared(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    monkeypatch.setitem(FITTED, "mine", None)  # it is taken out again
    write(tmp_path / "text", LINES)
    given = ["report", "text", *ENCODER, "--layers", "2", "--aligned", "yes", "--out", "out"]
    given += ["--transforms", "original", "lsar", "--method", "mine.py:fit_mine"]
    Path("mine.py").write_text("import lsar_jax as lj\n\n\ndef fit_mine(x):\n    return lj.transforms.fit_cbie(x)\n")
    assert main(given) == 0
    assert "mine" in {result["transform"] for result in read(Path("out"))}
    assert '<th scope="row">mine' in Path("out/report.html").read_text()
    Path("mine.py").write_text(Path("mine.py").read_text().replace("(x)\n", "(x, 2)\n"))
    assert "method was 'mine.py:fit_mine@" in refused(
        main, [*given, "--transforms", "original", "lsar", "--out", "out"]
    )


def test_report_on_vectors_of_any_model(tmp_path, capsys, rng, monkeypatch):
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    folder, out = write(tmp_path / "text", LINES), tmp_path / "out"
    (tmp_path / "vectors").mkdir()
    for code, rows in planted(rng, lines=len(LINES)).items():
        np.save(tmp_path / "vectors" / f"{code}.npy", rows)
    options = [str(folder), "--vectors", str(tmp_path / "vectors"), "--out", str(out)]
    assert main(["report", *options, "--transforms", "original", "center", "lsar"]) == 0
    printed = capsys.readouterr().out
    assert "Recommended: lsar rank=2. It raises search (mAP) from " in printed
    assert {(r["encoder"], r["pooling"]) for r in read(out)} == {(str(tmp_path / "vectors"), "")}
    assert lj.Transform.load(out / "transform.safetensors").source is None
    page = (out / "report.html").read_text()
    # They have no layer, no encoder and no pooling.
    assert not re.search(r"layer|pooling", printed + re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.S))
    assert [path.name for path in (out / "figures").iterdir()] == []
    assert main(["report", *options, "--overwrite", "--encoder", "bundled", "--max-length", "9"]) == 1
    assert "it must be left out: with --vectors nothing is encoded" in capsys.readouterr().err
    # All of it was chosen; another share of the own language may be kept.
    assert "1 (chosen)" in printed
    options += ["--overwrite", "--transforms", "original", "lsar", "--prefer", "own"]
    assert main(["report", *options, "-5"]) == 1
    assert "--prefer is own -5; it must be own and a percentage" in capsys.readouterr().err
    assert main(["report", *options, "101"]) == 1
    reach = re.search(r"own 101: lsar rank=2 keeps [\d.]+% to ([\d.]+)% .*; give at most \1", capsys.readouterr().err)
    assert main(["report", *options, str(float(reach[1]) - 40)]) == 0
    [strength] = re.findall(r"(0\.\d+) \(chosen\)", capsys.readouterr().out)
    part = lj.Transform.load(out / "transform.safetensors")
    assert part.name == f"lsar(rank=2) then at_strength(strength={strength})"
    assert f"{strength} (chosen)" in (out / "report.html").read_text()


def test_an_interrupted_report_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    monkeypatch.setattr(command, "_FIRST", 20)
    monkeypatch.setattr("lsar_jax.embeddings.cache._CHUNK", 32)
    lines = [f"{line} {word}" for line in LINES for word in ("is here", "is there")]
    folder, options = write(tmp_path / "text", lines), ["--transforms", "original", "center", "lsar"]
    assert run(folder, tmp_path / "whole", *options, layers=("0", "1", "2", "3")) == 0
    printed = capsys.readouterr().out
    assert "first answer, from 20 sentences a language at layers 1 2 3: layer" in printed
    assert len(re.findall(r"^layer \d: ", printed, re.M)) == 4
    # Ended in the second layer, after each of which measures are kept.
    measure, measured = method_comparison.measure_layer, []

    def killed(*arguments):
        measured.append(arguments[1].layer)
        if len(measured) == 5:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(method_comparison, "measure_layer", killed)
    assert run(folder, tmp_path / "parts", *options, layers=("0", "1", "2", "3")) == 130
    assert len(list((tmp_path / "parts" / ".job").glob("layer-*"))) == 1
    # From then on: kept measures are read, and results are known as this report's before the pictures are drawn.
    parts, again = tmp_path / "parts", []

    def counted(*arguments):
        again.append(not arguments[-2].is_file())
        return measure(*arguments)

    def drawn(*_):
        assert read_json(parts / "run.json", dict)["complete"] is False
        return {}

    monkeypatch.setattr(command.Report, "_first_answer", lambda *_: (measured[3], {}))
    monkeypatch.setattr(method_comparison, "measure_layer", counted)
    monkeypatch.setattr(command, "draw_space", drawn)
    capsys.readouterr()
    assert run(folder, parts, *options, layers=("0", "1", "2", "3")) == 0
    assert again.count(True) == 3
    assert "encoded" not in capsys.readouterr().out
    assert read(parts) == read(tmp_path / "whole")
    assert not (parts / ".job").exists()


def test_report_on_text_that_is_not_aligned(tmp_path, capsys, monkeypatch, fake):
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    # A paragraph has the direction of its number and, twice as long, that of its language.
    vectors = {
        paragraph: (np.eye(fake.dim)[-1 - number % 16] + 2 * np.eye(fake.dim)[of]).astype(np.float32)
        for of, code in enumerate(("de", "fr"))
        for number, paragraph in enumerate(lj.corpora.udhr("all")[code])
    }
    monkeypatch.setattr(fake, "_vector", lambda self, text, layer: vectors[text])
    for code, text in lj.corpora.udhr("fit", ["de", "fr"]).items():
        (tmp_path / f"{code}.txt").write_text("\n".join(text if code == "de" else text[:22]) + "\n")
    assert run(tmp_path, tmp_path / "out", "--transforms", "original", "center", layers=("1", "2")) == 0
    printed = capsys.readouterr().out
    assert "the 50 paragraphs of the Universal Declaration of Human Rights in 2 of its languages" in printed
    assert "Recommended: layer 1, center. It raises search (mAP on the UDHR) from " in printed
    assert "The best that needs no language is layer 1, original" in printed
    assert "Take care: 47 lines that are searched, over all languages, are sentences of the text, too" in printed
    assert {r["metric"] for r in read(tmp_path / "out")} > {"mAP on the UDHR"}
    # All layers are the same.
    assert "Not settled: layer 2 has methods that are not significantly worse by the Universal" in printed
    # Lines of the user's take its place.
    (tmp_path / "few").mkdir()
    for code, text in lj.corpora.udhr("all", ["de", "fr"]).items():
        (tmp_path / "few" / f"{code}.txt").write_text("\n".join(text[:20]) + "\n")
    few = ("--translations", str(tmp_path / "few"))
    assert run(tmp_path, tmp_path / "by-few", "--transforms", "original", "center", *few) == 0
    printed = capsys.readouterr().out
    assert "the search was in 20 translated lines in 2 languages" in printed
    scores = {r["value"] for r in read(tmp_path / "by-few") if r["metric"] == "mAP on the translations"}
    assert max(scores) > 2 * min(scores)
    with (tmp_path / "few" / "fr.txt").open("a") as file:
        file.write("une de trop\n")
    assert run(tmp_path, tmp_path / "none", "--transforms", "original", *few) == 1
    message = "as many lines in the files of two or more of de, fr, but has {'de': 20, 'fr': 21} different ones"
    assert message in capsys.readouterr().err
    # In languages that the declaration is not in, nothing is recommended.
    for old, new in (("de", "la"), ("fr", "cy")):
        (tmp_path / f"{old}.txt").rename(tmp_path / f"{new}.txt")
    assert run(tmp_path, tmp_path / "other", "--transforms", "original", "center") == 0
    assert "No recommendation: the text is not aligned" in capsys.readouterr().out
    assert not (tmp_path / "other" / "transform.safetensors").exists()
    assert (tmp_path / "other" / "report.html").exists()


def test_refusals(tmp_path, capsys):
    folder = write(tmp_path / "text", LINES)
    for options, message in (
        (["--transforms", "center"], "--transforms lacks original"),
        (["--count", "9"], "each with at least 20"),
    ):
        assert run(folder, tmp_path / "out", *options) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_layers_where_languages_do_not_differ_are_left_out(tmp_path, capsys, monkeypatch, fake):
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    vector = fake._vector
    monkeypatch.setattr(fake, "_vector", lambda self, text, layer: vector(self, text if layer else "", layer))
    write(tmp_path / "text", LINES)
    options = ["--aligned", "yes", "--transforms", "original", "lsar", "lsar-published"]
    # As with the first token, all sentences have the same embedding output.
    assert run(tmp_path / "text", tmp_path / "cls", *options, layers=()) == 0
    assert "left out layer 0, where all languages have the same mean" in capsys.readouterr().out
    assert {r["layer"] for r in read(tmp_path / "cls")} == {1, 2, 3}
    # An encoder whose own steps belong to its last layer is measured there.
    monkeypatch.setattr(fake, "projection", SimpleNamespace(kinds=()))
    options = ["--aligned", "yes", "--transforms", "original", "center"]
    assert run(tmp_path / "text", tmp_path / "labse", *options, layers=()) == 0
    assert "other layers need --pooling" in capsys.readouterr().out
    assert len({r["layer"] for r in read(tmp_path / "labse")}) == 1
