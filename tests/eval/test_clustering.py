"""Clusters of paragraphs: scores by hand, planted topics and languages, and the task on files of XQuAD-R's form."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from eval.__main__ import main
from eval.tasks import clustering
from lsar_jax.measures.results import read_results
from tests.dataset_hub import write_rows

TOPICS, EACH, D = 6, 5, 16


def planted(rng, of_topic, of_language):
    """Documents of three languages around topics and languages that are so far apart."""
    topic = np.repeat(np.arange(TOPICS), EACH)
    topics, languages = of_topic * rng.standard_normal((TOPICS, D)), of_language * rng.standard_normal((3, D))
    x = {
        code: (topics[topic] + languages[n] + 0.1 * rng.standard_normal((len(topic), D))).astype(np.float32)
        for n, code in enumerate(("de", "en", "th"))
    }
    return x, dict.fromkeys(x, topic)


def scores(x, topics):
    found = {}
    for score in clustering._scores(x, topics, (0, 1, 2)):
        found.setdefault(score.metric.name, []).append(score.value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def test_topics_or_languages_are_found(rng):
    by_topic, by_language = (scores(*planted(rng, *far)) for far in ((3, 0.1), (0.3, 3)))
    assert min(by_topic[name] for name in ("purity", "ARI", "purity in one language")) > 90
    assert by_topic["ARI of languages"] < 5
    # Each language is in two or so of the six clusters, which have all its topics.
    assert by_language["ARI of languages"] > 40
    assert by_language["ARI"] < 15
    assert by_language["purity"] < 60
    assert by_language["purity in one language"] > 70


def test_documents_of_any_length(rng):
    x, topics = planted(rng, 1, 1)
    longer = {code: rows * 2.0 ** rng.integers(-3, 4, (len(rows), 1)).astype(np.float32) for code, rows in x.items()}
    assert scores(longer, topics) == scores(x, topics)


def test_purity_is_the_share_of_the_largest_topics(rng):
    clusters, topic = rng.integers(0, 4, 200), rng.integers(0, 7, 200)
    expected = contingency_matrix(topic, clusters).max(axis=0).sum() / 200
    assert clustering._pure(clusters, topic).mean() == pytest.approx(expected)
    assert adjusted_rand_score(topic, clusters) < 0.05


def write_articles(folder, rng, codes=("de", "en")):
    for code in codes:
        data = []
        for article in range(3):
            paragraphs = []
            for number in range(2 + article):
                text = " ".join(rng.choice(list("abcdefghij"), 8))
                qas = [{"id": f"{article}-{number}", "question": "a b", "answers": [{"answer_start": 0}]}]
                paragraphs.append({"context": text, "sentence_breaks": [[0, len(text) - 1]], "qas": qas})
            data.append({"title": f"{article}", "paragraphs": paragraphs})
        write_rows(folder, f"{code}.json", [{"data": data}])


@pytest.mark.usefixtures("fake")
def test_the_task_reads_articles(tmp_path, rng, refused):
    write_articles(tmp_path / "data", rng)
    command = ["clustering", "--data", str(tmp_path / "data"), "--layers", "1", "--encoder", "fake"]
    assert main([*command, "--transforms", "original", "--out", str(tmp_path / "out")]) == 0
    results = read_results(tmp_path / "out" / "results.jsonl")
    assert {r.metric for r in results} == {"purity", "purity in one language", "ARI", "ARI of languages"}
    purity = next(r for r in results if r.metric == "purity")
    # 2, 3 and 4 paragraphs of three articles, in two languages.
    assert purity.n == 18
    assert len(set(purity.queries.clusters)) == 3
    assert len([r for r in results if r.metric == "ARI"]) == 3
    assert "--seeds 1 1 contains a value twice" in refused(main, [*command, "--seeds", "1", "1"])
    assert "clustering needs at least 2 languages; it has de" in refused(main, [*command, "--languages", "de"])
