"""The measures of the preference task on planted pools, and the task from the command line."""

import json

import numpy as np
import pytest

import lsar_jax as lj
from eval.data.pools.multilingual_pool import MultilingualPool, line_pool, read_answers
from eval.tasks.language_preference import COMMAND, measures
from lsar_jax.retrieval.search import nearest_others
from tests.eval.test_lareqa import write_letters
from tests.eval.test_tasks import ENCODER, by_metric, evaluated, is_png, write_pairs
from tests.fake_encoder import FakeEncoder

pytestmark = pytest.mark.usefixtures("fake")
CODES = ["de", "en", "fr"]


def planted(rng, group, offset, english=0.0):
    """Lines with a meaning each, where language n is moved by ``offset`` its way, and English by another offset."""
    meaning = np.random.default_rng(1).standard_normal((20, 24))
    moved = offset * np.eye(3, 24) + english * np.outer([0, 1, 0], np.eye(24)[5])
    noisy = meaning + 0.01 * rng.standard_normal((3, 20, 24)) + moved[:, None]
    return dict(zip([(group, code) for code in CODES], noisy.astype(np.float32), strict=True))


def values(x, pool):
    return {name: found.mean for name, found in measures(x, pool)[0].items()}


def test_without_and_with_an_offset_of_each_language(rng):
    pool = line_pool(CODES, 20, asked="asked")
    found = values(planted(rng, "pool", 0.0) | planted(rng, "asked", 0.0), pool)
    assert (found["mAP"], found["Max@R"]) == (pytest.approx(100), pytest.approx(100))
    assert found["relevant, same"] + found["relevant, other"] == 100
    assert found["pool share"] == pytest.approx(100 / 3)
    assert found["preference"] == found["relevant, same"] < 60
    # The meaning ranks before the language, and the language of a candidate decides nothing.
    assert found["Max@R from en"] == found["Max@R into en"] == pytest.approx(100)
    assert found["English inclination"] == pytest.approx(0, abs=1e-9)
    found = values(planted(rng, "pool", 40.0) | planted(rng, "asked", 40.0), pool)
    assert found["preference"] == found["relevant, same"] + found["irrelevant, same"] == found["top 10"] == 100
    # All candidates that MLRS looks at are in the query's language.
    assert found["MLRS"] == 0
    assert found["Max@R"] < 30
    assert found["English first"] == 0


def test_english_that_is_near_to_every_query(rng):
    asked = planted(rng, "asked", 0.0) | {("asked", "en"): planted(rng, "asked", 0.0, 40.0)["asked", "en"]}
    # Queries point to where the English candidates are.
    asked = {key: of + np.float32(40) * np.eye(24, dtype=np.float32)[5] for key, of in asked.items()}
    found = values(planted(rng, "pool", 0.0, 40.0) | asked, line_pool(CODES, 20, asked="asked"))
    assert found["English first"] == 100
    assert found["preference"] == pytest.approx(100 / 3)  # of the queries in English alone
    # Queries of both languages read all of the English candidates first: Max@R does not say whose inclination it is.
    assert abs(found["English inclination"]) < 10
    assert found["Max@R into en"] < 30


def test_queries_that_are_in_the_pool(rng):
    apart = values(planted(rng, "pool", 40.0), line_pool(CODES, 20))
    together = values(planted(rng, "pool", 0.0), line_pool(CODES, 20))
    assert not {"preference", "Lang-nDCG", "relevant, same", "English first"} & set(apart)
    assert (apart["irrelevant, same"], together["relevant, other"]) == (100, 100)
    assert apart["pool share"] == pytest.approx(100 * 19 / 59)


def test_english_is_favoured_by_hand():
    """Two languages on a circle, whose first English sentence is without a translation; angles in degrees."""
    angles = {("c", "de"): [5, 65], ("c", "en"): [90, 0, 40], ("q", "de"): [30, 22], ("q", "en"): [88, 2, 50]}
    x = {key: np.stack([np.cos(np.radians(of)), np.sin(np.radians(of))], axis=1) for key, of in angles.items()}
    pool = MultilingualPool(
        ["de", "en"], [("q", "de"), ("q", "en")], [("c", "de"), ("c", "en")],
        np.array([[0, 3], [1, 4], [-1, 2], [0, 3], [1, 4]]), np.array([0, 1, 2, 0, 1]),
    )  # fmt: skip
    found = values(x, pool)
    # English queries find both translations first. German ones find the second as their third, or fourth, of five.
    into = 50 * (np.log(5 / 3) + np.log(5 / 4)) / np.log(5 / 2)
    assert (found["Max@R from en"], found["Max@R into en"]) == (pytest.approx(100), pytest.approx(into))
    assert found["English inclination"] == pytest.approx(100 - into)
    assert found["English first"] == 50
    # Of the four candidates with translations, German ones put the order 0 1 2 3 into 1 2 0 3, and into 0 2 1 3.
    assert found["MLRS"] == pytest.approx(100 * (2 / 6 + 1 / 6) / 5)


def test_pools_by_hand():
    # Two languages; the sentence at place 1 answers both questions in the first, and one has no answer in the second.
    pool = MultilingualPool(
        ["de", "en"], [("q", "de"), ("q", "en")], [("c", "de"), ("c", "en")], np.array([[1, 3], [1, -1], [1, 3]]),
        np.array([0, 1, 0]),
    )  # fmt: skip
    np.testing.assert_array_equal(pool.translations(4), [[-1, -1], [1, 3], [-1, -1], [1, 3]])
    x = {("q", "de"): np.zeros((2, 1)), ("q", "en"): np.zeros((1, 1)), ("c", "de"): np.zeros((2, 1))}
    narrowed = pool.narrowed(x | {("c", "en"): np.zeros((2, 1))}, ("en", "de"))
    np.testing.assert_array_equal(narrowed.relevant, [[1, 3], [1, 3], [-1, 3]])
    assert narrowed.question.tolist() == [0, 0, 1]


def test_hubs_of_the_pool(tmp_path):
    run = ["preference", *ENCODER, "--layers", "1", "--transforms", "original", "--languages", "de", "en", "fr"]
    found = by_metric(evaluated(tmp_path, *run, "--scores", "cosine", "csls"), "value")
    x = np.concatenate([FakeEncoder(1).encode(of) for of in lj.corpora.udhr("test", ["de", "en", "fr"]).values()])
    bank = np.concatenate([FakeEncoder(1).encode(of) for of in lj.corpora.udhr("fit", ["de", "en", "fr"]).values()])
    for name, given in (("original", None), ("original+csls", bank)):
        hubs = lj.geometry.hub_measures(nearest_others(x, 10, given)[1], len(x))
        assert found[name, "hub skewness"] == pytest.approx(hubs.skewness)
        assert found[name, "reciprocal"] == pytest.approx(100 * hubs.reciprocal)


def test_preference(tmp_path):
    write_letters(tmp_path / "x", np.random.default_rng(0))
    run = ["preference", *ENCODER, "--layers", "1", "--transforms", "original", "lsar"]
    options = ["--text", "xquad-r", "--data", str(tmp_path / "x")]
    found = by_metric(evaluated(tmp_path / "out", *run, *options))
    assert len(found) == 2 * 20
    assert found["original", "preference"]["n"] == 18
    for of in ("original", "lsar"):
        ways = [f"{kind}relevant, {language}" for kind in ("", "ir") for language in ("same", "other")]
        assert sum(found[of, way]["value"] for way in ways) == pytest.approx(100)
        assert all(r["low"] <= r["value"] <= r["high"] for (name, _), r in found.items() if name == of and r["low"])
    assert is_png(tmp_path / "out" / "methods.png")


def test_texts_of_the_command(tmp_path):
    folder = tmp_path / "tatoeba"
    for code in ("deu", "fra"):
        write_pairs(folder, code, "a b\nc d\ne f\n", f"a {code}\nc {code}\ne {code}\n")
    run = ["preference", *ENCODER, "--layers", "1", "--transforms", "original"]
    options = ["--text", "tatoeba", "--data", str(folder), "--languages", "de", "fr"]
    found = evaluated(tmp_path / "pairs", *run, *options)
    assert {r["n"] for r in found if r["metric"] == "Max@R"} == {12}
    lines, short, blank = (tmp_path / name for name in ("lines", "short", "blank"))
    for path, text in ((lines, "a\nb\nc\n"), (short, "a\n"), (blank, "a\n \nc\n")):
        path.mkdir()
        for code in ("de", "en"):
            (path / f"{code}.txt").write_text(text)
    (short / "fr.txt").write_text("a\nb\n")
    assert len(COMMAND(text=str(lines), queries=lines).made().parts[0]) == 4
    for options, message in (
        ({"text": str(lines), "queries": short}, "short has 1 lines per language but .*lines has 3"),
        ({"text": str(short)}, r"differ in their number of lines: .'de': 1, 'en': 1, 'fr': 2"),
        ({"text": str(blank)}, ", de, line 2 is blank"),
        ({"text": "udhr", "data": folder}, "--text udhr does not read it"),
        ({"text": "tatoeba", "queries": lines}, "does not read it; leave it out"),
        ({"text": "udhr", "languages": ("de",)}, "preference needs at least 2 languages; it has de"),
    ):
        with pytest.raises(ValueError, match=message):
            COMMAND(**options).made()


def test_answers_as_a_pool(tmp_path, rng):
    write_letters(tmp_path / "x", rng, codes=("de", "en"))
    texts, pool = read_answers(tmp_path / "x")
    sentences = [sentence for code in ("de", "en") for sentence in texts["c", code]]
    data = json.loads((tmp_path / "x" / "en.json").read_text())["data"][0]["paragraphs"]
    for row, asked in enumerate(qa for paragraph in data for qa in paragraph["qas"]):
        place = pool.relevant[len(pool.relevant) // 2 + row, 1]
        assert data[row // 3]["context"][asked["answers"][0]["answer_start"] - 2 :].startswith(sentences[place])
