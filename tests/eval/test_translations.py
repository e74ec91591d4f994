"""Held-out bitext, code-switching, and languages that a transform never saw."""

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.data.dictionaries import read_dictionary
from eval.task import Method
from eval.tasks.bitext import _with_errors
from eval.tasks.bitext import bitext as held_out_task
from eval.tasks.code_switch import switch
from lsar_jax.corpora.parallel_text import held_out, read_bitext
from tests.dataset_hub import write_rows
from tests.eval.test_tasks import ENCODER, by_metric, evaluated, read, write_pairs
from tests.fake_encoder import FakeEncoder
from tests.mining.test_pairs import brute_force
from tests.reference import unit
from tests.train.runs import write_bitext

pytestmark = pytest.mark.usefixtures("fake")
OPTIONS = [*ENCODER, "--layers", "2"]


@pytest.fixture
def bitext(tmp_path):
    write_bitext(tmp_path / "bitext", ("de", "fr", "th"), 40)
    return tmp_path / "bitext"


def test_bitext(bitext, tmp_path):
    (bitext / "en-th.tsv").rename(bitext / "en-gn.tsv")
    options = ["--data", str(bitext), "--held-out", "15", "--transforms", "original", "center", "lsar"]
    results = by_metric(evaluated(tmp_path, "bitext", *OPTIONS, *options, "--fit-on", "train", "--seen", "de", "fr"))
    assert results["original", "en-de accuracy"]["n"] == 15
    assert results["lsar", "en-xx mean over 3"]["n"] == 45
    assert results["lsar", "en-xx mean over 3"]["low"] <= results["lsar", "en-xx mean over 3"]["value"]
    # What is of one language cannot be used on another; what is shared can.
    assert results["lsar", "xx-en mean over 1 unseen"]["value"] == results["lsar", "gn-en accuracy"]["value"]
    assert ("center", "en-gn accuracy") not in results
    # Of languages that encoders have not seen, of the others, and differences of the directions.
    for name, codes in {"mean over 3": ("de", "fr", "gn"), "mean of gn": ("gn",), "mean but gn": ("de", "fr")}.items():
        into, out = (results["lsar", f"{way} {name}"]["value"] for way in ("xx-en", "en-xx"))
        assert out == pytest.approx(np.mean([results["lsar", f"en-{code} accuracy"]["value"] for code in codes]))
        gap = results["lsar", f"xx-en {name} minus en-xx"]
        assert (gap["value"], gap["direction"]) == (pytest.approx(into - out), "neither")
    assert ("lsar", "en-xx mean of gn and ay") not in results
    assert results["lsar", "en-de accuracy"]["fitted_on"] == "bitext but the held-out pairs, up to 10000 a language"
    assert not [name for name, _ in results if "csls" in name]
    # By hand: fitted on the 25 pairs that are left, of which English is there once.
    train, held = held_out(read_bitext(bitext, ["fr"], "--data")["fr"], 15)
    german, _ = held_out(read_bitext(bitext, ["de"], "--data")["de"], 15)
    encoder = FakeEncoder(2)
    text = {"fr": [pair[1] for pair in train], "de": [pair[1] for pair in german], "en": [pair[0] for pair in train]}
    x = {code: encoder.encode(of) for code, of in text.items()}
    center = lj.transforms.fit_center(x)
    sides = [center(encoder.encode([pair[side] for pair in held]), code) for side, code in ((0, "en"), (1, "fr"))]
    for direction, (a, b) in (("en-fr", sides), ("fr-en", sides[::-1])):
        _, found = lj.retrieval.nearest(a, b)
        expected = 100 * np.mean(np.asarray(found)[:, 0] == np.arange(15))
        assert results["center", f"{direction} accuracy"]["value"] == pytest.approx(expected)


def test_xsim_equals_brute_force(rng):
    english, other = rng.normal(size=(2, 30, 12)).astype(np.float32)
    x = {("en", "de"): english, ("xx", "de"): english + 0.7 * other}
    scores = {s.metric: s.value for s in _with_errors(lambda *_: (), x, Method("original", {}), None)}
    pairs = brute_force(x["xx", "de"], english, 4, "ratio", "forward")
    expected = 100 * np.mean([i != j for i, j in pairs])
    assert len(pairs) == 30
    values = {m.name: (v, m.direction) for m, v in scores.items()}
    assert 0 < expected < 100
    assert values["xsim de-en"] == values["xsim over 1"] == (pytest.approx(expected), "lower")


def test_scores_by_local_scaling(bitext, tmp_path):
    """The bank of each method is the text of the fit as the method moves it, in the languages that it takes."""
    options = ["--data", bitext, "--held-out", "15", "--transforms", "original", "center", "--scores", "csls"]
    results = by_metric(evaluated(tmp_path, "bitext", *OPTIONS, *options, "--fit-on", "train", "--seen", "de", "fr"))
    assert {name for name, metric in results if "accuracy" in metric} == {"original+csls", "center+csls"}
    assert results["original+csls", "en-de accuracy"]["fitted_on"].startswith("bitext but the held-out pairs")
    pairs, encoder = read_bitext(bitext, ["de", "fr"], "--data"), FakeEncoder(2)
    parts = {code: held_out(of, 15) for code, of in pairs.items()}
    x = {code: encoder.encode([other for _, other in train]) for code, (train, _) in parts.items()}
    x["en"] = encoder.encode([english for english, _ in parts["de"][0]])
    english, german = (encoder.encode([pair[side] for pair in parts["de"][1]]) for side in (0, 1))
    center = lj.transforms.fit_center(x)
    for name, sides, bank in (
        ("original", (english, german), np.concatenate(list(x.values()))),
        ("center", (center(english, "en"), center(german, "de")), np.concatenate([center(x[c], c) for c in x])),
    ):
        a, b, c = map(unit, (*sides, bank))
        scores = 2 * a @ b.T - np.sort(b @ c.T, axis=1)[:, -10:].mean(axis=1)
        expected = 100 * (scores.argmax(axis=1) == np.arange(15)).mean()
        assert results[f"{name}+csls", "en-de accuracy"]["value"] == pytest.approx(expected)


def test_saved_transforms_on_languages_they_were_not_fitted_on(bitext, tmp_path, rng, printed, refused):
    source = FakeEncoder(2).spec

    def center(name, *codes):
        path = tmp_path / name
        lj.transforms.fit_center({code: rng.normal(size=(9, 32)) for code in codes}, source=source).save(path)
        return ["--saved", str(path)]

    command = ["bitext", *OPTIONS, "--data", str(bitext), "--held-out", "15", "--transforms", "original"]
    command += ["--out", str(tmp_path)]
    shown = " ".join(printed(main, [*command, *center("fitted.safetensors", "en", "de", "fr")]).split())
    assert "fitted.safetensors was not fitted on th: its rows leave them out" in shown
    results = by_metric(read(tmp_path))
    assert results["saved center", "en-xx mean over 2"]["languages"] == ["de", "fr"]
    assert ("saved center", "en-th accuracy") not in results
    assert results["original", "en-xx mean over 3"]["n"] == 45
    # Nothing is left without English, or without any of the other languages.
    for name, codes in {"no-english": ["de", "fr", "th"], "english": ["en", "sw"]}.items():
        error = refused(main, [*command, *center(f"{name}.safetensors", *codes), "--overwrite"])
        assert f"{name}.safetensors was not fitted on " in error


def test_every_language_of_the_text_can_be_fitted_on(bitext, tmp_path, printed):
    # The UDHR has no text in Luxembourgish.
    (bitext / "en-lb.tsv").write_text((bitext / "en-de.tsv").read_text())
    command = ["bitext", *OPTIONS, "--data", str(bitext), "--held-out", "15", "--transforms", "original", "lsar"]
    command += ["--fit-on", "udhr", "--fit-count", "2", "--ranks", "3"]
    for languages, count in (("tested", 4), ("all", 40)):
        shown = printed(main, [*command, "--fit-languages", languages, "--out", tmp_path / languages])
        told = "--fit-on udhr has no text in lb: transforms are not fitted on these languages"
        # Both means are shown: over the languages that were fitted on, and over all.
        assert all(said in " ".join(shown.split()) for said in (told, "en-xx mean over 3", "en-xx mean over 4"))
        [one] = {tuple(r["fitted_languages"]) for r in read(tmp_path / languages) if r["transform"] == "lsar"}
        assert len(one) == count
    # Languages that are tested, but not to be fitted on, stay out.
    results = evaluated(tmp_path / "seen", *command, "--seen", "de", "--fit-languages", "all")
    [one] = {tuple(r["fitted_languages"]) for r in results if r["transform"] == "lsar"}
    assert len(one) == 38


def test_english_that_is_held_out_anywhere_is_not_fitted_on(bitext):
    # With half as many pairs, of the sentences the first 15 by their hash are others.
    path = bitext / "en-de.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[::2]))
    task = held_out_task(bitext, held_out=15)
    held = {code: set(english) for (side, code), english in task.parts[0].items() if side == "en"}
    # Those of the smaller half are held out everywhere where they are among the first.
    assert held["fr"] == held["th"]
    assert len(held["de"] & held["fr"]) >= 5
    fit = task.own_text["train"].read(["de", "en"], 100)
    assert not set.union(*held.values()) & set(fit["en"])
    assert len(fit["de"]) == 5


def test_bitext_refusals(bitext, tmp_path, refused):
    for options, message in (
        (["--held-out", "40"], "bitext, de: 40 pairs cannot be held out of 40 distinct ones"),
        (["--seen", "ru"], "--seen has ru, but there are pairs only for de, fr, th"),
        (["--fit-on", str(bitext)], "has no LANGUAGE.txt"),
        (["--languages", "ru"], "has no en-ru.tsv; it has de, fr, th"),
    ):
        command = ["bitext", *OPTIONS, "--data", str(bitext), "--held-out", "15"]
        assert message in refused(main, [*command, *options, "--out", str(tmp_path)])


def test_switch_replaces_words_and_nothing_else(rng):
    dictionary = {"hund": ["dog", "hound"], "l'eau": ["water"]}
    assert switch("Der Hund, 3 Hunde.", dictionary, 1.0, rng)[0] in ("Der dog, 3 Hunde.", "Der hound, 3 Hunde.")
    assert switch("L'eau!", dictionary, 1.0, rng) == ("water!", 1)
    assert switch("nichts davon", dictionary, 1.0, rng) == ("nichts davon", 0)
    # Words of any script are whole, composed or not.
    words = {"किताब": ["book"], "কত": ["how"], "தமிழ்": ["Tamil"], "été": ["summer"], "क": ["wrong"], "த": ["wrong"]}
    text = "किताब! কত কতা தமிழ் e\u0301te\u0301s E\u0301te\u0301 कि"
    assert switch(text, words, 1.0, rng) == ("book! how কতা Tamil e\u0301te\u0301s summer कि", 4)
    counts = [switch("hund " * 10, dictionary, 0.3, rng)[1] for _ in range(400)]
    # Binomial: mean 3, standard error 0.07.
    assert 2.7 < np.mean(counts) < 3.3


def test_code_switch(tmp_path, printed, refused, monkeypatch):
    monkeypatch.setattr("eval.tasks.code_switch._RATE", 1.0)
    texts = [f"{a} {b} c{a}" for a in "abcd" for b in "efgh"]
    write_pairs(tmp_path / "data", "deu", "\n".join(texts), "\n".join(texts))
    write_pairs(tmp_path / "data", "fra", "\n".join(texts), "\n".join(texts))
    for code in ("de", "ro", "nl"):
        write_rows(tmp_path, f"words/{code}-en.txt", ["A x", "a y", "e z"])
    # Romanian is not one of XTREME's languages, but one of the paper's; there are no pairs of Dutch.
    write_pairs(tmp_path / "data", "ron", "\n".join(texts), "\n".join(texts))
    data = ["--data", str(tmp_path / "data"), "--dictionaries", str(tmp_path / "words"), "--transforms", "original"]
    shown = printed(main, ["code-switch", *OPTIONS, *data, "--out", tmp_path / "out"])
    # 16 sentences: the four with a have a translation of it, the four with e too, one has both.
    assert "de: replaced 8 words in 7 of 16 sentences" in shown
    results = {r["metric"]: r for r in read(tmp_path / "out")}
    assert results["en-de accuracy"]["n"] == results["en-ro accuracy"]["n"] == 7
    assert "has no pairs of nl: left out, although there is a dictionary" in shown.replace("\n", " ")
    assert "en-fr accuracy" not in results
    error = refused(main, ["code-switch", *OPTIONS, *data, "--languages", "fr", "--out", tmp_path])
    assert "has no dictionary fr-en.txt; it has de, nl, ro; get it from" in error


def test_dictionaries_that_are_wrong(tmp_path):
    (tmp_path / "de-en.txt").write_text("hund dog\nkatze\n")
    with pytest.raises(ValueError, match="de-en.txt, line 2 is not a word and its translation: 'katze'"):
        read_dictionary(tmp_path, "de")
    (tmp_path / "de-en.txt").write_text("Hund dog\nhund Dog\nhund hound\nbei\tat home\n")
    assert read_dictionary(tmp_path, "de") == {"hund": ["dog", "hound"], "bei": ["at home"]}
    (tmp_path / "hi-en.txt").write_text("e\u0301te\u0301 summer\nअ\u00a0ब letters\n")
    assert read_dictionary(tmp_path, "hi") == {"\u00e9t\u00e9": ["summer"], "अ\u00a0ब": ["letters"]}
