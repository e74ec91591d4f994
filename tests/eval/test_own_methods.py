"""Fit functions in files of the user's own, such as the one of the how-to page, compared beside the library's."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from eval.__main__ import main
from lsar_jax.measures.compared_methods import FITTED, fit_methods
from lsar_jax.measures.own_methods import add_methods
from lsar_jax.spec import EncoderSpec
from tests.eval.test_tasks import read

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-method.md"
[MINE] = re.findall(r"```python\n(# mine\.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
ROW = re.compile(r"^\| mine components=2 \| ", re.M)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file of the page, in the current folder; the table of methods is as before in the end."""
    monkeypatch.chdir(tmp_path)
    before = dict(FITTED)
    (tmp_path / "mine.py").write_text(MINE)
    yield tmp_path / "mine.py"
    FITTED.clear()
    FITTED.update(before)


def test_a_method_is_a_row_of_a_task(mine, fake, printed, refused):
    task = ["udhr", "--languages", "de", "en", "fr", "--layers", "1", "--transforms", "original", "--out", "out"]
    assert "mine components=2" in printed(main, [*task, "--method", "mine.py:fit_mine"])
    before = (mine.parent / "out" / "results.jsonl").read_bytes()
    [own] = [r for r in read(mine.parent / "out") if (r["transform"], r["metric"]) == ("mine", "mAP")]
    assert own["low"] < own["value"] < own["high"]
    assert own["fits"][0].startswith("all-but-the-top(components=2) on 75 sentences of 3 languages, ")
    [place] = own["options"]["method"]
    assert re.fullmatch(r"mine\.py:fit_mine@[0-9a-f]{12}", place)
    # Another content is not mixed with it, and is not what the digest names.
    mine.write_text(f"{MINE}# changed\n")
    for given, error in (("mine.py:fit_mine", f"method was '{place}' and is now "), (place, "has no such function")):
        assert error in refused(main, [*task, "--method", given])
    assert (mine.parent / "out" / "results.jsonl").read_bytes() == before


@pytest.mark.slow
def test_all_tasks_and_the_table_of_costs_and_gains(mine, fake, printed):
    command = ["all", "--layers", "1", "--tasks", "udhr", "--transforms", "original", "mean", "--out", "every"]
    for said in ("mine components=2", "udhr: skipped, the results are already in"):
        assert said in printed(main, [*command, "--method", "mine.py:fit_mine"])
    costs, _, tables = (mine.parent / "every" / "report.md").read_text().partition("## bundled/udhr")
    assert ROW.search(costs[costs.index("What each method costs and gains") :])
    assert ROW.search(tables)


def test_what_it_is_given_and_returns(mine, rng):
    x = {code: rng.normal(size=(20, 6)) for code in ("de", "en")}
    spec = EncoderSpec("e", "", 0, "mean", "float32")
    [method] = fit_methods(x, (*add_methods(["mine.py:fit_mine"]),), source=spec)
    assert method.transform.source == spec  # as if the library had fitted it
    centred = x["de"] - np.concatenate([*x.values()]).mean(axis=0)
    top = np.linalg.eigh(np.cov(np.concatenate([*x.values()]).T))[1][:, -2:]
    np.testing.assert_allclose(method(x["de"], "de"), centred - centred @ top @ top.T, atol=1e-5)
    # The error says what it got: whether these are moments, and have second moments.
    seen = 'def fit_seen(x):\n    raise KeyError(type(x["en"]).__name__, getattr(x["en"], "scatter", 0) is None)\n'
    for needs, got in {"means": "('Moments', True)", "languages": "('Moments', False)"}.items():
        mine.write_text(f"{seen}fit_seen.needs = {needs!r}\n")
        add_methods(["mine.py:fit_seen"])
        with pytest.raises(ValueError, match=rf"^--method mine\.py:fit_seen, line 2: KeyError: {re.escape(got)}$"):
            fit_methods(x, ("seen",), source=None)
    mine.write_text("def fit_seen(x):\n    return x\n")
    add_methods(["mine.py:fit_seen"])
    with pytest.raises(ValueError, match=r"^--method mine\.py:fit_seen returned a dict, not a Transform$"):
        fit_methods(x, ("seen",), source=None)


@pytest.mark.parametrize(
    ("code", "place", "error"),
    [
        ("", "mine.py", r"--method mine\.py: mine\.py, of digest .*; give FILE\.py:FUNCTION"),
        ("", "none.py:fit", r"--method none\.py:fit: FileNotFoundError: .*No such file"),
        ("fit_a = 3", "mine.py:fit_a", r"--method mine\.py:fit_a: mine\.py, of digest \w+, has no such function"),
        ("\n1 / 0", "mine.py:fit_a", r"--method mine\.py:fit_a, line 2: ZeroDivisionError: division by zero"),
        ("def fit(", "mine.py:fit", r"--method mine\.py:fit: SyntaxError: .*line 1"),
        ("def fit_mean(x): pass", "mine.py:fit_mean", "that no other method has, unlike mean"),
        ("def fit(x): pass\nfit.needs = 'pairs'", "mine.py:fit", "needs 'pairs' is not one of embeddings, means"),
    ],
)
def test_errors_are_one_line(mine, code, place, error):
    mine.write_text(code)
    with pytest.raises(ValueError, match=error) as caught:
        add_methods([place])
    assert "\n" not in str(caught.value)


def test_a_file_imports_those_beside_it(mine, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = mine.parent / "mine"
    folder.mkdir()
    (folder / "beside_mine.py").write_text("def fit_a(x): return x\n")
    (folder / "m.py").write_text("from beside_mine import fit_a\n")
    assert [*add_methods([f"{folder}/m.py:fit_a"])] == ["a"]
