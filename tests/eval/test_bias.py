"""The bias report: text by hand, planted best candidates, and a whole run on text whose answer is known."""

import html
import re

import numpy as np
import pytest

import lsar_jax as lj
from eval.__main__ import main
from eval.bias import command
from eval.bias.choice import choose
from eval.bias.measures import joined, measure_neutrality, measure_search, without
from lsar_jax.files import read_json
from lsar_jax.measures.ranking import pool_precision, probe_folds
from lsar_jax.measures.resampling import QueryScores
from lsar_jax.options.user_text import UserText, finds_lines, read_user_text
from lsar_jax.transforms.methods import fit_mean_then_lsar
from tests.eval.test_tasks import ENCODER, read

pytestmark = pytest.mark.usefixtures("fake")
CODES = ("de", "en", "fr")
LINES = [
    f"{first} {second}"
    for first in ("red", "blue", "green", "old", "new")
    for second in ("house", "car", "ship", "road", "tree")
]


def write(folder, lines, codes=CODES, ending=".txt"):
    folder.mkdir(exist_ok=True)
    for code in codes:
        (folder / f"{code}{ending}").write_text("".join(f"{code} {line}\n" if line else "\n" for line in lines))
    return folder


def aligned(x):
    """A text without words, of which only the embeddings are known."""
    lines = len(next(iter(x.values())))
    return UserText({c: [""] * lines for c in x}, {c: np.arange(lines) for c in x}, {}, True)


def planted(rng, lines=60, dim=24, apart=4.0):
    """Embeddings of the same meanings in three languages, each around a mean of its own."""
    meaning = rng.normal(size=(lines, dim))
    return {
        code: (meaning + 0.2 * rng.normal(size=meaning.shape) + apart * rng.normal(size=dim)).astype(np.float32)
        for code in CODES
    }


def test_aligned_files_keep_their_lines_together(tmp_path):
    folder = write(tmp_path / "text", [*LINES, "", LINES[0].upper(), "last line"])
    text = read_user_text(folder, (), 1000, "auto", 0)
    assert text.aligned
    # The blank line and the one that repeats another are left out in all languages.
    assert text.sentences["de"] == [f"de {line}" for line in (*LINES, "last line")]
    few = read_user_text(folder, (), 21, "yes", 1)
    assert [line.split(" ", 1)[1] for line in few.sentences["en"]] == [s.split(" ", 1)[1] for s in few.sentences["fr"]]
    folds = few.folds(4, 0)
    assert all((folds[code] == folds["de"]).all() for code in CODES)
    assert np.bincount(folds["de"]).tolist() == [6, 5, 5, 5]


def test_other_files_are_not_aligned(tmp_path):
    folder = write(tmp_path / "text", LINES)
    with (folder / "fr.txt").open("a") as file:
        file.write("fr one more\n")
    text = read_user_text(folder, (), 1000, "auto", 0)
    assert not text.aligned
    assert len(np.unique(np.concatenate(list(text.units.values())))) == sum(map(len, text.sentences.values())) == 76
    assert not read_user_text(write(tmp_path / "same", LINES), (), 1000, "no", 0).aligned
    with pytest.raises(ValueError, match=r"--aligned yes needs as many lines in every file, but they have \{'de': 25"):
        read_user_text(folder, (), 1000, "yes", 0)


def test_pairs_share_their_english_sentences(tmp_path):
    for code in ("de", "fr"):
        rows = [f"en {line}\t{code} {line}\n" for line in LINES[:22]]
        (tmp_path / f"en-{code}.tsv").write_text("".join(rows[: 22 if code == "de" else 20]))
    text = read_user_text(tmp_path, (), 1000, "auto", 0)
    assert {code: len(sentences) for code, sentences in text.sentences.items()} == {"en": 22, "de": 22, "fr": 20}
    for code, (english, other) in text.pairs.items():
        for e, o in zip(english, other, strict=True):
            assert text.sentences["en"][e].split(" ", 1)[1] == text.sentences[code][o].split(" ", 1)[1]
            assert text.units["en"][e] == text.units[code][o]
    # Each language has as many pairs in every fold, and an English sentence is in that of its translations.
    folds = text.folds(4, 0)
    assert np.bincount(folds["fr"]).tolist() == [5, 5, 5, 5]
    assert sorted(np.bincount(folds["de"])) == [5, 5, 6, 6]
    for code, (english, other) in text.pairs.items():
        assert (folds["en"][english] == folds[code][other]).all()
    with pytest.raises(ValueError, match="--languages names only English"):
        read_user_text(tmp_path, ("en",), 1000, "auto", 0)
    (tmp_path / "es.txt").write_text("uno\n")
    with pytest.raises(ValueError, match="has both a file per language and parallel text .en-de.tsv"):
        read_user_text(tmp_path, (), 1000, "auto", 0)


@pytest.mark.parametrize(
    ("lines", "codes", "message"),
    [
        (LINES[:19], CODES, r"has \{'de': 19, 'en': 19, 'fr': 19\} different sentences; .*--aligned no"),
        (LINES, ("de",), "different sentences; give two languages or more"),
        ([], (), "or it is empty; put a file per language there"),
    ],
)
def test_too_little_text(tmp_path, lines, codes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_user_text(write(tmp_path / "text", lines, codes), (), 1000, "auto", 0)


def test_files_that_are_not_aligned_are_found_out(rng):
    x = planted(rng, lines=100)
    assert finds_lines(x)
    assert not any(finds_lines(x | {code: rng.permutation(x[code])}) for code in CODES)


def test_search_of_held_out_lines_and_pairs(rng):
    x = planted(rng, apart=1.0)
    text = aligned(x)
    folds = text.folds(3, 0)
    parts = []
    for fold in range(3):
        held_out = {code: of == fold for code, of in folds.items()}
        part = {code: rows[held_out[code]] for code, rows in x.items()}
        parts.append(measure_search(part, text, held_out))
        np.testing.assert_array_equal(parts[-1].values, pool_precision(part).values)
        assert set(parts[-1].clusters) == set(np.flatnonzero(held_out["de"]))
    assert len(joined(parts).values) == 180
    # As pairs, of which French has only the first half; English row i translates row i.
    pairs = {"de": (np.arange(60), np.arange(60)), "fr": (np.arange(30), np.arange(30))}
    text = UserText(text.sentences, text.units, pairs, True)
    held_out = {code: np.arange(60) % 2 == 0 for code in CODES}
    found = measure_search({code: rows[::2] for code, rows in x.items()}, text, held_out)
    assert np.bincount(found.strata).tolist() == [60, 30]
    by_hand = [
        100.0 * np.mean([np.argmax(lj.retrieval.similarity(a[::2], b[::2]), axis=1) == np.arange(len(a[::2]))])
        for a, b in ((x["en"], x["de"]), (x["de"], x["en"]), (x["en"][:30], x["fr"][:30]), (x["fr"][:30], x["en"][:30]))
    ]
    assert found.mean == pytest.approx(np.mean(by_hand))


def test_neutrality_by_construction(rng):
    x = planted(rng, lines=200, apart=30.0)
    fit, test = ({code: rows[part] for code, rows in x.items()} for part in (slice(100), slice(100, None)))
    probed = probe_folds([code for code in CODES for _ in range(100)], [*range(100)] * 3)
    before = measure_neutrality(test, probed)
    assert (before.own, before.identified) == (100, 100)
    assert before.expected == pytest.approx(100 * 99 / 299)
    center = lj.transforms.fit_center(fit)
    after = measure_neutrality({c: np.asarray(center(r, c)) for c, r in test.items()}, probed)
    # Two of the ten neighbours are translations in the other languages; of the rest, a third is expected.
    assert 20 < after.own < 35
    assert abs(after.cosine) < 5 < before.cosine
    assert after.isoscore > 10 * before.isoscore


def test_moments_of_a_part_are_subtracted(rng):
    x = (rng.normal(size=(200, 24)) @ rng.normal(size=(24, 24)) + 50).astype(np.float32)
    whole, part, others = (
        lj.Moments.from_embeddings(rows, second_moment=True, precise=True) for rows in (x, x[:40], x[40:])
    )
    left = without(whole, part)
    assert left.count == 160
    np.testing.assert_allclose(left.mean, others.mean, rtol=1e-13)
    np.testing.assert_allclose(left.scatter, others.scatter, rtol=1e-11, atol=1e-11 * np.abs(others.scatter).max())


def test_the_best_candidate_is_chosen(rng):
    clusters, strata = np.repeat(np.arange(50), 4), np.tile(np.arange(2), 100)
    base = rng.uniform(20, 60, 200)
    noise = [rng.normal(0, 1, 200) for _ in range(3)]
    gains = (0.0, 10.0, 9.99)
    candidates = [QueryScores(base + gain + one, strata, clusters) for gain, one in zip(gains, noise, strict=True)]
    choice = choose(candidates)
    assert choice.best in (1, 2)
    assert choice.score.value == pytest.approx(candidates[choice.best].mean)
    assert choice.as_good() == [3 - choice.best]
    gain = choice.gains[0]
    assert gain.low < 10 < gain.high
    assert gain.high - gain.low < 1  # the difference is surer than the score, as queries are paired
    assert choice.score.high - choice.score.low > 2
    assert 0.2 < choice.again < 0.95


def test_within_a_tie_the_preferred_candidate_is_chosen(rng):
    base = rng.uniform(20, 60, 200)
    candidates = [QueryScores(base + gain + rng.normal(0, 1, 200)) for gain in (0, 10, 10.2, 13)]
    tied = choose(candidates[:3], [True, True, False])
    assert (tied.best, tied.top) == (1, 2)
    assert tied.score.value == pytest.approx(candidates[1].mean)
    assert tied.gains[2].value < 0 < tied.gains[2].high
    assert tied.as_good() == [2]
    assert tied.again > 0.7
    better = choose(candidates, [True, True, False, False])
    assert (better.best, better.top) == (3, 3)


def test_equal_candidates_are_seldom_called_worse(rng):
    # The best of fifty without a difference looks better than it is elsewhere.
    choice = choose([QueryScores(rng.normal(50, 10, 40)) for _ in range(50)])
    assert choice.score.value > 52
    assert abs(choice.elsewhere - 50) < 2
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        candidates = [QueryScores(rng.normal(50, 10, 60)) for _ in range(12)]
        wrong += len(choose(candidates, resamples=300).as_good()) < 11
    assert wrong <= 9  # of 100, where 5 are expected


def run(folder, out, *options, layers=("2",)):
    options = ["--texts", str(folder), "--max-length", "24", "--folds", "2", "--layers", *layers, *options]
    return main(["bias", *ENCODER, *options, "--out", str(out)])


def page_label(result):
    return " ".join([result["transform"], *(f"{key}={value}" for key, value in result["parameters"].items())])


def test_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lsar_jax.options.encoder.load_encoder", lj.load_encoder)
    for code, text in lj.corpora.udhr("fit", ["de", "en", "es", "fr"]).items():
        (tmp_path / f"{code}.txt").write_text("\n".join(text) + "\n")
    out, methods = tmp_path / "out", ["--transforms", "original", "center", "mean+lsar"]
    (out / "figures").mkdir(parents=True)
    for name in ("accuracy-of-pairs", "mine"):
        (out / "figures" / f"{name}.svg").write_text("")
    assert run(tmp_path, out, "--aligned", "yes", *methods, layers=("3", "1", "2")) == 0
    results = read(out)
    assert {r["metric"] for r in results} == {"mAP", *command._MEASURES}
    # Not significantly worse than Centered, and it needs no language.
    best = max((r for r in results if r["metric"] == "mAP" and r["transform"] != "center"), key=lambda r: r["value"])
    printed = capsys.readouterr().out
    assert f"Recommended: layer {best['layer']}, {best['transform']}" in printed
    assert f"mAP {best['value']:.1f} (" in printed
    page = (out / "report.html").read_text()
    # Four measures with a legend, and the space by language and by meaning; none is a bitmap, or loaded.
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert page.count('<svg role="img" aria-label="') == len(drawn) - 1 == 9
    # Those of an earlier report, of pairs, are replaced; other files are left.
    assert {name for name in drawn if not re.fullmatch(command._FIGURE, name)} == {"mine.svg"}
    assert "accuracy-of-pairs.svg" not in drawn
    assert not re.search(r"<img|src=|data:image", page)
    # The recommended row stands out, with the interval that is printed.
    [row] = re.findall(r'<tr class="marked"><th scope="row">(.*?)</tr>', page)
    assert row.startswith(f"{page_label(best)} (recommended)")
    saved = lj.Transform.load(out / "transform.safetensors")
    # The page shows how to use it.
    code = html.unescape(re.search(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.S)[1])
    names = {}
    exec(compile(code, "the page", "exec"), names)
    assert names["vectors"].shape == (1, 32)
    assert "encode(sentences, max_length=24, " in code
    assert (saved.source.layer, saved.fits[-1].method) == (best["layer"], "lsar")
    assert dict(saved.fits[0].fitted_on) == {code: 25 for code in ("de", "en", "es", "fr")}
    # From the moments, the transform is fitted again, and no sentence is encoded.
    moments, source = lj.load_moments(out / "moments.safetensors")
    again = fit_mean_then_lsar(moments, best["parameters"]["rank"], source=source)
    np.testing.assert_allclose(*(t.as_affine()[0] for t in (saved, again)), atol=1e-6)
    assert not (out / ".job").exists()
    # Once more, the report is replaced; other options are refused.
    assert run(tmp_path, out, "--transforms", "original", "center") == 1
    assert "was made with other options" in capsys.readouterr().err


def test_report_on_vectors_of_any_model(tmp_path, capsys, rng, monkeypatch):
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    folder, out = write(tmp_path / "text", LINES), tmp_path / "out"
    (tmp_path / "vectors").mkdir()
    for code, rows in planted(rng, lines=len(LINES)).items():
        np.save(tmp_path / "vectors" / f"{code}.npy", rows)
    options = ["--texts", str(folder), "--vectors", str(tmp_path / "vectors"), "--folds", "2", "--out", str(out)]
    assert main(["bias", *options, "--transforms", "original", "center", "lsar"]) == 0
    printed = capsys.readouterr().out
    assert "Recommended: lsar rank=2. mAP" in printed
    assert {(r["encoder"], r["pooling"]) for r in read(out)} == {(str(tmp_path / "vectors"), "")}
    assert lj.Transform.load(out / "transform.safetensors").source is None
    page = (out / "report.html").read_text()
    # They have no layer, no encoder and no pooling.
    assert not re.search(r"layer|pooling", printed + re.sub(r"<style>.*?</style>", "", page, flags=re.S))
    assert [path.name for path in (out / "figures").iterdir()] == []
    code = html.unescape(re.search(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.S)[1])
    names = {}
    exec(compile(code.replace("vectors.npy", str(tmp_path / "vectors" / "de.npy")), "the page", "exec"), names)
    assert names["vectors"].shape == (25, 24)
    assert main(["bias", *options, "--overwrite", "--encoder", "bundled", "--max-length", "9"]) == 1
    assert "--max-length is given, but with --vectors nothing is encoded; omit it" in capsys.readouterr().err
    for damaged, message in (
        (np.full((len(LINES), 24), np.nan), "de: .* rows hold NaN or infinity, the first is row 0"),
        (np.ones((len(LINES), 23)), "the arrays differ in width"),
    ):
        np.save(tmp_path / "vectors" / "de.npy", damaged.astype(np.float32))
        assert main(["bias", *options, "--overwrite"]) == 1
        assert message in capsys.readouterr().err


def test_an_interrupted_report_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "draw_space", lambda *_: {})
    monkeypatch.setattr(command, "_FIRST", 20)
    monkeypatch.setattr("lsar_jax.embeddings.cache._CHUNK", 32)
    lines = [f"{line} {word}" for line in LINES for word in ("is here", "is there")]
    folder, options = write(tmp_path / "text", lines), ["--transforms", "original", "center", "lsar", "--seed", "1"]
    assert run(folder, tmp_path / "whole", *options, layers=("0", "1", "2", "3")) == 0
    printed = capsys.readouterr().out
    assert "first answer, from 20 sentences a language at layers 1 2 3: layer" in printed
    assert re.search(r"layer \d \(2 of 4, less than a minute left\): ", printed)
    # Ended in the second layer, after each of which measures are kept.
    measure, measured = command.measure_layer, []

    def killed(*arguments):
        measured.append(arguments[3].layer)
        if len(measured) == 5:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(command, "measure_layer", killed)
    assert run(folder, tmp_path / "parts", *options, layers=("0", "1", "2", "3")) == 130
    assert len(list((tmp_path / "parts" / ".job").glob("layer-*"))) == 1
    # From then on: kept measures are read, and results are known as this report's before the pictures are drawn.
    parts, again = tmp_path / "parts", []

    def counted(*arguments):
        again.append(arguments[-1] is not None and not arguments[-1].is_file())
        return measure(*arguments)

    def drawn(*_):
        assert read_json(parts / "run.json", dict)["complete"] is False
        return {}

    work = []

    def meter(_, done, total):
        work.append((done, total))
        return 1.0

    monkeypatch.setattr(command, "measure_layer", counted)
    monkeypatch.setattr(command, "draw_space", drawn)
    monkeypatch.setattr(command, "Meter", lambda show: meter)
    capsys.readouterr()
    assert run(folder, parts, *options, layers=("0", "1", "2", "3")) == 0
    assert again[-4:].count(True) == 3
    # The layer whose measures are read is no work that was done.
    assert work[-6:] == [(0, 3), (1, 3), (1, 3), (2, 3), (2, 3), (3, 3)]
    printed = capsys.readouterr().out
    assert re.search(r"layer \d \(1 of 4\): ", printed)
    assert "encoded" not in printed
    assert read(tmp_path / "parts") == read(tmp_path / "whole")
    assert not (tmp_path / "parts" / ".job").exists()


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
    assert run(tmp_path, tmp_path / "out", "--transforms", "original", "center") == 0
    printed = capsys.readouterr().out
    assert "the 50 paragraphs of the Universal Declaration of Human Rights in 2 of its languages" in printed
    assert "Recommended: layer 2, center. mAP on the UDHR" in printed
    assert "center needs the language of each sentence. The best that does not is layer 2, original" in printed
    assert "Take care: 47 sentences of the text are paragraphs of the declaration" in printed
    assert {r["metric"] for r in read(tmp_path / "out")} > {"mAP on the UDHR"}
    # In languages that the declaration is not in, nothing is recommended.
    for old, new in (("de", "la"), ("fr", "cy")):
        (tmp_path / f"{old}.txt").rename(tmp_path / f"{new}.txt")
    assert run(tmp_path, tmp_path / "other", "--transforms", "original", "center") == 0
    assert "No recommendation: the text is not aligned" in capsys.readouterr().out
    assert not (tmp_path / "other" / "transform.safetensors").exists()
    assert (tmp_path / "other" / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--transforms", "center"], "--transforms lacks original"),
        (["--folds", "6"], "--folds is 6; it must be a whole number from 2 to 5"),
        (["--texts", "nowhere"], "there is no folder nowhere, or it is empty; put"),
    ],
)
def test_refusals(tmp_path, capsys, options, message):
    assert run(write(tmp_path / "text", LINES), tmp_path / "out", *options) == 1
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
    monkeypatch.setattr(fake, "projection", "dense")
    options = ["--aligned", "yes", "--transforms", "original", "center"]
    assert run(tmp_path / "text", tmp_path / "labse", *options, layers=()) == 0
    assert "other layers need --pooling" in capsys.readouterr().out
    assert len({r["layer"] for r in read(tmp_path / "labse")}) == 1
