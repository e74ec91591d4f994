"""Published numbers: read rightly, each with a quantity, and beside ours only if they are the same quantity."""

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from eval.papers.published import PROTOCOLS, PUBLISHED, items_of, published
from tests.made_results import made_result

ROOT = Path(__file__).parents[2]
# A result on the papers' data, by task: number of languages, number of queries, and the options that matter.
DATA = {
    "tatoeba": (36, 31_692, {}), "bucc": (5, 35_000, {}), "lareqa": (11, 13_090, {}), "sts17": (2, 250, {}),
    "geometry": (37, 59_926, {"text": "tatoeba"}), "amazon": (4, 24_000, {}),
}  # fmt: skip


def result(task, metric, fit_on="text/oscar", **changes):
    count, n, options = DATA[task]
    options = {"fit_on": fit_on} | options | changes.pop("options", {})
    same = {"task": task, "metric": metric, "languages": tuple(map(str, range(count))), "n": n, "max_length": 512}
    return made_result(**same | {"options": options} | changes)


def check_published_metrics(task, metrics):
    """A task measures each metric of its published numbers of several languages, but for sizes and outliers."""
    names = {number.metric for number in PUBLISHED if number.task == task and number.quantity.languages > 2}
    for name in names:
        loose = re.sub(r"\d+(?=$|,)", r"\\d+", re.escape(name))
        loose = re.sub(r"\\\(precomputed.*", r"\\(.*", loose)
        if "of dimension" not in name and " of ORACLE" not in name and "without id" not in name:
            assert any(re.fullmatch(loose, metric) for metric in metrics), f"{task} does not measure {name}"


TATOEBA = ("tatoeba", "en-xx mean over 36")
# Copied by hand: task, metric, fitted on, encoder, method, value, table.
SAMPLE = [
    (*TATOEBA, "text/oscar", "XLM", "lir components=15", 31.65, "Xie et al. 2022, Table 1"),
    (*TATOEBA, "evaluated", "mBERT", "cbie", 45.79, "Hämmerl et al. 2023, Table 5"),
    ("bucc", "F1 mean", "udhr", "XLM-R base", "zero=306", 58.0, "Hämmerl et al. 2023, Table 4"),
    ("lareqa", "mAP, dot", "tfds:wiki40b/{}", "mBERT X-X", "lsar rank=10", 46.39, "Xie et al. 2022, Table 6"),
    ("lareqa", "same language, dot", "oscar", "mBERT X-X", "original", 84.57, "Xie et al. 2022, Figure 3 / sec. 4.5.1"),
    ("sts17", "Pearson 4b.es-en", "evaluated", "XLM-R base", "original", -5.9, "Hämmerl et al. 2023, Table 5"),
    ("geometry", "NMI", "text/oscar", "LaBSE", "lsar rank=36", 0.0306, "Xie et al. 2022, Table 12"),
    ("geometry", "contribution of dimension 195", "udhr", "mBERT", "original", 0.16, "Hämmerl et al. 2023, Table 1"),
]  # fmt: skip


@pytest.mark.parametrize("row", SAMPLE)
def test_published_numbers_are_the_papers(row):
    task, metric, fit_on, encoder, method, value, source = row
    found = [number for number in published(result(task, metric, fit_on)) if number.source == source]
    assert [n.value for n in found if (n.encoder, n.method) == (encoder, method)] == [value]


def test_every_number_of_the_tables_is_there():
    with (ROOT / "eval/papers/published.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4_808
    words = sum(row["task"] == "loss components" for row in rows)
    assert len(PUBLISHED) + words == sum(bool(items_of(row["table"])) for row in rows)
    counts = Counter((number.paper, item) for number in PUBLISHED for item in items_of(number.table))
    assert len(PROTOCOLS) == 37
    assert {table for table in PROTOCOLS if not counts[table]} == {("Ki et al. 2024", "Table 1")}
    # Rows that look permuted, and cells that contradict others, stand beside nothing.
    suspect = [number for number in PUBLISHED if "suspect" in number.note]
    assert len(suspect) == 24
    assert all(number.other for number in suspect)


def test_numbers_are_in_the_unit_and_digits_of_ours():
    found = {(n.encoder, n.method, n.metric): (n.value, n.decimals) for n in PUBLISHED if n.table == "Table 5"}
    assert found["XLM-R base", "original", "Pearson 4a.es-en"] == (4.0, 0)
    assert found["XLM-R base", "cbie", "Pearson 2.ar-en"] == (31.6, 1)
    assert found["LaBSE", "lsar rank=36", "syntax, left (precomputed syntactic distances of URIEL)"] == (-0.2362, 4)
    layers = {(n.encoder, n.layer) for n in PUBLISHED if n.task == "amazon" and n.table in ("Table 9", "Table 10")}
    assert layers == {("XLM", 12), ("XLM", 16), ("XLM-R large", 11), ("XLM-R large", 24)}


def test_a_language_has_its_own_number_of_pairs():
    for code, n in (("de", 1_000), ("jv", 205)):
        one = {"languages": (code,), "n": n}
        found = published(result("tatoeba", f"en-{code} accuracy", **one))
        assert {number.table for number in found} == {f"Table {number}" for number in range(17, 21)}
        assert not published(result("tatoeba", f"en-{code} accuracy", **one | {"n": n - 1}))


@pytest.mark.parametrize(
    ("task", "metric", "changes"),
    [
        # Other pairs, or 35 of the languages.
        (*TATOEBA, {"n": 31_691}),
        ("tatoeba", "en-xx mean over 35", {"n": 31_005, "languages": tuple(map(str, range(35)))}),
        ("bucc", "F1 mean", {"n": 1_729}),
        ("geometry", "NMI", {"options": {"text": "text/wiki"}}),
        ("geometry", "drawn English-xx", {"options": {"text": "udhr"}}),
        ("amazon", "accuracy mean", {"max_length": 128}),
        ("sts17", "Pearson 4b.es-en", {"n": 249}),
    ],
)
def test_no_number_stands_beside_another_quantity(task, metric, changes):
    metric_of_all = metric.replace("35", "36")
    fit_on = "evaluated" if task == "sts17" else "text/oscar"
    assert published(result(task, metric_of_all, fit_on))
    assert published(result(task, metric, fit_on, **changes)) == []


def test_syntax_is_that_of_36_languages():
    metric = "syntax, removed (precomputed syntactic distances of URIEL)"
    assert {number.value for number in published(result("geometry", metric, n=36))} == {0.6910, 0.6378, 0.7526, 0.6894}
    assert published(result("geometry", metric, n=35)) == []
    assert published(result("geometry", "syntax, removed (cosine of syntax_knn)", n=36)) == []


def test_methods_stand_beside_those_that_were_fitted_likewise():
    # A whitening of each file is not one of all languages, nor the reverse; nor is one of other text.
    texts = "evaluated", "text/oscar", "udhr"
    of_files, of_text, of_udhr = ({n.method for n in published(result(*TATOEBA, text))} for text in texts)
    assert {"cbie", "largest=10"} <= of_files - of_text
    assert {"lsar rank=36", "center"} <= of_text - of_files
    assert of_udhr == {"original", "zero=588", "zero=306", "zero=239"} <= of_files & of_text
    tables = {
        fit_on: {
            number.table for number in published(result("lareqa", "mAP, dot", fit_on)) if number.method == "center"
        }
        for fit_on in ("text/oscar", "tfds:wiki40b/{}")
    }
    assert tables == {"text/oscar": {"Table 2", "Table 7"}, "tfds:wiki40b/{}": {"Table 6"}}
    # The papers rank answers by dot product.
    for task, metric in (("lareqa", "mAP"), ("tatoeba", "en-xx mean over 8 unseen")):
        assert published(result(task, metric)) == []


def test_pooling_is_that_of_the_number():
    one = {"metric": "Spearman en-ar", "languages": ("en", "ar"), "n": 250}
    found = [
        {number.encoder for number in published(result("sts17", pooling=pooling, **one)) if number.method == "original"}
        for pooling in ("mean", "pooler")
    ]
    assert found[0] - found[1] == {"InfoXLM base"}


HEAD = "meaning objective=meat"


def trained(data, count=420_000, **changes):
    """The options and the sentences of heads that were trained as in Ki et al."""
    options = {"data": data, "trained_on": "data/oracle", "learning_rate": 1e-5, "batch": 512} | changes
    codes = ("de", "pt", "it", "es", "fr", "zh", "ar", "ja", "nl", "ro")
    return {"options": options, "fitted_languages": dict.fromkeys(codes, count) | {"gn": 3_000, "ay": 90_000}}


@pytest.mark.parametrize(
    ("task", "metric", "data", "count", "table", "encoder", "method", "value"),
    [
        ("tatoeba", "en-xx mean of ORACLE's 14, both ways", "data/tatoeba-2023", 14, "Table 4", "LaBSE",
         f"{HEAD} + oracle (code, all)", 96.11),
        ("tatoeba", "en-xx mean over 10, both ways", "data/tatoeba-2023", 10, "Table 9", "LaBSE", HEAD, 96.32),
        ("tatoeba", "en-de accuracy, both ways", "data/tatoeba-2023", 1, "Table 9", "LaBSE", "original", 99.20),
        ("bitext", "en-xx mean over 12, both ways", "data/oracle", 12, "Table 8", "LaBSE", "original", 81.67),
        ("code-switch", "en-xx mean over 8, both ways", "data/tatoeba-2023", 8, "Table 11", "LASER", "original", 95.89),
    ],
)  # fmt: skip
def test_means_of_both_ways(task, metric, data, count, table, encoder, method, value):
    """Other data, and one way alone, have no numbers in these tables."""
    same = {"task": task, "metric": metric, "languages": tuple(map(str, range(count))), **trained(data)}
    found = published(made_result(**same))
    assert [n.value for n in found if (n.table, n.encoder, n.method) == (table, encoder, method)] == [value]
    assert published(made_result(**same | trained("data/tatoeba"))) == []
    # Nor has a head that was trained on another text, on 500 sentences of it, or otherwise.
    for other in ({"trained_on": "data/bitext"}, {"count": 500}, {"learning_rate": 1e-3}, {"batch": 64}):
        assert not [n for n in published(made_result(**same | trained(data, **other))) if n.method.startswith(HEAD)]
    one_way = published(made_result(**same | {"metric": metric.removesuffix(", both ways")}))
    assert table not in {number.table for number in one_way}


def test_a_name_is_never_a_longer_name_or_another_rank():
    names = {number.method for number in PUBLISHED} - {""}
    for number in {number.method: number for number in PUBLISHED if number.method}.values():
        assert [name for name in names if number.is_of(name)] == [number.method]
        assert number.is_of(f"{number.method} eps=1e-05 batch=512")
    [lsar] = [number for number in published(result(*TATOEBA)) if number.is_of("lsar rank=36") and number.value < 40]
    assert not any(map(lsar.is_of, ("lsar", "lsar rank=3", "lsar rank=35", "lsar-published rank=36")))


ALIGNMENT = ("alignment_steps", "alignment_batch", "alignment_learning_rate")


def transfer(metric, languages, n, transform, fit_on, **changes):
    """A result of Wu and Dredze's study, trained as in the paper."""
    training = "all blocks trained on all sentences in 5 passes"
    alignment = dict(zip(ALIGNMENT, (100_000, 128, 1e-4), strict=True))
    options = {"training": training, "batch": 32, "learning_rate": 2e-5, "fit_on": fit_on} | alignment | changes
    same = {"metric": metric, "languages": tuple(languages), "n": n, "transform": transform}
    return made_result(task="transfer-pos", options=options, **same)


def found(result):
    """The papers' numbers of mBERT with a result's method."""
    numbers = [number for number in published(result) if number.encoder in ("", "mBERT")]
    return {(number.table, number.value) for number in numbers if number.is_of(result.transform)}


def test_transfer_stands_beside_the_same_bitext_and_training():
    nine = map(str, range(9))
    multiun, opus = "results/words-multiun", "results/words-opus-100"
    average = transfer("accuracy all languages", nine, 8161, "strong", multiun)
    assert found(average) == {("Table 1(a)", 79.0), ("Table 3", 79.0)}
    assert found(replace(average, metric="accuracy all languages, std")) == {("Table 1(a)", 0.7), ("Table 3", 0.7)}
    assert {table for table, _ in found(transfer("accuracy de", ["de"], 977, "l2", opus))} == {"Table 4"}
    # The encoder that was not aligned is in both tables.
    assert {table for table, _ in found(transfer("accuracy de", ["de"], 977, "original", ""))} == {"Table 3", "Table 4"}
    other = ({"training": "the last 6 blocks trained on all sentences in 5 passes"}, {"batch": 8})
    for changes in (*other, *({name: 7} for name in ALIGNMENT)):
        assert not found(transfer("accuracy de", ["de"], 977, "l2", opus, **changes))
    assert not found(transfer("accuracy de", ["de"], 500, "l2", opus))
    assert found(transfer("examples de-test", ["de"], 1, "", "")) == {("Table 2", 977)}
