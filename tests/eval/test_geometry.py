"""The geometry task on a tiny encoder; probes and XQuAD-R's reader by construction."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score

import lsar_jax as lj
from eval.__main__ import main
from eval.data.measured_text import read_text
from eval.data.tatoeba import read_pairs
from eval.figures import embedding_space
from eval.fitting import choose
from eval.scores.syntax import syntax_scores
from eval.tasks import geometry
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.ranking import language_nmi, probe_accuracy, probe_folds
from lsar_jax.transforms import fit_center, fit_lsar
from tests.dataset_hub import write_rows
from tests.eval.test_answers import SETTING, cosines, recorded
from tests.eval.test_published import check_published_metrics
from tests.eval.test_tasks import ENCODER, is_png, read, write_pairs
from tests.fake_encoder import FakeEncoder
from tests.optional import need

pytestmark = pytest.mark.usefixtures("fake")
FIGURES = ("layers", "means", "outliers", "distance_by_rank", "removed", "families", "syntax", "tsne-en-de")
ORIGINAL = Method("original", {}, None)


def without_translations(x, y):
    """The contribution of each dimension to the mean cosine of row i and row j, i != j."""
    every = cosines(x, y)
    return every[~np.eye(len(x), dtype=bool)].mean(axis=0)


def write_tatoeba(folder, codes, count=15):
    """Writes pairs whose English sides differ, and overlap in their second half."""
    for number, code in enumerate(codes):
        starts = [f"{number} " if i < count // 2 else "" for i in range(count)]
        texts = [f"{start}{a} {b} abc" for start, (a, b) in zip(starts, itertools.product("abcde", "fgh"), strict=True)]
        write_pairs(folder, code, "\n".join(texts), "\n".join(f"{code} {text} {code}" for text in texts))


def test_geometry_of_tatoeba_fitted_on_the_udhr(tmp_path, capsys, monkeypatch):
    need("lang2vec")
    folder, out = tmp_path / "data", tmp_path / "out"
    write_tatoeba(folder, ("deu", "fin", "hin", "mal"))
    planes = recorded(monkeypatch, embedding_space, "draw_planes")
    monkeypatch.setattr(embedding_space, "tsne", lambda x: x[:, :2])
    options = ["--text", "tatoeba", "--data", str(folder), "--languages", "de", "fi", "hi", "ml", "--layers", "2"]
    options += ["--transforms", "original", "center", "lsar", "--seeds", "0", "--pair", "eng", "de"]
    options += ["--scores", "cosine", "csls"]
    assert main(["geometry", *ENCODER, *options, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "--fit-on udhr has no text in ml: these are not measured either" in printed
    assert "A sentence in English and one in another language, mean over 3 languages" in printed
    for name in FIGURES:
        assert is_png(out / f"{name}.png"), name
    results = read(out)
    assert {r["fitted_on"] for r in results} == {"", "udhr all"}
    codes = ("de", "en", "fi", "hi")
    assert all(r["fitted_languages"] == dict.fromkeys(codes, 50) for r in results if r["transform"] == "lsar")

    # A bank changes the neighbours alone.
    hubs = {"own in first 10", "pool share", "hub skewness", "never found", "hub mass", "reciprocal"}
    assert {r["metric"] for r in results if r["transform"] == "lsar+csls"} == hubs
    assert {r["metric"] for r in results if r["transform"] == "lsar"} > hubs

    # Twins of the measures, from embeddings of each file.
    encoder = FakeEncoder(2)
    pairs = read_pairs(folder, ("de", "fi", "hi"))
    sides = {code: [encoder.encode(side) for side in pair] for code, pair in pairs.items()}
    values = {(r["transform"], r["metric"]): r["value"] for r in results}
    check_published_metrics("geometry", {metric for _, metric in values})
    exact = [without_translations(other, english).sum() for english, other in sides.values()]
    assert values["original", "cosine English-xx"] == pytest.approx(np.mean(exact), abs=1e-5)
    assert values["original", "drawn English-xx"] == pytest.approx(np.mean(exact), abs=3e-3)
    assert ("lsar", "syntax, removed (cosine of syntax_knn, lang2vec 1.1.2)") in values

    # Figure 3 has the two files of the pair, and not all English sentences; LSAR is that of the fitting text.
    text = lj.corpora.udhr(languages=codes)
    lsar = lj.transforms.fit_lsar({code: encoder.encode(text[code]) for code in codes})
    (panels, labels, *_), _ = planes[-1]
    assert list(panels) == ["original", "lsar rank=3"]
    assert labels == ["en"] * 15 + ["de"] * 15
    np.testing.assert_allclose(panels["lsar rank=3"], np.asarray(lsar(np.concatenate(sides["de"])))[:, :2], atol=1e-4)


def write_folder(folder, counts):
    for code, count in counts.items():
        write_rows(folder, f"{code}.txt", [f"{code} {i}" for i in range(count)])
    return str(folder)


def test_planted_outliers(tmp_path, rng):
    counts = {"ar": 20, "en": 12, "sw": 10}
    task = made(text=write_folder(tmp_path / "wiki", counts), transforms=("original",))
    x = {code: rng.standard_normal((count, 96)) for code, count in counts.items()}
    x["ar"][:, 7] -= 30
    x["sw"][:, 7] -= 20
    x["sw"][:, 41] += 30
    x["en"][:, 3] += 30  # English does not count beside another language
    x = {code: rows.astype(np.float32) for code, rows in x.items()}
    test = {("measured", code): rows for code, rows in x.items()}
    scores = {s.metric.name: s for s in task.scores(test, ORIGINAL, SETTING)}
    # A folder is not parallel: all pairs count.
    others = np.mean([cosines(x[code], x["en"]).mean(axis=(0, 1)) for code in ("ar", "sw")], axis=0)
    inside = np.mean([without_translations(rows, rows) for rows in x.values()], axis=0)
    expected = {"cosine English-xx": others.sum()}
    for end, dimensions, codes, shares in (
        (" within,", (3, 7, 41), x, inside),
        ("", (7, 41), ("ar", "sw"), others),
    ):
        for d in dimensions:
            expected[f"mean{end} of dimension {d}"] = np.mean([x[code][:, d].mean() for code in codes])
            expected[f"contribution{end} of dimension {d}"] = shares[d]
    expected |= {f"cosine within {code}": without_translations(rows, rows).sum() for code, rows in x.items()}
    assert {name for name in scores if "dimension" in name} == {name for name in expected if "dimension" in name}
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(value, rel=1e-5, abs=1e-6), name
    assert (scores["cosine within ar"].languages, scores["cosine within ar"].n) == (["ar"], 20)
    # A method has its outliers, and none where only rounding is left.
    centred = {code: rows - rows.mean(axis=0) for code, rows in x.items()}
    zeroed = {code: rows * (np.arange(96) == 7) for code, rows in x.items()}
    lir = Method("lir", {}, fit_center(x))
    for moved, names in ((centred, set()), (zeroed, {name for name in scores if name.endswith(" dimension 7")})):
        found = task.scores({("measured", code): rows for code, rows in moved.items()}, lir, SETTING)
        assert {score.metric.name for score in found if "dimension" in score.metric.name} == names


def test_signals_in_what_lsar_removes_and_leaves(capsys, rng):
    x = {code: rng.standard_normal((5, 8)).astype(np.float32) for code in ("en", "de", "es", "fi", "hi")}
    near = {"syntax": [0.2, 0.3, 0.5, 0.6], "inventory": [0.8, 0.7, 0.5, 0.4]}  # of opposite r
    signals = {kind: (dict(zip([*x][1:], of, strict=True)), "measure") for kind, of in near.items()}
    signals["family"] = dict.fromkeys(x, 0.5), "measure"  # all alike
    lsar = fit_lsar({code: rows + rng.standard_normal(8).astype(np.float32) for code, rows in x.items()}, 3)
    means = np.array([rows.mean(axis=0) for rows in x.values()])
    left, along = np.asarray(lsar(means)), (means[1:] - means[0]) @ np.asarray(lsar.steps[0].arrays()["basis"])
    parts = {name: cosines(of[:1], of[1:]).sum(axis=-1) for name, of in (("removed", means - left), ("left", left))}
    *scores, panel = syntax_scores([Method("lsar", {}, lsar)], x, SETTING, signals)
    twins = {
        f"{kind}, {part} (measure)": max((-np.corrcoef(like, of)[0, 1] for like in likes), key=abs)
        for kind, of in near.items()
        for part, likes in (parts | {"along one direction": -abs(along.T)}).items()
    }
    assert {score.metric.name: score.value for _, score in scores} == pytest.approx(twins, abs=1e-5)
    assert list(panel.values[0]) == [f"the part {p} by lsar, r = {twins[f'syntax, {p} (measure)']:.3f}" for p in parts]
    assert "layer 2, lsar: skipping the correlation with family, removed: " in capsys.readouterr().out


def made(**options):
    return geometry.COMMAND(**options).made()


def chosen(**options):
    """The text to measure and the text to fit on, by language, and the name of the latter."""
    options = geometry.COMMAND(**options)
    task = options.made()
    fitting = choose(task, options)
    return *(
        {code: text for (_, code), text in texts.items()} for texts in (task.parts[0], fitting.texts)
    ), fitting.name


def test_texts_to_measure_and_to_fit_on(tmp_path):
    wiki = write_folder(tmp_path / "wiki", {"ar": 2, "en": 4, "su": 3, "sw": 2})
    other = write_folder(tmp_path / "other", {"ar": 5, "en": 5, "fr": 5, "sw": 5})
    udhr = {part: lj.corpora.udhr(part, ["de", "en", "fr"]) for part in ("all", "fit", "test")}
    three = {"languages": ("de", "en", "fr")}
    assert chosen(**three) == (udhr["test"], udhr["fit"], "udhr fit")
    assert {len(text) for text in chosen(**three, fit_count=7)[1].values()} == {7}
    assert chosen(**three, fit_on="evaluated") == (udhr["test"], {}, "the evaluated sentences")

    test, fit, name = chosen(text=wiki, fit_on=other, fit_count=3)
    assert {code: len(text) for code, text in test.items()} == {"ar": 2, "en": 4, "sw": 2}
    assert {code: len(text) for code, text in fit.items()} == {"ar": 3, "en": 3, "sw": 3}
    assert name == f"{other}, up to 3 a language"
    further = chosen(text=wiki, fit_on=other, fit_languages="all")
    assert (further[0], set(further[1])) == (test, {"ar", "en", "fr", "sw"})
    # Without a fit, every language is measured.
    assert list(chosen(text=wiki, transforms=("original",))[0]) == ["ar", "en", "su", "sw"]
    write_tatoeba(tmp_path / "pairs", ("deu", "fra", "mal"))
    texts, fit, name = chosen(text="tatoeba", data=tmp_path / "pairs", languages=("de", "fr", "ml"))
    assert (fit, name) == (udhr["all"], "udhr all")
    pairs = read_pairs(tmp_path / "pairs", ("de", "fr"))
    # Nor is English without text to fit on.
    foreign = write_folder(tmp_path / "foreign", {"de": 5, "fr": 5, "ml": 5})
    three = chosen(text="tatoeba", data=tmp_path / "pairs", languages=("de", "fr", "ml"), fit_on=foreign)
    assert list(three[0]) == list(three[1]) == ["de", "fr", "ml"]
    # The English of a language that is left out is not measured.
    assert set(texts["en"]) == set(pairs["de"][0]) | set(pairs["fr"][0])
    rows = read_text("tatoeba", tmp_path / "pairs", ("de", "fr")).english
    own = {code: [texts["en"][row] for row in of] for code, of in rows.items()}
    assert own == {code: english for code, (english, _) in pairs.items()}


def test_geometry_refusals(tmp_path, refused):
    wiki = write_folder(tmp_path / "wiki", {"en": 3, "de": 3, "ml": 3})
    three = ["--languages", "en", "de", "fr"]
    for options, message in (
        (["--text", "oscar"], "there is no folder oscar; --text is udhr, tatoeba or a folder"),
        (["--text", wiki], "geometry needs at least 3 languages; it has de, en"),
        (["--text", wiki, "--fit-on", f"{wiki}/"], "is the measured text; set it to evaluated, or to another text"),
        ([*three, "--pair", "en", "es"], "--pair is en es; it must be two of the measured languages"),
        ([*three, "--pair", "en", "eng"], "--pair is en eng"),
    ):
        assert message in refused(main, ["geometry", *ENCODER, *options, "--out", str(tmp_path)])


def test_clusters_of_planted_languages(rng):
    meaning = rng.standard_normal((60, 10))
    codes = ["de"] * 20 + ["en"] * 20 + ["fr"] * 20
    apart = meaning + 30 * np.repeat(np.eye(3, 10), 20, axis=0)
    np.testing.assert_allclose(language_nmi(apart, codes, (0, 1)), 1)
    assert language_nmi(meaning, codes)[0] < 0.2
    with pytest.raises(ValueError, match="five folds need five embeddings of each language; sv has 1"):
        probe_folds([*codes[:-1], "sv"], list(range(20)) * 3)


@pytest.mark.parametrize(("languages", "dim"), [(4, 10), (2, 100)])
def test_probe_is_the_ridge_classifier_of_scikit_learn(rng, languages, dim):
    meaning = rng.standard_normal((30, dim))
    x = np.concatenate([meaning + rng.standard_normal((30, dim)) + rng.standard_normal(dim) / 2] * languages)
    x += 0.3 * rng.standard_normal(x.shape) + np.repeat(rng.standard_normal((languages, dim)), 30, axis=0) / 3
    codes, groups = np.repeat(np.arange(languages), 30), np.tile(np.arange(30), languages)
    centred = x - x.mean(axis=0)
    probe = RidgeClassifier(alpha=1e-3 * len(x))
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    expected = cross_val_score(probe, centred / np.sqrt((centred**2).mean()), codes, groups=groups, cv=folds)
    assert expected.mean() < 1
    names = list(map(str, codes))
    found = probe_accuracy(x, names, probe_folds(names, groups.tolist()))
    assert found == pytest.approx(100 * expected.mean(), abs=1e-12)
