"""Belebele, FLORES and NTREX: readers on files of their forms, scores by hand, what script does."""

import numpy as np
import pytest

from eval.data.belebele import read_belebele
from eval.data.flores_ntrex import read_parallel
from eval.scores.language_pairs import PairMeans, script_neighbours, script_pairs
from eval.task import Setting
from eval.tasks.benchmarks import belebele, flores_ntrex
from lsar_jax.corpora.builders import Monolingual, prepare
from lsar_jax.measures.compared_methods import Method
from lsar_jax.measures.metric import Metric
from lsar_jax.measures.query_scores import QueryScores, difference_of
from lsar_jax.measures.ranking import bitext_f1, ndcg, recall
from lsar_jax.measures.resampling import interval
from lsar_jax.mteb import MtebEncoder
from lsar_jax.retrieval import candidate_ranks, nearest
from tests.dataset_hub import write_rows as write
from tests.eval.test_tasks import ENCODER, by_metric, evaluated
from tests.fake_encoder import FakeEncoder
from tests.optional import need

pytestmark = pytest.mark.usefixtures("fake")


def test_ndcg_and_recall_are_trec_evals(rng):
    # By hand: grade 1 is second and grade 2 is first among two; the third is not found.
    found, relevant, gains = np.array([[3, 1, 0]]), np.array([[1, 0, 9]]), np.array([[2.0, 1.0, 1.0]])
    ideal = 2 + 1 / np.log2(3) + 1 / np.log2(4)
    assert ndcg(found, relevant, gains)[0] == pytest.approx((2 / np.log2(3) + 1 / np.log2(4)) / ideal)
    assert recall(found, relevant)[0] == pytest.approx(2 / 3)
    pytrec_eval = need("pytrec_eval")
    scores = rng.standard_normal((40, 60))
    relevant = np.stack([rng.choice(60, 14, replace=False) for _ in range(40)])
    relevant[:20, 3:] = -1
    gains = np.where(relevant < 0, 0, rng.integers(1, 4, relevant.shape)).astype(float)
    found = np.argsort(-scores, axis=1)
    qrels = {
        f"q{n}": {f"d{d}": int(g) for d, g in zip(row, grades, strict=True) if d >= 0}
        for n, (row, grades) in enumerate(zip(relevant, gains, strict=True))
    }
    run = {f"q{n}": {f"d{d}": float(score) for d, score in enumerate(row)} for n, row in enumerate(scores)}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.30"}).evaluate(run)
    expected = np.array([[theirs[f"q{n}"][name] for name in ("ndcg_cut_10", "recall_30")] for n in range(40)])
    np.testing.assert_allclose(ndcg(found[:, :10], relevant, gains), expected[:, 0], rtol=1e-12)
    np.testing.assert_allclose(recall(found[:, :30], relevant), expected[:, 1], rtol=1e-12)


def test_a_difference_has_an_interval_of_both_sides(rng):
    first, second = ([QueryScores(rng.random(30) + 1) for _ in range(2)] for _ in range(2))
    second += [QueryScores(rng.random(40))]
    found = difference_of(first, second)
    expected = np.mean([q.mean for q in first]) - np.mean([q.mean for q in second])
    assert found.mean == pytest.approx(expected)
    drawn = np.random.default_rng(1)
    means = [
        [np.mean([drawn.choice(q.values, len(q.values)).mean() for q in side]) for side in (first, second)]
        for _ in range(2000)
    ]
    expected = np.quantile(np.subtract(*np.transpose(means)), (0.025, 0.975))
    np.testing.assert_allclose(interval(found), expected, atol=0.02)


def test_questions_are_drawn_with_all_of_their_translations(rng):
    """Seven sets of the same questions know no more than one, and their differences have no error."""
    easy, question = rng.normal(50, 20, 300), rng.permutation(300)
    sets = [QueryScores(easy[question], clusters=question), QueryScores(easy, clusters=np.arange(300))] * 3
    few = QueryScores(easy[:90], clusters=np.arange(90))
    mean = difference_of([*sets, few])
    assert mean.mean == pytest.approx((6 * easy.mean() + easy[:90].mean()) / 7)
    np.testing.assert_allclose(interval(difference_of(sets)), interval(QueryScores(easy)), atol=0.4)
    assert np.subtract(*interval(difference_of(sets[:4], sets[4:]))) == pytest.approx(0, abs=1e-9)
    # Queries without a score count as little as those that are not there.
    lacking = QueryScores(np.where(np.arange(300) < 90, easy, np.nan), clusters=np.arange(300))
    np.testing.assert_allclose(interval(difference_of([*sets, lacking])), interval(mean))


# Meanings of a planted space, [line, dim], and a direction for each language and script.
def planted(rng, of_language, of_script, lines=20):
    meaning = rng.standard_normal((lines, 24))
    directions = {name: rng.standard_normal(24) for name in ("sr", "bs", "en", "de", "Cyrl", "Latn")}
    script = {"sr": "Cyrl", "sr-Latn": "Latn", "bs": "Latn", "bs-Cyrl": "Cyrl", "en": "Latn", "de": "Latn"}
    return {
        code: (meaning + of_language * directions[code[:2]] + of_script * directions[name]).astype(np.float32)
        for code, name in script.items()
    }


def test_neighbours_tell_script_from_language(rng):
    def measured(of_language, of_script):
        x = planted(rng, of_language, of_script)
        return {s.metric.name: s.value for s in script_neighbours(x, x)}

    neither, language, script = measured(0, 0), measured(30, 0), measured(0, 30)
    # Copies in all languages: the nearest five are other copies of the line, of which the first is the usual's.
    assert neither["own script among 10 over 2"] < 60
    assert language["own script among 10 over 2"] < 60
    assert language["own language, other script among 10 in 6 languages"] > 40
    assert language["own script, other language among 10 in 6 languages"] == 0
    assert language["nearest is its other script in 6 languages"] == 100
    assert script["own script among 10 over 2"] == script["own script among 10, sr and sr-Latn"] == 100
    for name in ("own language, other script among 10", "nearest is its other script"):
        assert script[f"{name} in 6 languages"] == 0
    assert script["own script, other language among 10 in 6 languages"] > 40
    # 20 lines of six codes; of sr, 20 others are Cyrillic, and of sr-Latn, 60 others Latin; of bs and bs-Cyrl too.
    assert script["own script among 10, at random"] == pytest.approx(100 * 19 / 39)
    assert script["own language and script among 10 in 6 languages, at random"] == pytest.approx(100 * 19 / 119)
    assert script["own language, other script among 10 in 6 languages, at random"] == pytest.approx(100 * 20 / 119)
    assert script["own script, other language among 10 in 6 languages, at random"] == pytest.approx(100 * 40 / 119)
    # A method of some languages is compared in their pool, and others also in the pool of all.
    x = planted(rng, 0, 30)
    found = {s.metric.name for s in script_neighbours(x, {"en", "sr", "sr-Latn"})}
    assert {"own script among 10 over 1", "own script among 10 over 2"} < found
    assert {f"nearest is its other script in {n} languages" for n in (3, 6)} < found
    assert script_pairs(["zh", "sr-Latn", "hi-Latn", "sr", "zh-Hant"]) == [("sr", "sr-Latn"), ("zh", "zh-Hant")]
    assert list(script_neighbours({"en": np.ones((3, 2), np.float32)}, ())) == []


def test_means_over_pairs_are_of_all_and_of_the_fitted():
    means, a, b = PairMeans({"en", "de"}), Metric("a"), Metric("b")
    for code, values in (("de", [0.0, 1.0]), ("fr", [1.0, 1.0])):
        means.add(a, ("en", code), np.array(values))
        means.add(b, (code, "en"), np.zeros(2))
    found = {score.metric.name: (score.value, tuple(score.languages)) for score in means.scores()}
    assert found["a over 1"] == (0.5, ("en", "de"))
    assert found["a over 2"] == (0.75, ("en", "de", "fr"))
    gaps = {score.metric.name: score.queries.values.tolist() for score in means.difference(Metric("a - b"), a, b)}
    assert gaps == {"a - b over 1": [0, 1], "a - b over 2": [0.5, 1]}


# Belebele: two questions on the first passage, one on each other.
LINKS = ["l/2", "l/1", "l/3"]
ASKED = [("l/1", 1), ("l/2", 1), ("l/2", 2), ("l/3", 1)]


def belebele_rows(code):
    return [
        {"link": link, "question_number": number, "flores_passage": f"{code} of {link} b",
         "question": f"{code}? {link}", "mc_answer1": "x", "dialect": code, "ds": "2023"}
        for link, number in sorted(ASKED, key=lambda key: LINKS.index(key[0]))
    ]  # fmt: skip


@pytest.fixture
def belebele_folders(tmp_path):
    """The same in its own files, and on the Hub with configurations or with splits for the languages."""
    for code in ("eng_Latn", "hin_Deva", "hin_Latn"):
        rows = belebele_rows(code)
        write(tmp_path, f"files/{code}.jsonl", rows)
        write(tmp_path, f"hub/{code}/test-00000-of-00001.parquet", rows)
        write(tmp_path, f"old/data/{code}.jsonl", rows)
    return tmp_path


def test_belebele_is_the_same_from_everywhere(belebele_folders):
    data = read_belebele(belebele_folders / "files", ["hi-Latn", "en"])
    assert {*data.questions} == {*data.passages} == {"en", "hi-Latn"}
    assert data.passages["hi-Latn"] == [f"hin_Latn of l/{n} b" for n in (1, 2, 3)]
    assert data.questions["en"] == [f"eng_Latn? l/{n}" for n in (1, 2, 2, 3)]
    assert data.answers == [0, 1, 1, 2]
    every = read_belebele(belebele_folders / "files")
    assert sorted(every.questions) == ["en", "hi", "hi-Latn"]
    for folder in ("hub", "old"):
        assert read_belebele(f"hub:{belebele_folders / folder}") == every


def test_belebele_that_is_wrong(belebele_folders):
    folder = belebele_folders / "files"
    for call, message in (
        (lambda: belebele.belebele(folder, passage_text="passage: "), "--passage-text is 'passage: '; it needs {pass"),
        (lambda: read_belebele(folder / "nowhere"), r"unpack Belebele.zip of .*hub:mteb/belebele"),
        (lambda: read_belebele(folder, ["fr"]), "no fr.jsonl; it has en, hi, hi-Latn"),
        (lambda: read_belebele(f"hub:{belebele_folders / 'hub'}", ["fr"]), "no rows in fr; it has en, hi, hi-Latn"),
    ):
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            call()
    write(folder, "hin_Deva.jsonl", belebele_rows("hin_Deva")[:-1])
    with pytest.raises(ValueError, match=r"hi and en of .* differ in questions: \('l/3', '1'\)"):
        read_belebele(folder, ["en", "hi"])
    write(folder, "eng_Latn.jsonl", [row | {"question": " "} for row in belebele_rows("eng_Latn")])
    with pytest.raises(ValueError, match="eng_Latn.jsonl, line 1 has no text in the column question; it has"):
        read_belebele(folder, ["en"])


def test_belebele(belebele_folders, tmp_path):
    options = ["--data", str(belebele_folders / "files"), "--layers", "1", "--fit-on", "evaluated"]
    more = ["--question-text", "q {question}", "--transforms", "original", "lsar"]
    values = by_metric(evaluated(tmp_path / "out", "belebele", *ENCODER, *options, *more))
    # By hand, of each pair of languages: one relevant passage, whose gain is 1 / log2(rank + 1).
    data, encoder = read_belebele(belebele_folders / "files"), FakeEncoder(1)
    answer = np.array(data.answers)

    def by_hand(asked, found):
        q = encoder.encode([f"q {text}" for text in data.questions[asked]])
        ranks = candidate_ranks(q, encoder.encode(data.passages[found]), answer[:, None])[:, 0]
        return 100 * np.mean(1 / np.log2(ranks + 2))

    hand = {(a, b): by_hand(a, b) for a in data.questions for b in data.questions}
    for (a, b), value in hand.items():
        assert values["original", f"nDCG@10 {a}-{b}"]["value"] == pytest.approx(value)
        assert values["original", f"nDCG@10 {a}-{b}"]["languages"] == [a, b]
    same = np.mean([hand[code, code] for code in data.questions])
    across = np.mean([hand[pair] for code in ("hi", "hi-Latn") for pair in (("en", code), (code, "en"))])
    scripts = np.mean([hand["hi", "hi-Latn"], hand["hi-Latn", "hi"]])
    expected = {
        "same language over 3": same, "across languages over 4": across, "across scripts over 2": scripts,
        "gap over 3": same - across,
        "xx-en over 2": across * 2 - np.mean([hand["en", "hi"], hand["en", "hi-Latn"]]),
    }  # fmt: skip
    for name, value in expected.items():
        result = values["original", f"nDCG@10 {name}"]
        assert result["value"] == pytest.approx(value)
        assert result["low"] <= result["value"] <= result["high"]
    assert ("lsar", "own script among 5 over 1") in values
    assert values["lsar", "nDCG@10 gap over 3"]["options"]["question_text"] == "q {question}"


LINES = {
    "eng": ["a b c", "d e f", "g h i"],
    "srp_Cyrl": ["a b y", "d e z", "g h z"],
    "srp_Latn": ["a w c", "d e u", "v"],
}
NAMES = dict(zip(("en", "sr", "sr-Latn"), LINES, strict=True))


def test_parallel_is_the_same_from_everywhere(tmp_path):
    expected = {code: LINES[name] for code, name in NAMES.items()}
    codes = {"eng_Latn": LINES["eng"], **{code: LINES[code] for code in ("srp_Cyrl", "srp_Latn")}}
    for code, lines in codes.items():
        write(tmp_path, f"flores/{code}.devtest", lines)
        write(tmp_path, f"plus/devtest.{code}", lines)
        write(tmp_path, f"plain/{code}.txt", lines)
    write(tmp_path, "ntrex/newstest2019-src.eng.txt", LINES["eng"])
    for name in ("eng-GB", "srp-Cyrl", "srp-Latn"):
        write(tmp_path, f"ntrex/newstest2019-ref.{name}.txt", LINES.get(name.replace("-", "_"), ["other"] * 3))
    (tmp_path / "ntrex" / "newstest2019-ref-2.spa.txt").write_text("no\n")
    for folder in ("flores", "plus", "plain", "ntrex"):
        assert read_parallel(tmp_path / folder) == expected
    assert list(read_parallel(tmp_path / "flores", ["sr_Latn", "eng"])) == ["sr-Latn", "en"]
    rows = [{"id": n, **{code: lines[n] for code, lines in codes.items()}} for n in range(3)]
    write(tmp_path, "hub/data/devtest-00000-of-00001.parquet", rows)
    write(tmp_path, "hub/data/dev-00000-of-00001.parquet", rows[:1])
    assert read_parallel(f"hub:{tmp_path / 'hub'}") == expected
    assert read_parallel(f"hub:{tmp_path / 'hub'}", ["sr"]) == {"sr": LINES["srp_Cyrl"]}
    prepare(Monolingual(tmp_path / "plain"), tmp_path / "prepared")
    assert read_parallel(f"tfds:{tmp_path}/prepared/monolingual") == expected


def test_parallel_that_is_wrong(tmp_path):
    folder, flores = tmp_path / "x", flores_ntrex.flores
    # Each file is written, and stays for the next.
    for name, call, message in (
        ("de", lambda: flores(tmp_path / "nowhere"), r"no folder .*; unpack flores200_dataset.tar.gz"),
        ("de", lambda: flores(folder, ("fr",)), "x has no file for fr, such as de.txt or deu_Latn.devtest; it has de"),
        ("de", lambda: flores(folder), "x has de; give at least two languages"),
        ("fr", lambda: flores_ntrex.ntrex(folder), "x has de, fr; give en, or --pairs all"),
        ("en", lambda: flores_ntrex.scripts(folder), "none in two scripts"),
        ("deu", lambda: flores(folder, ("de", "en")), "de.txt and .*deu.txt are both for 'de'; keep only one"),
    ):
        write(folder, f"{name}.txt", ["a"])
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            call()
    (tmp_path / "deutsch.txt").write_text("a\n")
    with pytest.raises(ValueError, match=r"deutsch.txt is not named after a language; rename it, or choose"):
        read_parallel(tmp_path)
    write(folder, "en.txt", ["a", "b"])
    with pytest.raises(ValueError, match="differ in their number of lines: {'en': 2, 'fr': 1}"):
        flores(folder, ("en", "fr"))


@pytest.mark.parametrize("pairs", ["en", "all"])
def test_scripts(pairs, tmp_path, capsys):
    for code, lines in LINES.items():
        write(tmp_path, f"x/{code}.txt", lines)
    options = ["--data", str(tmp_path / "x"), "--layers", "1", "--fit-on", "evaluated", "--pairs", pairs]
    results = evaluated(tmp_path, "scripts", *ENCODER, *options, "--transforms", "original", "center")
    values = {r["metric"]: r for r in results if r["transform"] == "original"}
    encoder = FakeEncoder(1)
    x = {code: encoder.encode(LINES[name]) for code, name in NAMES.items()}

    def by_hand(a, b):
        found = np.asarray(nearest(x[a], x[b])[1])[:, 0]
        return 100 * np.mean(found == np.arange(3)), 100 * bitext_f1(found).mean()

    hand = {(a, b): by_hand(a, b) for a in x for b in x if a != b}
    across = np.mean([hand["sr", "sr-Latn"], hand["sr-Latn", "sr"]], axis=0)
    into = np.mean([hand["en", "sr"], hand["en", "sr-Latn"]], axis=0)
    for n, metric in enumerate(("accuracy", "F1")):
        assert values[f"across scripts {metric} over 2"]["value"] == pytest.approx(across[n])
        assert values[f"sr-sr-Latn {metric}"]["value"] == pytest.approx(hand["sr", "sr-Latn"][n])
        assert values[f"en-xx {metric} over 2"]["value"] == pytest.approx(into[n])
        if pairs == "all":
            assert values[f"xx-yy {metric} over 6"]["value"] == pytest.approx(np.mean([v[n] for v in hand.values()]))
    lost = values["en-xx accuracy lost in the other script over 1"]
    assert lost["value"] == pytest.approx(hand["en", "sr"][0] - hand["en", "sr-Latn"][0])
    assert "nearest is its other script in 3 languages" in values
    assert ("en-sr accuracy" in values) == (pairs == "en")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning:mteb")
def test_scores_are_those_of_mteb(tmp_path, tiny, monkeypatch, rng):
    mteb, datasets = need("mteb"), need("datasets")
    need("torch")
    from mteb.tasks.bitext_mining.multilingual import flores_bitext_mining
    from mteb.tasks.retrieval.multilingual import belebele_retrieval

    codes = {"eng_Latn": "en", "deu_Latn": "de", "arb_Arab": "ar", "arb_Latn": "ar-Latn"}
    lines = {code: [" ".join(rng.choice(list("abcdefghij"), 12)) for _ in range(20)] for code in codes}
    rows = {
        code: [
            {"link": f"l/{n}", "question_number": order, "flores_passage": text, "question": text[start : start + 15]}
            for n, text in enumerate(of_code)
            for order, start in ((1, 0), (2, 8))
        ]
        for code, of_code in lines.items()
    }
    for code in codes:
        write(tmp_path, f"belebele/{code}.jsonl", rows[code])
        write(tmp_path, f"flores/{code}.devtest", lines[code])

    def load_dataset(path, revision, name=None):
        table = lines if name is None else {key: [row[key] for row in rows[name]] for key in rows[name][0]}
        return datasets.DatasetDict({split: datasets.Dataset.from_dict(table) for split in ("test", "devtest")})

    monkeypatch.setattr(belebele_retrieval, "load_dataset", load_dataset)
    monkeypatch.setattr(flores_bitext_mining.datasets, "load_dataset", load_dataset)
    pairs = ["eng_Latn-deu_Latn", "arb_Latn-eng_Latn"]
    # A pair of the search begins with the language of the passages.
    subsets = {"BelebeleRetrieval": ["eng_Latn-eng_Latn", *pairs, "arb_Arab-arb_Latn"], "FloresBitextMining": pairs}
    tasks = [mteb.get_task(name, hf_subsets=of_task) for name, of_task in subsets.items()]
    found = mteb.evaluate(MtebEncoder(tiny), tasks, cache=None, show_progress_bar=False)
    theirs = {(r.task_name, s["hf_subset"]): s for r in found.task_results for of in r.scores.values() for s in of}
    ours = {}
    for task in (belebele.belebele(tmp_path / "belebele"), flores_ntrex.flores(tmp_path / "flores")):
        x = {key: tiny.encode(text) for key, text in task.parts[0].items()}
        setting = Setting(tiny.spec, True, list(codes.values()), ())
        ours |= {score.metric.name: score.value / 100 for score in task.scores(x, Method("original", {}), setting)}
    for subset in subsets["BelebeleRetrieval"]:
        read_, asked = (codes[name] for name in subset.split("-"))
        # Theirs is rounded.
        expected = theirs["BelebeleRetrieval", subset]["ndcg_at_10"]
        assert ours[f"nDCG@10 {asked}-{read_}"] == pytest.approx(expected, abs=6e-6)
    for subset in pairs:
        a, b = (codes[name] for name in subset.split("-"))
        for metric, name in (("F1", "f1"), ("accuracy", "accuracy")):
            assert ours[f"{a}-{b} {metric}"] == pytest.approx(theirs["FloresBitextMining", subset][name])
    assert len({ours[f"nDCG@10 {code}-{code}"] for code in codes.values()}) == 4
