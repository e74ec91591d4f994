"""Reports, paired comparisons and the whole suite."""

import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from eval.__main__ import main
from eval.report.compare import differences
from eval.report.page import tables
from eval.suite import Suite
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.results import read_results, write_results
from lsar_jax.measures.run_record import already_run, recorded
from tests.eval.test_tasks import ENCODER, write_pairs
from tests.made_results import made_result


def result(transform="original", value=50.0, **changes):
    return made_result(transform=transform, value=value, **changes)


def cell(table, method, column):
    [row] = [row for row in table.rows if row[0].text == method]
    return row[next(i for i, head in enumerate(table.columns) if column in head)]


def test_results_come_back_as_they_were(tmp_path):
    queries = QueryScores(np.array([0.0, 100, 50, 50]), np.array([0, 0, 1, 1]))
    written = [result(), result("lsar", seed=3).resampled(queries)]
    write_results(written, tmp_path / "results.jsonl")
    first, second = read_results(tmp_path / "results.jsonl")
    assert [first, second] == written
    np.testing.assert_array_equal(second.queries.values, queries.values)
    np.testing.assert_array_equal(second.queries.strata, queries.strata)
    # Scores of an earlier run do not stay beside results without any.
    write_results(written[:1], tmp_path / "results.jsonl")
    assert not (tmp_path / "queries.npz").exists()
    (tmp_path / "results.jsonl").write_text('{"task": 1}\n')
    with pytest.raises(ValueError, match="results.jsonl, line 1 is not a result"):
        read_results(tmp_path / "results.jsonl")
    with pytest.raises(ValueError, match="en-xx mean over 36 of original at layer 8 is nan"):
        write_results([result(value=float("nan"))], tmp_path / "results.jsonl")


def test_tables(rng):
    evaluated = {"fit_on": "evaluated"}
    low, high = (QueryScores(np.repeat([0.0, 100], counts)) for counts in ((60, 40), (20, 80)))
    results = [
        result("original", 40.0).resampled(low),
        result("center", 80.0, options={"fit_on": "text/oscar"}).resampled(high),
        *(result("cbie", value, seed=seed, options=evaluated) for seed, value in enumerate((50.0, 54.0, 58.0))),
        result("original", 45.0, layer=12),
        result("original", 1.0, metric="en-de accuracy", languages=("de",)),
    ]
    results.append(result("lir", 10.0).resampled(QueryScores(np.repeat([0.0, 100], (90, 10)))))
    [table] = tables(results)
    assert cell(table, "lir", "layer 8").text == "10.0 ▼"
    assert table.title == "en-xx mean over 36 (36 languages, n = 31692)"
    assert cell(table, "original", "layer 8").text == "40.0"
    best = cell(table, "center", "layer 8")
    assert (best.text, best.bold) == ("80.0 ▲", True)
    assert best.note == f"{results[1].low:.1f} to {results[1].high:.1f}"
    # The sample deviation of 50, 54, 58 is 4.
    assert cell(table, "cbie", "layer 8")[:3] == ("54.0", False, "± 4.0")
    assert cell(table, "center", "layer 12").text == ""
    assert cell(table, "original", "mBERT (Xie").text == "37.5"
    assert cell(table, "cbie", "XLM-R base (Hämmerl et al. 2023, Table 5").text == "69.0"
    # What only a paper has is a row of its own, and so is a fit of another rank.
    assert cell(table, "lsar rank=36", "mBERT (Xie").text == "44.6"


def test_what_results_were_measured_with(tmp_path):
    lsar = result("lsar", fitted_on="udhr all", fits=("lsar(rank=3) on 200 sentences of 4 languages, 0123456789ab",))
    write_results([result(), lsar], tmp_path / "results.jsonl")
    found = read_results(tmp_path / "results.jsonl")
    assert found[1].fits == lsar.fits
    assert main(["report", str(tmp_path)]) == 0
    for page in ("report.md", "report.html"):
        text = (tmp_path / page).read_text()
        assert "Encoder bundled, revision 1, mean pooling, float32, at most 128 tokens; lsar_jax " in text
        assert found[0].device in text
        assert found[0].date in text
        assert "lsar, fitted on udhr all; layer 8: lsar(rank=3) on 200 sentences of 4 languages, 0123456789ab" in text


def test_report_pages(tmp_path, refused):
    write_results([result(encoder="<b>&"), result("lsar", 60.0, encoder="<b>&")], tmp_path / "one" / "results.jsonl")
    (tmp_path / "one" / "methods.png").write_bytes(b"png")
    assert main(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert '<img src="one/methods.png"' in page
    # A wide table scrolls in its own box; its headers say that they are those of columns.
    assert page.count("<table>") == page.count('<div class="wide"') == page.count("</table></div>") > 0
    assert not re.search(r'<th(?! scope="col")[ >]', page)
    assert "&lt;b&gt;&amp;, layer 8" in page
    assert "<strong>60.0</strong>" in page
    text = (tmp_path / "report.md").read_text()
    assert "| lsar | **60.0** |" in text
    assert "![methods](one/methods.png)" in text
    assert "run python -m eval all first" in refused(main, ["report", str(tmp_path / "nothing")])


def test_compare(tmp_path, capsys, rng):
    first = 100.0 * (rng.random(200) < 0.5)
    second = np.maximum(first, 100.0 * (rng.random(200) < 0.3))
    results = [
        result().resampled(QueryScores(first)),
        result("lsar", parameters={"rank": 2}).resampled(QueryScores(second)),
    ]
    [found] = differences(results, "original", "lsar rank=2")
    assert found.value == pytest.approx((second - first).mean())
    assert 0 < found.low < found.value < found.high
    assert found.p < 0.001
    write_results(results, tmp_path / "results.jsonl")
    assert main(["compare", str(tmp_path)]) == 0
    assert "layer 8: en-xx mean over 36" in capsys.readouterr().out
    assert main(["compare", str(tmp_path), "--second", "leace"]) == 1
    assert "'leace' has no scores of queries; choose from lsar, lsar rank=2, original" in capsys.readouterr().err
    # What has seeds is compared with what has none, seed by seed; of two with seeds the same are.
    seeded = [result("cbie", seed=seed).resampled(QueryScores(second)) for seed in (0, 1)]
    assert [d.second.seed for d in differences([*results, *seeded], "original", "cbie")] == [0, 1]
    pairs = [(d.first.seed, d.second.seed) for d in differences(seeded, "cbie", "cbie")]
    assert pairs == [(0, 0), (1, 1)]


def test_suite_runs_what_there_is_once(tmp_path, capsys, monkeypatch):
    # Results are below the folder that it is run in, as by default.
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    (data / "sts17").mkdir(parents=True)
    write_pairs(data / "tatoeba", "deu", "a b\nc d\ne f\n", "a b\nd c\ne f\n")
    (data / "sts17" / "STS.input.track1.en-de.txt").write_text("a b\tc d\na\ta\nb c\tb d\n")
    (data / "sts17" / "STS.gs.track1.en-de.txt").write_text("1\n5\n3\n")
    command = [
        "all", *ENCODER, "--layers", "1", "--data", str(data), "--max-length", "16", "--out", str(tmp_path / "out"),
        "--tasks", "udhr", "tatoeba", "sts17", "bucc", "amazon",
    ]  # fmt: skip
    # The tiny encoder's 32 dimensions do not hold the means of 40 languages; the others run all the same.
    assert main(command) == 1
    printed, error = capsys.readouterr()
    assert error.startswith("error: udhr: --transforms has lsar: rank is 39")
    # Tatoeba's 36 languages are not all there, so it is not run; what is missing is said.
    assert "not run: tatoeba: " in printed
    assert "not run: bucc2018: there is no folder" in printed
    assert "not run: amazon: " in printed
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## bert/sts17" in report
    before = (tmp_path / "out" / "bert" / "sts17" / "results.jsonl").stat().st_mtime_ns
    assert main(command) == 1
    assert "sts17: skipped, the results are already in " in capsys.readouterr().out
    assert (tmp_path / "out" / "bert" / "sts17" / "results.jsonl").stat().st_mtime_ns == before


def test_other_options_and_data_run_again(tmp_path):
    (tmp_path / "sts17").mkdir()
    text = tmp_path / "sts17" / "a.txt"
    text.write_text("a")
    [(_, task)] = Suite(data=tmp_path, out=tmp_path / "out", tasks=("sts17",)).chosen()
    results = task.out / "results.jsonl"
    task.out.mkdir(parents=True)
    assert not already_run(task)
    with recorded(task):
        results.write_text("")
    assert already_run(task)
    text.write_text("ab")
    assert not already_run(task)
    with suppress(ZeroDivisionError), recorded(task):
        raise ZeroDivisionError  # as if a figure failed
    assert not already_run(task)
    with recorded(task):
        pass
    assert already_run(task)
    assert not already_run(replace(task, max_length=64))
    # A run that was killed before its record leaves that of other results.
    results.write_text("[]")
    assert not already_run(task)
    with pytest.raises(FileExistsError, match="its options are not known"), recorded(task):
        pytest.fail("results would be lost")


def test_what_is_not_a_seed_is_not_averaged():
    results = [
        result("lsar", 40.0, fitted_on="bitext 10"),
        result("lsar", 80.0, fitted_on="bitext 1000"),
        result("center", 50.0, pooling="cls"),
        result("center", 60.0),
    ]
    [table] = tables(results)
    assert cell(table, "lsar, fitted on bitext 10", "pooling mean").text == "40.0"
    assert cell(table, "lsar, fitted on bitext 1000", "pooling mean").text == "80.0"
    assert cell(table, "center", "pooling cls").text == "50.0"
    assert cell(table, "center", "pooling mean").text == "60.0"
    # Less language is not called best.
    values = (("original", 0.5), ("lsar", 0.1))
    [table] = tables([result(*of, metric="NMI", direction="neither") for of in values])
    assert not any(c.bold for row in table.rows for c in row)


def test_encoders_of_one_task_are_one_table(tmp_path):
    for encoder in ("one", "two"):
        write_results([result(encoder=encoder)], tmp_path / encoder / "results.jsonl")
    write_results([result(options={"metric": "dot"})], tmp_path / "dot" / "results.jsonl")
    assert main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "one, layer 8 | two, layer 8" in text
    assert text.count("### ") == 2


def test_a_wrong_encoder_is_not_missing_data(tmp_path, capsys):
    assert main(["all", "--encoder", "no/such", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "no/such" in capsys.readouterr().err
