"""Tasks from the command line: what is fitted, tested and recorded."""

import json
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.data.tatoeba import XTREME_36, read_pairs
from eval.evaluate import evaluate
from eval.fit_options import FitOptions
from eval.fitting import Fitting, choose
from eval.task import Score, Task
from lsar_jax.measures.metric import Metric

ENCODER = ["--encoder", str(Path(__file__).parents[1] / "golden" / "bert")]
DATA = Path(__file__).parents[2] / "data" / "tatoeba"
THREE = ["udhr", *ENCODER, "--languages", "en", "de", "fr"]


def read(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def evaluated(out, *command):
    """Runs a task that writes into ``out``; returns its results."""
    assert main([*map(str, command), "--out", str(out)]) == 0
    return read(out)


def by_metric(results, field=None):
    """Results, or one of their fields, by method and metric."""
    return {(r["transform"], r["metric"]): r[field] if field else r for r in results}


def is_png(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


def write_pairs(folder, code, english, other):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"tatoeba.{code}-eng.eng").write_text(english)
    (folder / f"tatoeba.{code}-eng.{code}").write_text(other)


def test_udhr(tmp_path, capsys, fake):
    options = ["--languages", "en", "deu", "fr", "es", "--layers", "1", "3", "--fit-seeds", "0", "3"]
    names = ["--transforms", "original", "center", "cbie", "lsar"]
    results = evaluated(tmp_path, "udhr", *ENCODER, *options, *names)
    # The table shows each value with its interval, and of several seeds the mean.
    printed, first = capsys.readouterr().out, results[0]
    assert f" {first['value']:.1f} ({first['low']:.1f} to {first['high']:.1f}) │" in printed
    assert printed.count("cbie components=12") == 1
    # Without --ranks, half and all of the dimensions that the means of four languages span.
    lsar = [("lsar", {"rank": rank}, None) for rank in (2, 3)]
    methods = [("original", {}, None), ("center", {}, None), *(("cbie", {"components": 12}, seed) for seed in (0, 3))]
    expected = [
        (layer, *method, metric)
        for layer in (1, 3)
        for method in (*methods, *lsar)
        for metric in ("mAP", "accuracy into en")
    ]
    assert [(r["layer"], r["transform"], r["parameters"], r["seed"], r["metric"]) for r in results] == expected
    for r in results:
        assert (r["task"], r["encoder"], r["pooling"], r["dtype"]) == ("udhr", "fake", "mean", "float32")
        assert r["n"] == (100 if r["metric"] == "mAP" else 75)
        assert r["languages"] == ["de", "en", "es", "fr"]
        assert r["revision"].startswith("sha256:")
        assert r["low"] <= r["value"] <= r["high"] <= 100
        assert r["versions"]["jax"]
        assert "4 x cpu" in r["device"]
        fitted = r["transform"] != "original"
        assert r["fitted_on"] == ("udhr fit" if fitted else "")
        assert r["fitted_languages"] == (dict.fromkeys(["de", "en", "es", "fr"], 25) if fitted else {})
        text = {"fit_on": "udhr", "fit_count": 10_000, "fit_languages": "tested", "parallel": None, "move": "all"}
        assert r["options"] == {"languages": ["en", "deu", "fr", "es"], **text}
    for name in ("space", "space-dark", "methods"):
        assert is_png(tmp_path / f"{name}.png")


def test_tatoeba_fitted_on_the_evaluated_sentences(tmp_path, fake):
    folder = tmp_path / "data"
    english = [f"{who} {does} {what}" for who in ("a cat", "we") for does in ("see", "go") for what in "abcd"]
    french = [f"le {text[::-1]}" for text in english[:15]]
    write_pairs(folder, "deu", "\n".join(english), "\n".join(english))
    write_pairs(folder, "fra", "\n".join(english[:15]), "\n".join(french))
    names = ["original", "center", "lsar", "whitening", "cbie", "mean+lsar", "leace"]
    options = ["--data", str(folder), "--layers", "0", "--languages", "de", "fr", "--fit-on", "evaluated"]
    results = evaluated(tmp_path / "out", "tatoeba", *ENCODER, *options, "--transforms", *names)
    values = by_metric(results, "value")
    # German is a copy of English: whatever is fitted on both sides leaves them the same.
    for name in ("original", "center", "lsar", "language-whitening", "mean+lsar", "leace"):
        assert values[name, "en-de accuracy"] == 100
    assert ("cbie", "en-xx mean over 2") in values
    assert {r["fitted_on"] for r in results if r["transform"] != "original"} == {"the evaluated sentences"}
    whitening = next(r for r in results if r["transform"] == "language-whitening")
    assert whitening["parameters"] == {"eps": 1e-8, "absolute": 1}
    assert whitening["fitted_languages"] == {"de": 16, "en": 31, "fr": 15}
    # One English of both files: Centered takes its mean over 31 sentences.
    encoder = fake(0)
    x = {"en": encoder.encode([*english, *english[:15]]), "fr": encoder.encode(french)}
    center = lj.transforms.fit_center(x)
    _, found = lj.retrieval.nearest(center(encoder.encode(english[:15]), "en"), center(x["fr"], "fr"))
    expected = 100 * np.mean(np.asarray(found)[:, 0] == np.arange(15))
    assert values["center", "en-fr accuracy"] == pytest.approx(expected)
    # The anisotropy, by hand for all pairs but translations; a whitened file has none.
    unit = {n: v / np.linalg.norm(v, axis=1, keepdims=True) for n, v in enumerate((x["en"], x["fr"], x["en"][:16]))}
    of_french, of_german = unit[0][16:] @ unit[1].T, unit[2] @ unit[2].T
    cosines = [c[~np.eye(len(c), dtype=bool)].mean() for c in (of_french, of_german)]
    assert values["original", "anisotropy mean over 2"] == pytest.approx(np.mean(cosines), abs=0.01)
    assert abs(values["language-whitening", "anisotropy mean over 2"]) < 0.1


def test_every_layer_in_one_run(tmp_path, capsys, fake):
    options = ["--layers", "--transforms", "original", "lsar", "--ranks", "1", "2"]
    results = [r for r in evaluated(tmp_path, *THREE, *options) if r["metric"] == "mAP"]
    assert [r["layer"] for r in results] == [layer for layer in range(4) for _ in range(3)]
    assert "mAP by layer" in capsys.readouterr().out
    assert is_png(tmp_path / "sweep.png")
    assert not (tmp_path / "methods.png").exists()


def planted(scores, parts=1, **fields):
    """A task on a language and English, whose parts have two sentences each."""
    texts = [{(f"test {n}", code): ["a b", "c d"] for code in ("de", "en")} for n in range(parts)]
    return Task("planted", "Planted", ["de", "en"], texts, scores, **fields)


def test_parts_are_scored_one_by_one(fake, all_progress, capsys):
    met = []

    def scores(x, method, setting):
        met.append((setting.spec.layer, method.name, *sorted({group for group, _ in x})))
        yield Score(Metric("m"), float(len(met)), ["de"], 1)

    task = planted(scores, 2, means=lambda found: [Score(Metric("mean"), np.mean([s.value for s in found]), ["de"], 2)])
    fitting = choose(task, FitOptions(transforms=("original", "center")))
    results, _ = evaluate(task, fake(), (1, 3), fitting)
    assert met == [(at, name, f"test {n}") for n in (0, 1) for at in (1, 3) for name in ("original", "center")]
    assert [(r.layer, r.transform, r.metric, r.value) for r in results[:3]] == [
        (1, "original", "m", 1.0), (1, "original", "m", 5.0), (1, "original", "mean", 3.0)
    ]  # fmt: skip
    assert len(results) == 12
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("scored ")]
    assert lines[0] == "scored original at layer 1 on part 1 of 2 (12%)"
    assert [line.partition("%")[0] for line in lines[-2:]] == [
        f"scored {name} at layer 3 on part 2 of 2 ({share}" for name, share in (("original", 87), ("center", 100))
    ]


def test_methods_of_one_layer_are_in_memory_at_a_time(fake, monkeypatch):
    order, fit = [], Fitting.methods
    monkeypatch.setattr(
        Fitting, "methods", lambda self, x, spec: order.append(f"fit {spec.layer}") or fit(self, x, spec)
    )
    task = planted(lambda x, method, setting: order.append(f"score {setting.spec.layer}") or ())
    evaluate(task, fake(), (1, 3), choose(task, FitOptions(transforms=("center",))))
    assert order == ["fit 1", "score 1", "fit 3", "score 3"]


def test_a_bank_is_not_of_the_evaluated_sentences():
    options = FitOptions(fit_on="evaluated", scores=("csls",))
    with pytest.raises(ValueError, match="--fit-on evaluated cannot be combined with --scores csls"):
        choose(planted(None, evaluated="by language", searches=True), options)
    # A task that does not search has no bank.
    assert choose(planted(None, evaluated="by language"), options).options.scores == ("cosine",)


def test_tatoeba_data_that_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="copy data/tatoeba/v1 of"):
        read_pairs(tmp_path / "nowhere", ["de"])
    write_pairs(tmp_path / "data", "deu", "one\ntwo\n", "eins\n")
    with pytest.raises(FileNotFoundError, match="has no files for fr; it has de"):
        read_pairs(tmp_path / "data", ["de", "fr"])
    with pytest.raises(ValueError, match="tatoeba.deu-eng.deu has 1 lines and .*eng has more; line i belongs"):
        read_pairs(tmp_path / "data", ["deu"])
    write_pairs(tmp_path / "data", "deu", "one\ntwo\n", "eins\n\n")
    with pytest.raises(ValueError, match="tatoeba.deu-eng.deu, line 2 is blank"):
        read_pairs(tmp_path / "data", ["deu"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["tatoeba", "--data", "nowhere"], "there is no folder nowhere"),
        (["tatoeba", "--data", "tfds:tatoeba/de"], "there is no prepared dataset at tatoeba/de nor at"),
        (["tatoeba", "--data", "hub:some/set"], "on the command line, hub:some/set@REVISION"),
        (["bitext", "--data", "data", "--split", "dev"], "--split dev applies only to hub:ID and tfds:NAME"),
        (["udhr", "--layers", "7"], "layer is 7; it must be"),
        (["udhr", "--layers", "1", "1"], "--layers 1 1 contains a value twice; remove duplicates"),
        (["udhr", "--fit-seeds", "0", "0"], "--fit-seeds 0 0 contains a value twice"),
        (["udhr", "--layers", "1", "--ranks", "40"], "--transforms has lsar: rank is 40; it must be a whole"),
        (["udhr", "--layers", "1", "--components", "0"], "components is 0; it must be a whole number from 1 to 32"),
        (["udhr", "--transforms", "cbie", "--fit-seeds", "-1"], "seed is -1; it must be a whole number from 0"),
        (["udhr", "--languages", "en"], "udhr needs at least 2 languages; it has en"),
        (["udhr", "--transforms", "linear"], "which is fitted on parallel text; name some with --parallel"),
        (["udhr", "--fit-on", "evaluated"], "--fit-on evaluated cannot be used with udhr, or with --seen"),
        (["udhr", "--fit-on", "nowhere"], "no folder nowhere; --fit-on is udhr, a folder, tfds:NAME/{} or hub:ID"),
        (["udhr", "--transforms", "sample-whitening"], "sample-whitening, which udhr cannot fit; omit it"),
        (["udhr", "--fit-count", "0"], "count is 0; it must be at least 1"),
    ],
)
def test_an_error_is_one_line(options, message, tmp_path, refused, monkeypatch, fake):
    monkeypatch.chdir(tmp_path)  # results of the demo may lie in the folder that the tests run in
    monkeypatch.setattr(fake, "encode", lambda *_, **__: pytest.fail("text was encoded first"))
    error = refused(main, [*options, *(["--encoder", "fake"] if "--layers" in options else ["--layers", "2"])])
    assert error.startswith("error: ")
    assert message in error


@pytest.mark.skipif(not DATA.is_dir(), reason="data/tatoeba is not there")
def test_tatoeba_of_laser():
    english = {code: texts for code, (texts, _) in read_pairs(DATA, XTREME_36).items()}
    sizes = {code: len(texts) for code, texts in english.items()}
    assert list(sizes) == list(XTREME_36)
    # XTREME's sizes: all 1,000 but these.
    small = {"jv": 205, "te": 234, "ta": 307, "sw": 390, "th": 548, "kk": 575, "ml": 687, "ka": 746}
    assert {code: size for code, size in sizes.items() if size != 1000} == small
    # The papers' numbers of Tatoeba, and of its text, are of so many.
    assert (sum(sizes.values()), len({text for texts in english.values() for text in texts})) == (31_692, 28_234)
