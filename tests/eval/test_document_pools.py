"""SHIFT's pools: the four texts as one pool, scores by hand, and documents that move while queries stay."""

import csv
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kruskal, spearmanr

from eval.__main__ import main
from eval.data.pools.document_pool import pool_of, read_pool
from lsar_jax import corpora
from tests.dataset_hub import write_rows
from tests.eval.test_benchmarks import belebele_folders  # noqa: F401
from tests.eval.test_lareqa import write_letters
from tests.eval.test_tasks import ENCODER, read
from tests.fake_encoder import FakeEncoder

pytestmark = pytest.mark.usefixtures("fake")


def test_a_pool_by_hand():
    texts = [
        ("d", "en", "1", "a"), ("d", "de", "1", "A"), ("d", "en", "2", "a"), ("d", "en", "", "b"),
        ("d", "de", "2", "B"),
        ("q", "en", "1", "one"), ("q", "en", "1", "uno"), ("q", "en", "2", "two"), ("q", "en", "3", "lost"),
        ("q", "fr", "2", "deux"),
    ]  # fmt: skip
    found = pool_of(texts)
    assert found.documents == {"de": ["A", "B"], "en": ["a", "b"]}
    assert found.queries == {"en": ["one", "two"], "fr": ["deux"]}
    wanted = {code: [set(row) - {-1} for row in found.relevant[of].tolist()] for code, of in found.questions.items()}
    assert wanted == {"en": [{0, 2}, {1, 2}], "fr": [{1, 2}]}


@pytest.fixture
def speeches(tmp_path):
    rows = [
        {"did": n, "TEXT": text, "LANGUAGE": code, "qid_EN": name, "title_EN": title, "title_DE": title.lower()}
        for n, (text, code, name, title) in enumerate([
            ("s1", "DE", "7#a", "Fish"), ("s2", "EN", "7#b", "Fish"), ("s3", "EN", "9#a", "Trade"),
            ("s4", "PL", "9#b", "Trade"), ("", "EN", "9#c", "Trade"), ("s5", "EN", "", "None"),
        ])
    ]  # fmt: skip
    with (tmp_path / "all.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


def test_speeches_are_of_the_languages_and_have_a_debate(speeches):
    for place in (speeches, f"hub:{speeches}"):
        found = read_pool("multieup", place)
        assert found.documents == {"de": ["s1"], "en": ["s2", "s3"]}
        assert found.queries == {"de": ["fish", "trade"], "en": ["Fish", "Trade"]}
        np.testing.assert_array_equal(found.relevant, [[0, 1], [2, -1]])
    assert set(read_pool("multieup", speeches, ["pol", "en"]).documents) == {"en", "pl"}


def test_belebele_is_a_pool(belebele_folders):  # noqa: F811
    found = read_pool("belebele", belebele_folders / "files", ["en", "hi"])
    assert {code: len(of) for code, of in found.documents.items()} == {"en": 3, "hi": 3}
    np.testing.assert_array_equal(found.relevant, [[0, 3], [1, 4], [1, 4], [2, 5]])


def test_mlqa_is_a_pool(tmp_path):
    texts = [("T", "one"), ("", "two"), ("", "three"), ("U", "four")]
    for name in ("ara-ara", "ara-deu", "deu-deu"):
        rows = {
            "corpus": [{"id": f"p{n}", "title": title, "text": text} for n, (title, text) in enumerate(texts)],
            "queries": [{"id": f"q{n}", "text": f"{name} {n}"} for n in range(3)],
            # Grade 0 is not relevant, one passage is not there, and the last question has none.
            "qrels": [
                {"query-id": query, "corpus-id": passage, "score": score}
                for query, passage, score in (
                    ("q0", "p0", 2), ("q0", "p3", 1), ("q0", "p1", 0), ("q1", "p1", 1), ("q1", "gone", 1),
                )
            ],
        }  # fmt: skip
        for part, of in rows.items():
            write_rows(tmp_path, f"{name}-{part}/test-00000-of-00001.parquet", of)
    found = read_pool("mlqa", f"hub:{tmp_path}", ["ar", "de"])
    assert found.documents["de"] == ["T one", "two", "three", "U four"]
    assert found.queries == {"ar": ["ara-ara 0", "ara-ara 1"], "de": ["deu-deu 0", "deu-deu 1"]}
    np.testing.assert_array_equal(found.relevant, [[0, 3, 4, 7], [1, 5, -1, -1]])
    with pytest.raises(FileNotFoundError, match="no file for fr; it has ar, de"):
        read_pool("mlqa", f"hub:{tmp_path}", ["fr"])
    with pytest.raises(ValueError, match="set it to hub:mteb/MLQARetrieval"):
        read_pool("mlqa", tmp_path, ["de"])


def test_documents_move_and_queries_stay(tmp_path, rng):
    write_letters(tmp_path / "x", rng, codes=("de", "en", "ru"), paragraphs=9)
    options = ["--data", str(tmp_path / "x"), "--layers", "1", "--languages", "de", "en", "ru", "--move", "documents"]
    more = ["--transforms", "original", "center", "--strengths", "0.5", "1", "--out", str(tmp_path / "out")]
    assert main(["pool", *ENCODER, *options, *more]) == 0
    values = {(r["parameters"].get("strength", r["transform"]), r["metric"]): r for r in read(tmp_path / "out")}
    # By hand: 27 paragraphs, of which one in each language is relevant.
    encoder, data = FakeEncoder(1), read_pool("xquad", tmp_path / "x", ["de", "en", "ru"])
    mean = {code: encoder.encode(text).mean(axis=0) for code, text in corpora.udhr("all", list(data.documents)).items()}
    for label, alpha in (("original", 0), (0.5, 0.5), ("center", 1)):
        documents = np.concatenate([encoder.encode(of) - alpha * mean[code] for code, of in data.documents.items()])
        documents /= np.linalg.norm(documents, axis=1, keepdims=True)
        scores = np.stack([encoder.encode(of) @ documents.T for of in data.queries.values()])
        assert scores.shape == (3, 27, 27)
        ranks = np.argsort(np.argsort(-scores, axis=2), axis=2)
        places = [data.relevant[of] for of in data.questions.values()]
        found = np.take_along_axis(ranks, np.stack(places), axis=2)
        gains = np.where(found < 20, 1 / np.log2(found + 2), 0).sum(axis=2) / (1 / np.log2([2, 3, 4])).sum()
        expected = {
            "nDCG@20 from ru": gains[2].mean(), "nDCG@20 over 3": gains.mean(),
            "recall@20 from de": (found[0] < 20).mean(),
            # All but the relevant document in the language of the question.
            "TLR@20 from en": (found[1][:, [0, 2]] < 20).mean(),
            "MRC@20 over 3": np.mean([
                spearmanr(scores[a, q, union], scores[b, q, union]).statistic
                for a, b in combinations(range(3), 2) for q in range(27)
                if (union := np.flatnonzero((ranks[[a, b], q] < 20).any(axis=0))).any()
            ]),
        }  # fmt: skip
        for name, value in expected.items():
            assert values[label, name]["value"] == pytest.approx(100 * value, abs=1e-3), (label, name)
    result = values["center", "PEER@20 from en"]
    assert (result["task"], result["n"], result["options"]["move"]) == ("pool xquad", 27, "documents")
    assert result["value"] == pytest.approx(100 * kruskal(*np.arange(3)[:, None]).pvalue, abs=1)


def test_refusals(refused):
    for command, message in (
        (["udhr", "--move", "documents"], "--move is documents, but udhr has no queries and documents; omit it"),
        (["udhr", "--strengths", "2"], "strength is 2.0; it must be a number from 0"),
    ):
        assert message in refused(main, [*command, *ENCODER, "--languages", "en", "de"])
