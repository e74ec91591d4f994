"""The costs and gains of methods: by hand, with planted differences, and the page."""

import re
from dataclasses import replace

import numpy as np
import pytest

from eval.__main__ import main
from eval.report import tradeoff
from lsar_jax import Moments
from lsar_jax.measures.compared_methods import FITTED, Method
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.resampling import Interval
from lsar_jax.measures.results import write_results
from lsar_jax.transforms import fit_langsae
from tests.made_results import made_result as made


def compare(results):
    """The comparison, with differences by encoder and layer, method and column."""
    found = tradeoff.compare(results)
    nested = [{}, {}]
    for tree, differences in zip(nested, (found.gains, found.leads), strict=True):
        for (where, name, column), value in differences.items():
            tree.setdefault(where, {}).setdefault(name, {})[column] = value
    return found._replace(gains=nested[0], leads=nested[1])


def of_metric(metric):
    """The fields of a result that its metric gives."""
    kind = "in one language" if "one language" in metric else "across languages" if metric != "F1" else ""
    return {"metric": metric, "kind": kind, "column": "from English" if " over " in metric else ""}


def scored(rng, task, metric, transform, shift, layer=8, **more):
    """A result of 300 queries, most of them shifted from those of all other methods."""
    base = np.random.default_rng(len(metric)).uniform(0, 60, 300)
    values = base + shift + rng.normal(0, 1, 300) * (shift != 0)
    fields = {"task": task, "transform": transform, "layer": layer, "value": float(values.mean()), **of_metric(metric)}
    one_map = transform not in ("original", "center", "cbie")
    return made(one_map=one_map, **fields, **more).resampled(QueryScores(values))


@pytest.fixture
def results(rng):
    return [
        scored(rng, "lareqa", "mAP", "original", 0),
        scored(rng, "lareqa", "mAP", "lsar", 10),
        scored(rng, "lareqa", "mAP", "center", 0.01),
        scored(rng, "lareqa", "mAP in one language", "original", 0),
        scored(rng, "lareqa", "mAP in one language", "lsar", -3),
        made(task="sts17", **of_metric("Spearman cross-lingual mean"), transform="original", value=40.0),
        made(task="sts17", **of_metric("Spearman cross-lingual mean"), transform="lsar", value=46.0, one_map=True),
        scored(rng, "lareqa", "mAP", "lsar", 50, options={"fit_on": "evaluated"}),
        scored(rng, "bucc", "F1", "lsar", 5),
    ]


def test_differences_are_those_of_each_layer_and_measure(results):
    found = compare(results).gains
    assert list(found) == ["bundled, layer 8"]
    lsar, center = (found["bundled, layer 8"][name] for name in ("lsar", "center"))
    assert list(lsar) == ["lareqa, mAP", "lareqa, mAP in one language", "sts17, Spearman cross-lingual mean"]
    assert lsar["lareqa, mAP"].value == pytest.approx(results[1].value - results[0].value)
    assert [gain.sign for gain in lsar.values()] == [1, -1, 0]
    assert lsar["sts17, Spearman cross-lingual mean"] == Interval(6.0)
    assert center["lareqa, mAP"].sign == 0


def test_seeds_are_one_method(results, rng):
    seeds = [scored(rng, "lareqa", "mAP", "cbie", shift, seed=number) for number, shift in enumerate((2, 4, 6))]
    gain = compare([results[0], *seeds]).gains["bundled, layer 8"]["cbie"]["lareqa, mAP"]
    assert gain.value == pytest.approx(4, abs=0.3)
    assert gain.sign == 1


def test_full_ranks_of_other_numbers_of_languages_are_one_method(results, rng):
    of_three, of_five = (dict.fromkeys("abcde"[:count], 10) for count in (3, 5))
    ranks = [
        scored(rng, "lareqa", "mAP", "mean+lsar", 5, parameters={"rank": 2}, fitted_languages=of_three),
        scored(rng, "udhr", "mAP", "original", 0),
        scored(rng, "udhr", "mAP", "mean+lsar", 5, parameters={"rank": 4}, fitted_languages=of_five),
        scored(rng, "udhr", "mAP", "mean+lsar", 3, parameters={"rank": 2}, fitted_languages=of_five),
    ]
    found = compare([results[0], *ranks]).gains["bundled, layer 8"]
    columns = {name: list(of) for name, of in found.items()}
    assert columns == {"mean+lsar": ["lareqa, mAP", "udhr, mAP"], "mean+lsar rank=2": ["udhr, mAP"]}


@pytest.mark.parametrize(
    ("shifts", "expected"),
    [
        ({"original": (0, 0), "lsar": (9, 4)}, {"lsar": 4}),
        # A method that was not fitted on all languages is compared on those that it was fitted on, and so are all.
        ({"original": (0, 0), "lsar": (9, 4), "center": (6,)}, {"lsar": 9, "center": 6}),
    ],
)
def test_of_several_means_the_widest_is_taken_that_most_methods_have(rng, shifts, expected):
    means = [
        scored(rng, "tatoeba", f"en-xx mean over {len(codes)}", name, shift, languages=codes)
        for name, of in shifts.items()
        for codes, shift in zip((("de", "fr"), ("de", "fr", "ru")), of, strict=False)
    ]
    found = compare(means).gains["bundled, layer 8"]
    assert {name: of["tatoeba, from English"].value for name, of in found.items()} == pytest.approx(expected, abs=0.3)


def test_the_best_is_compared_with_each_of_the_others(results, rng):
    """A method that is nearly as good has no sure lead, and a better one that is not one affine map is no candidate."""
    more = [
        scored(rng, "lareqa", metric, name, shift)
        for name, shifts in {"joint": (10.2, 0.01), "whitening": (4, 2), "cbie": (30, 30)}.items()
        for metric, shift in zip(("mAP", "mAP in one language"), shifts, strict=True)
    ]
    rows = [r for r in [*results, *more] if r.task == "lareqa"]
    found = compare(rows)
    assert found.best == {"bundled, layer 8": "joint"}
    leads = found.leads["bundled, layer 8"]
    signs = {name: [gain.sign for gain in of.values()] for name, of in leads.items()}
    assert signs == {"lsar": [0, 1], "center": [1], "whitening": [1, -1], "cbie": [-1, -1]}
    joint = next(r for r in more if r.transform == "joint")
    assert leads["lsar"]["lareqa, mAP"].value == pytest.approx(joint.value - rows[1].value)


def test_methods_that_were_measured_by_different_tasks(rng):
    """Methods with as many measures are candidates, and are compared in what both have."""
    measured = {"original": ("lareqa", "udhr", "bitext"), "lsar": ("lareqa", "udhr"), "joint": ("lareqa", "bitext")}
    metrics = {"lareqa": "mAP", "udhr": "mAP", "bitext": "en-xx mean over 20"}
    shifts = {"original": 0, "lsar": 5, "joint": 9, "cbie": 1}
    places = [(name, task) for name, tasks in {**measured, "cbie": ("udhr",)}.items() for task in tasks]
    found = compare([scored(rng, task, metrics[task], name, shifts[name]) for name, task in places])
    assert found.best == {"bundled, layer 8": "joint"}
    assert {name: list(of) for name, of in found.leads["bundled, layer 8"].items()} == {"lsar": ["lareqa, mAP"]}


def test_methods_with_one_map(rng):
    x = {code: rng.normal(size=(40, 16)) + rng.normal(size=16) for code in ("de", "en", "fr")}
    moments = {code: Moments.from_embeddings(value, second_moment=True) for code, value in x.items()}
    for name, method in FITTED.items():
        if method.needs == "embeddings":
            continue
        transform = method(moments, **({"zero": "1,2"} if name == "zero" else {}))
        assert Method.of(name, transform).one_map == (name not in ("center", "lir", "language-whitening")), name
        assert Method.saved(transform).one_map == Method.of(name, transform).one_map
    assert not Method("original", {}).one_map
    assert not Method.of("langsae", fit_langsae(x, 2, 4, steps=2)).one_map


def test_of_many_equal_methods_the_best_is_not_ahead(rng):
    """It is chosen by the scores that it is compared on."""
    ahead = 0
    for _ in range(60):
        same = {name: QueryScores(rng.normal(50, 10, 60)) for name in ("original", *map(str, range(12)))}
        fields = {"task": "lareqa", **of_metric("mAP")}
        plain = {name: made(transform=name, one_map=name != "original", **fields) for name in same}
        rows = [replace(plain[name], value=of.mean).resampled(of) for name, of in same.items()]
        leads = compare(rows).leads["bundled, layer 8"].values()
        ahead += any(gain.sign for of in leads for gain in of.values())
    assert ahead <= 7  # of 60, where 3 are expected; 13 if the limit were only of the differences from the best


def test_data_and_options_are_not_mixed(rng):
    """Two sets of data are two columns; other options of a task, encoders, fits and copies are refused."""

    def both(**more):
        return [scored(rng, "lareqa", "mAP", name, shift, **more) for name, shift in (("original", 0), ("lsar", 9))]

    first, second = ({"data": f"data/{name}", "mix": ""} for name in ("xquad-r", "mlqa-r"))
    found = compare([*both(options=first), *both(options=second)])
    assert found.data == ["data/xquad-r", "data/mlqa-r"]
    assert list(found.gains["bundled, layer 8"]["lsar"]) == [f"lareqa, mAP ({data})" for data in found.data]
    original, lsar = both(options=first)
    with pytest.raises(ValueError, match="lareqa at layer 8 has mix '' and 'en'; give a folder with one of them"):
        compare([original, *both(options={**first, "mix": "en"})[1:]])
    with pytest.raises(ValueError, match="has max_length 128 and 64"):
        compare([original, replace(lsar, max_length=64)])
    with pytest.raises(ValueError, match="2 results of lsar at layer 8 in lareqa, mAP, fitted on a and b"):
        compare([original, replace(lsar, fitted_on="a", seed=1), replace(lsar, fitted_on="b", seed=2)])
    with pytest.raises(ValueError, match="2 results of lsar .* fitted on nothing"):
        compare([original, lsar, lsar])
    with pytest.raises(ValueError, match="has mix '' and 'en'"):
        compare([*both(options=first), *both(options={**first, "mix": "en"})])


def test_the_page(results, tmp_path, capsys):
    write_results(results, tmp_path / "lareqa" / "results.jsonl")
    assert main(["report", str(tmp_path)]) == 0
    best = "layer 8: of the methods that need no language and are one affine map, lsar gains most"
    assert best in capsys.readouterr().out
    page = (tmp_path / "report.md").read_text()
    for said in ("for these 4 differences", "layer 8: lsar minus another method", "+10.0 ▲", "▼"):
        assert said in page
    assert (tmp_path / "tradeoff.png").read_bytes()[:4] == b"\x89PNG"


def test_local_scaling_that_reaches_a_method(rng):
    shifts = {"original": 0, "original+csls": 5, "center": 4, "lsar": 9, "lsar+csls": 3, "cbie": -1}
    columns = [("lareqa", "mAP"), ("lareqa", "mAP in one language")]
    results = [scored(rng, *column, name, shift) for name, shift in shifts.items() for column in columns]
    found = tradeoff.compare(results)
    # Means are over what all methods have: STS17 has no scores by CSLS.
    sts = [scored(rng, "sts17", "Spearman mean", name, shift) for name, shift in (("original", 0), ("center", 40))]
    [panel] = tradeoff.mean_gains(tradeoff.compare([*results, *sts])).values()
    expected = {name: shift for name, shift in shifts.items() if shift}
    assert {name: round(across) for name, (_, across) in panel.items()} == expected
    line = tradeoff.summary(found)[0]
    said = r".*layer 8: CSLS alone gains as much as center in lareqa, mAP \(\+[45].\d and \+[34].\d\)\."
    assert re.fullmatch(said, line)
    without = tradeoff.compare([scored(rng, *columns[0], name, shifts[name]) for name in ("original", "lsar")])
    assert not [line for line in tradeoff.summary(without) if "CSLS" in line]
