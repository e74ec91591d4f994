"""LAReQA: average precision from ranks, one target at a time, the task on files of its form."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from eval.__main__ import main
from eval.data.xquad import XQUAD_R, Questions, answer_table, read_xquad
from eval.task import Score, Setting
from eval.tasks import answers as one_question
from eval.tasks.benchmarks.lareqa import COMMAND, one_target_precision
from lsar_jax import EncoderSpec
from lsar_jax.measures.compared_methods import Method
from lsar_jax.retrieval.ranks import candidate_ranks
from tests.dataset_hub import write_rows
from tests.eval.test_published import check_published_metrics
from tests.eval.test_tasks import ENCODER, is_png, read
from tests.fake_encoder import FakeEncoder

pytestmark = pytest.mark.usefixtures("fake")
DATA = Path(__file__).parents[2] / "data" / "xquad-r"


def test_one_target_is_scikit_learns_average_precision(rng):
    queries, candidates = (rng.standard_normal((count, 6)).astype(np.float32) for count in (12, 40))
    relevant = np.stack([rng.choice(40, 4, replace=False) for _ in range(12)])
    relevant[3, 1:] = -1
    ranks = candidate_ranks(queries, candidates, relevant, metric="dot")
    scores = queries.astype(float) @ candidates.T
    single = one_target_precision(ranks)
    for row, answers in enumerate(relevant):
        truth = np.isin(np.arange(40), answers)
        for column, answer in enumerate(answers):
            if answer < 0:
                assert np.isnan(single[row, column])
                continue
            # The other answers of the question are taken out of the pool.
            kept = ~truth | (np.arange(40) == answer)
            expected = average_precision_score(np.arange(40)[kept] == answer, scores[row][kept])
            assert single[row, column] == pytest.approx(expected)


def test_answers_are_places_in_the_pool():
    data = {
        "de": Questions(["f", "g"], ["1", "2"], ["a", "b"], [1, 0], ["a b"], [0, 0]),
        "en": Questions(["q"], ["2"], ["c", "d", "e"], [2], ["c d e"], [0, 0, 0]),
    }
    # Questions 1 and 2 of German, then 2 of English; the pool is a b c d e.
    np.testing.assert_array_equal(answer_table(data), [[1, -1], [0, 4], [0, 4]])


def write_letters(folder, rng, codes=("de", "en", "ru"), paragraphs=2):
    """Files in XQuAD-R's form whose sentences are random letters, so that no two are alike."""
    for code in codes:
        written = []
        for number in range(paragraphs):
            sentences = [" ".join(rng.choice(list("abcdefghij"), 8)) for _ in range(4)]
            starts = np.cumsum([0, *(len(text) + 1 for text in sentences)])
            asked = [" ".join(rng.choice(list("abcdefghij"), 6)) for _ in range(3)]
            qas = [
                {"id": f"{number}-{i}", "question": question, "answers": [{"answer_start": int(starts[i]) + 2}]}
                for i, question in enumerate(asked)
            ]
            breaks = [[int(start), int(start) + len(text)] for start, text in zip(starts, sentences, strict=False)]
            written.append({"context": " ".join(sentences), "sentence_breaks": breaks, "qas": qas})
        write_rows(folder, f"{code}.json", [{"data": [{"paragraphs": written}]}])


@pytest.fixture(scope="module")
def lareqa(tmp_path_factory, fake):
    """A run of both metrics, and the folder of its data."""
    folder = tmp_path_factory.mktemp("lareqa")
    write_letters(folder / "x", np.random.default_rng(0))
    options = ["--data", str(folder / "x"), "--layers", "1"]
    assert main(["lareqa", *ENCODER, *options, "--out", str(folder / "out")]) == 0
    return folder


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_lareqa(lareqa, metric):
    tmp_path, end = lareqa, "" if metric == "cosine" else ", dot"
    check_published_metrics("lareqa", {r["metric"] for r in read(tmp_path / "out")})
    chosen = (r for r in read(tmp_path / "out") if r["metric"].endswith(", dot") == bool(end))
    values = {(r["transform"], r["metric"].removesuffix(end)): r for r in chosen}
    whole = values["original", "mAP"]
    assert whole["n"] == 18
    assert whole["low"] <= whole["value"] <= whole["high"]
    assert is_png(tmp_path / "out" / "one_target.png")
    cells = [r["value"] for (name, cell), r in values.items() if name == "lsar" and cell.startswith("one target")]
    assert len(cells) == 9
    assert np.mean(cells[::4]) == pytest.approx(values["lsar", "same language"]["value"])
    # By hand from the encoder.
    data = read_xquad(tmp_path / "x", ["de", "en", "ru"])
    encoder = FakeEncoder(1)
    q, c = (
        encoder.encode([text for one in data.values() for text in part(one)], max_length=16).astype(float)
        for part in (lambda one: one.questions, lambda one: one.candidates)
    )
    if metric == "cosine":
        c /= np.linalg.norm(c, axis=1, keepdims=True)
    table = answer_table(data)
    truth = np.array([np.isin(np.arange(len(c)), row) for row in table])
    scores = q @ c.T
    precision = [100 * average_precision_score(*pair) for pair in zip(truth, scores, strict=True)]
    assert whole["value"] == pytest.approx(np.mean(precision), abs=1e-3)
    assert values["original", "mAP of ru"]["value"] == pytest.approx(np.mean(precision[12:]), abs=1e-3)
    # The diagonal: of its answers a question sees that in its own language.
    own = np.repeat(np.arange(3), 6)
    single = [1 / (1 + np.sum(scores[row][~truth[row]] > scores[row, table[row, own[row]]])) for row in range(len(q))]
    assert values["original", "same language"]["value"] == pytest.approx(100 * np.mean(single), abs=1e-3)
    # In one language, it sees that one and the other sentences of the language.
    inside = np.arange(len(c)) // (len(c) // 3) == own[:, None]
    alone = [1 / (1 + np.sum(scores[row][inside[row]] > scores[row, table[row, own[row]]])) for row in range(len(q))]
    assert values["original", "mAP in one language"]["value"] == pytest.approx(100 * np.mean(alone), abs=1e-3)


def test_the_answer_side_is_encoded_with_its_paragraph(tmp_path, rng):
    write_letters(tmp_path / "x", rng, paragraphs=4)
    data = read_xquad(tmp_path / "x", ["de", "ru"], held_out=4)
    forms = {"question_text": "q: {question}", "answer_text": "p: {answer} {paragraph}"}
    [texts] = COMMAND(data=tmp_path / "x", languages=("de", "ru"), held_out=4, **forms).made().parts
    for code, one in data.items():
        assert len(one.questions) == 6
        assert texts["q", code] == [f"q: {question}" for question in one.questions]
        where = zip(one.candidates, one.places, strict=True)
        assert texts["c", code] == [f"p: {sentence} {one.paragraphs[place]}" for sentence, place in where]


def test_questions_mixed_with_their_translations(tmp_path, rng):
    write_letters(tmp_path / "x", rng)
    english = json.loads((tmp_path / "x" / "en.json").read_text())
    english["data"][0]["paragraphs"][1]["qas"].pop()
    (tmp_path / "x" / "en.json").write_text(json.dumps(english))
    plain, mixed = (COMMAND(data=tmp_path / "x", metrics=("cosine",), mix=mix).made() for mix in ("", "en"))
    x = {key: rng.standard_normal((len(texts), 8)) for key, texts in plain.parts[0].items()}
    unit = {key: rows / np.linalg.norm(rows, axis=1, keepdims=True) for key, rows in x.items()}
    # The last question of German and Russian has no translation.
    english = [*unit["q", "en"], np.zeros(8)]
    by_hand = x | {("q", code): unit["q", code] + english for code in ("de", "ru")}

    def values(task, x):
        setting = Setting(EncoderSpec("x", "sha256:0", 1, "mean", "float32"), True, (), ())
        scores = task.scores(x, Method("original", {}), setting)
        return {score.metric.name: score.value for score in scores if isinstance(score, Score)}

    assert values(mixed, x) == values(plain, by_hand) != values(plain, x)
    with pytest.raises(ValueError, match="--mix 'fr' is not one of de, en, ru"):
        COMMAND(data=tmp_path / "x", mix="fr").made()


def test_data_that_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="--metrics has no value; give cosine, dot or both"):
        COMMAND(metrics=()).made()
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere; copy the folder xquad-r of"):
        read_xquad(tmp_path / "nowhere")
    (tmp_path / "de.json").write_text(json.dumps({"data": [{"paragraphs": [{}]}]}))
    with pytest.raises(FileNotFoundError, match="has no fr.json; it has de; copy the folder xquad-r of"):
        read_xquad(tmp_path, ["fr", "deu"])


@pytest.mark.skipif(not DATA.is_dir(), reason="data/xquad-r is not there")
def test_xquad_r_is_the_papers():
    data = read_xquad(DATA)
    assert list(data) == list(XQUAD_R)
    assert {len(one.questions) for one in data.values()} == {1190}
    sizes = [len(one.candidates) for one in data.values()]
    assert sizes == [1222, 1276, 1234, 1180, 1215, 1244, 1219, 852, 1167, 1209, 1196]
    table = answer_table(data)
    assert table.shape == (13090, 11)
    assert table.min() >= 0
    assert one_question.answers(DATA).parts[0]["asked", "en"] == [
        "What theory best explains gravity?"
    ]  # the one of Figure 2
