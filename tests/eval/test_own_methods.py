"""Fit functions in files of the user's own, compared beside the methods of the library."""

import re

import numpy as np
import pytest

from eval.__main__ import main
from lsar_jax.measures.compared_methods import FITTED, fit_methods
from lsar_jax.measures.own_methods import add_methods
from tests.eval.test_tasks import read

# Subtracts the mean over languages, as ``mean`` does, from embeddings or from moments.
MINE = """
import numpy as np
import lsar_jax as lj

def fit_of_mine(x):
    moments = {code: of if isinstance(of, lj.Moments) else lj.Moments.from_embeddings(of) for code, of in x.items()}
    seen.append((type(x["en"]).__name__, [getattr(of, "scatter", None) is not None for of in x.values()]))
    shift = np.mean([of.mean for of in moments.values()], axis=0)
    fit = lj.transforms.Fit.of("my own", moments, by_language=False, shrunk=0)
    return lj.Transform((lj.transforms.Step.of(shift=shift),), (fit,))

def fit_three(x):
    return 3

def fit_mean(x):
    pass

def fit_wrong(x):
    raise KeyError("no\\n such language")

fit_wrong.needs = "pairs"
seen = []
number = 3
"""
COMMON = ["--languages", "de", "en", "fr", "--layers", "1"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A file of methods in the current folder; what is added to the table is removed in the end."""
    monkeypatch.chdir(tmp_path)
    before = dict(FITTED)
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    yield path
    FITTED.clear()
    FITTED.update(before)


def test_a_method_is_a_row_of_a_task(mine, fake, capsys):
    task = ["udhr", *COMMON, "--transforms", "original", "mean", "--method", "mine.py:fit_of_mine", "--out", "out"]
    assert main([*task, "--scores", "cosine", "csls", "--strengths", "0.5", "1"]) == 0
    results = {(r["transform"], r["parameters"].get("strength"), r["metric"]): r for r in read(mine.parent / "out")}
    for end, strength, metric in ((end, s, m) for end in ("", "+csls") for s in (0.5, None) for m in ("mAP",)):
        own, same = results[f"of-mine{end}", strength, metric], results[f"mean{end}", strength, metric]
        assert (own["value"], own["low"], own["high"]) == (same["value"], same["low"], same["high"])
        assert own["low"] < own["value"] < own["high"]
        assert own["fits"][0].startswith("my own(shrunk=0) on 75 sentences of 3 languages")
        assert (own["fitted_on"], own["one_map"]) == ("udhr fit", True)
        [place] = own["options"]["method"]
        assert re.fullmatch(r"mine\.py:fit_of_mine@[0-9a-f]{12}", place)
    assert "of-mine shrunk=0" in capsys.readouterr().out

    # Another content is not mixed with it.
    before = (mine.parent / "out" / "results.jsonl").read_bytes()
    mine.write_text(f"{MINE}# changed\n")
    assert main([*task, "--scores", "cosine", "csls", "--strengths", "0.5", "1"]) == 1
    assert re.search(rf"method was '{place}' and is now 'mine\.py:fit_of_mine@\w+'", capsys.readouterr().err)
    assert (mine.parent / "out" / "results.jsonl").read_bytes() == before
    # A place with a digest is that content.
    assert main(["udhr", *COMMON, "--method", place, "--out", "other"]) == 1
    assert "the file has another digest" in capsys.readouterr().err


@pytest.mark.slow
def test_all_tasks_and_the_table_of_costs_and_gains(mine, fake, capsys):
    command = ["all", "--layers", "1", "--tasks", "udhr", "--transforms", "original", "mean", "--out", "every"]
    command += ["--method", "mine.py:fit_of_mine"]
    assert main(command) == 0
    page = (mine.parent / "every" / "report.md").read_text()
    costs = page[page.index("What each method costs and gains") : page.index("## bundled/udhr")]
    assert all(re.search(r"^\| of-mine shrunk=0 \| ", part, re.M) for part in (costs, page.removeprefix(costs)))
    capsys.readouterr()
    assert main(command) == 0
    assert "udhr: skipped, the results are already in" in capsys.readouterr().out
    mine.write_text(f"{MINE}# changed\n")
    assert main(command) == 1
    assert "method was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("needs", "kind", "second"),
    [("embeddings", "ndarray", False), ("means", "Moments", False), ("languages", "Moments", True)],
)
def test_needs(mine, rng, needs, kind, second):
    mine.write_text(f"{MINE}fit_of_mine.needs = {needs!r}\n")
    x = {code: rng.normal(size=(9, 4)) for code in ("de", "en")}
    own = add_methods(["mine.py:fit_of_mine"])
    [method] = fit_methods(x, (*own,), source=None)
    seen = FITTED["of-mine"].fit.args[0].__wrapped__.__globals__["seen"]
    assert seen == [(kind, [second, second])]
    expected = x["de"] - (x["de"].mean(axis=0) + x["en"].mean(axis=0)) / 2
    np.testing.assert_allclose(method(x["de"], "de"), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("places", "error"),
    [
        (["mine.py"], r"--method is 'mine\.py'; give FILE\.py:FUNCTION"),
        (["none.py:fit"], r"--method none\.py:fit: FileNotFoundError: .*No such file"),
        (["mine.py:fit_none"], r"--method mine\.py:fit_none: the file has no such function"),
        (["mine.py:number"], r"--method mine\.py:number: the file has no such function"),
        (["broken.py:fit"], r"--method broken\.py:fit, line 2: ZeroDivisionError: division by zero"),
        (["syntax.py:fit"], r"--method syntax\.py:fit: SyntaxError: .*line 1"),
        (["mine.py:fit_mean"], r"mine\.py:fit_mean is named mean, as another method is; rename the function"),
        (["mine.py:fit_of_mine"] * 2, r"mine\.py:fit_of_mine is named of-mine, as another method is"),
        (["mine.py:fit_wrong"], r"mine\.py:fit_wrong: needs 'pairs' is not one of embeddings, means, languages"),
    ],
)
def test_errors_are_one_line(mine, places, error):
    (mine.parent / "broken.py").write_text("\n1 / 0\n")
    (mine.parent / "syntax.py").write_text("def fit(")
    with pytest.raises(ValueError, match=error) as caught:
        add_methods(places)
    assert "\n" not in str(caught.value)


def test_errors_of_a_fit(mine, rng):
    mine.write_text(MINE.replace('"pairs"', '"means"'))
    x = {code: rng.normal(size=(9, 4)) for code in ("de", "en")}
    own = add_methods(["mine.py:fit_three", "mine.py:fit_wrong"])
    with pytest.raises(ValueError, match=r"^--method mine\.py:fit_three returned a int, not a Transform$"):
        fit_methods(x, ("three",), source=None)
    assert own["wrong"].startswith("mine.py:fit_wrong@")
    line = MINE.splitlines().index('    raise KeyError("no\\n such language")') + 1
    with pytest.raises(
        ValueError, match=rf"^--method mine\.py:fit_wrong, line {line}: KeyError: 'no\\n such language'$"
    ):
        fit_methods(x, ("wrong",), source=None)
