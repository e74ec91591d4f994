"""Published numbers: copied rightly, of protocols that run, and beside ours only if they are the same quantity."""

import re
from pathlib import Path

import pytest

from eval.data.tatoeba import XTREME_36, read_pairs
from eval.papers.published import PROTOCOLS, PUBLISHED, published
from tests.commands import parsed
from tests.made_results import made_result

TATOEBA_FILES = Path(__file__).parents[2] / "data" / "tatoeba"
# A result on the papers' data, by task: number of languages, number of queries, and the options that matter.
DATA = {
    "tatoeba": (36, 31_692, {}),
    "bucc": (5, 35_000, {}),
    "lareqa": (11, 13_090, {}),
    "sts17": (2, 250, {}),
    "geometry": (37, 59_926, {"text": "tatoeba"}),
    "amazon": (4, 24_000, {}),
}


def result(task, metric, fit_on="udhr", **changes):
    count, n, options = DATA[task]
    options = {"fit_on": fit_on} | options | changes.pop("options", {})
    same = {"task": task, "metric": metric, "languages": tuple(map(str, range(count))), "n": n, "max_length": 512}
    return made_result(**same | {"options": options} | changes)


def check_published_metrics(task, metrics):
    """A task measures each metric of its published numbers, but for sizes, tracks and outliers, which may differ."""
    patterns = {number.metric for number in PUBLISHED if PROTOCOLS[number.protocol].task == task}
    for pattern in {pattern for pattern in patterns if " of dimension " not in pattern}:
        loose = re.sub(r"over \d+$", r"over \\d+", pattern).replace("precomputed", "")
        loose = re.sub(r"^Pearson .*", "Pearson .*", loose)
        assert any(re.fullmatch(loose, metric) for metric in metrics), f"{task} does not measure {pattern}"


TATOEBA = ("tatoeba", "en-xx mean over 36")
# Copied by hand: task, metric, fitted on, encoder, method, value, table.
SAMPLE = [
    (*TATOEBA, "udhr", "XLM", "lir components=15", 31.65, "Xie et al. 2022, Tatoeba"),
    (*TATOEBA, "evaluated", "mBERT", "cbie", 45.79, "Hämmerl et al. 2023, Tatoeba"),
    (*TATOEBA, "evaluated", "XLM-R base", "largest=10", 60.09, "Hämmerl et al. 2023, Table 4"),
    (*TATOEBA, "evaluated", "S-BERT", "sample-whitening", 87.35, "Hämmerl et al. 2023, Tatoeba"),
    ("bucc", "F1 mean", "udhr", "XLM-R base", "zero=306", 58.0, "Hämmerl et al. 2023, Table 4"),
    ("bucc", "F1 mean", "udhr", "S-BERT", "original", 85.7, "Hämmerl et al. 2023, Table 4"),
    ("lareqa", "mAP, dot", "udhr", "mBERT X-X", "lsar rank=10", 45.89, "Xie et al. 2022, Table 2, LSAR of rank 11"),
    ("sts17", "Pearson 4b.es-en", "evaluated", "XLM-R base", "original", -5.9, "Hämmerl et al. 2023, Table 5"),
    ("geometry", "NMI", "udhr", "XLM-R large", "lsar rank=36", 0.0856, "Xie et al. 2022, clustering"),
    ("geometry", "mean of dimension 588", "udhr", "XLM-R base", "original", -15.18, "Hämmerl et al. 2023, Table 1"),
    ("geometry", "contribution of dimension 195", "udhr", "mBERT", "original", 0.16, "Hämmerl et al. 2023, Table 1"),
    ("amazon", "accuracy mean", "udhr", "mBERT", "lsar rank=1", 75.58, "Xie et al. 2022, Table 3"),
]  # fmt: skip


@pytest.mark.parametrize("row", SAMPLE)
def test_published_numbers_are_the_papers(row):
    task, metric, fit_on, encoder, method, value, source = row
    numbers = published(result(task, metric, fit_on))
    found = [number for number in numbers if (number.encoder, number.method) == (encoder, method)]
    assert [(number.value, number.source) for number in found] == [(value, source)]


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
    for fit_on in ("udhr", "evaluated"):
        assert published(result(task, metric_of_all, fit_on))
        assert published(result(task, metric, fit_on, **changes)) == []


def test_syntax_is_that_of_36_languages():
    metric = "syntax, removed (precomputed syntactic distances of URIEL)"
    assert {number.value for number in published(result("geometry", metric, n=36))} == {0.6910, 0.6378, 0.7526, 0.6894}
    assert published(result("geometry", metric, n=35)) == []
    assert published(result("geometry", "syntax, removed (cosine of syntax_knn)", n=36)) == []


@pytest.mark.skipif(not TATOEBA_FILES.is_dir(), reason="data/tatoeba is not there")
def test_tatoeba_has_the_pairs_that_numbers_are_of():
    english = [text for texts, _ in read_pairs(TATOEBA_FILES, XTREME_36).values() for text in texts]
    assert (len(english), len(english) + len(set(english))) == (DATA["tatoeba"][1], DATA["geometry"][1])


def test_methods_stand_beside_those_that_were_fitted_likewise():
    # A whitening of each file is not one of all languages, nor the reverse.
    of_files, of_text = (
        {number.method for number in published(result(*TATOEBA, fit_on))} for fit_on in ("evaluated", "udhr")
    )
    assert "cbie" in of_files - of_text
    assert "lsar rank=36" in of_text - of_files
    assert "original" in of_files & of_text
    # The papers rank answers by dot product.
    for task, metric in (("lareqa", "mAP"), ("tatoeba", "en-xx mean over 8 unseen")):
        assert published(result(task, metric)) == []
    # What was chosen on other data stands nowhere.
    assert "largest=10" not in {number.method for number in published(result("bucc", "F1 mean"))} | of_text


def test_a_name_is_never_a_longer_name_or_another_rank():
    names = {number.method for number in PUBLISHED}
    for number in PUBLISHED:
        assert [name for name in names if number.is_of(name)] == [number.method]
        assert number.is_of(f"{number.method} eps=1e-05 batch=512")
    [lsar] = [number for number in published(result(*TATOEBA)) if number.is_of("lsar rank=36") and number.value < 40]
    assert not any(map(lsar.is_of, ("lsar", "lsar rank=3", "lsar rank=35", "lsar-published rank=36")))


def test_every_published_number_has_a_protocol_that_runs():
    assert {number.protocol for number in PUBLISHED} == set(PROTOCOLS)
    for number in PUBLISHED:
        protocol = PROTOCOLS[number.protocol]
        options = parsed(f"python -m eval {protocol.command}")
        if number.method.startswith(("zero", "largest", "sample-whitening", "cbie", "lir", "lsar", "center")):
            assert number.method.split()[0].partition("=")[0] in options.transforms
        if number.method.startswith("zero="):
            assert number.method.removeprefix("zero=") in options.zero
        for name, option in (("rank", "ranks"), ("components", "components")):
            if found := re.search(rf"{name}=(\d+)", number.method):
                # By default, LSAR's rank is one less than the number of languages. Results of Tatoeba do not count
                # English, which methods are fitted on too.
                default = number.languages if protocol.task == "tatoeba" else number.languages - 1
                assert int(found[1]) in (getattr(options, option) or [default])
        for name, value in protocol.settings.items():
            assert getattr(options, name) == value
        if protocol.evaluated:
            assert options.fit_on == "evaluated"
        elif protocol.evaluated is False and number.languages in (36, 37):
            assert options.fit_on != "udhr", "the UDHR lacks one of the languages"
