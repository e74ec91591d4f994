"""Thresholds that known pairs choose."""

import json

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.mining import KnownPairs, MiningOptions, best_threshold
from lsar_jax.mining.job import notes_of
from tests.embeddings.made_folder import made_folder


def test_the_lowest_threshold_with_a_precision():
    with pytest.raises(ValueError, match=r"no threshold reaches a precision of 90%; the highest is 50.0%, of the 2"):
        best_threshold(np.array([3.0, 2.0, 1.0]), np.array([False, True, False]), 2, least_precision=90.0)
    score, right = np.array([5.0, 4, 3, 2, 1]), np.array([True, False, True, True, False])
    assert best_threshold(score, right, 3, least_precision=75.0) == (1.5, 75, 100, pytest.approx(600 / 7))
    assert best_threshold(score, right, 3, least_precision=80.0)[:2] == (4.5, 100)
    # The precision may fall below it and rise again.
    assert best_threshold(score, right, 3, least_precision=60.0).value == 1


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """The vectors of two folders of 60 and 70 sentences, of which the first 30 are translations."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((count, 16)).astype(np.float32) for count in (60, 70))
    y[:30] = x[:30] + 0.5 * rng.standard_normal((30, 16)).astype(np.float32)
    root = tmp_path_factory.mktemp("known")
    return [made_folder(root / str(n), v, [f"{n}\t{row}" for row in range(len(v))]) for n, v in enumerate((x, y))]


def texts(folders, out, **options):
    said: list[str] = []
    lj.mining.mine_folders(*folders, out, MiningOptions(**options), overwrite=True, report=said.append)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {(row["source_id"], row["target_id"]): row["score"] for row in rows}, "".join(said)


def test_known_pairs_choose_the_threshold(sides, tmp_path):
    out = tmp_path / "out.jsonl"
    every, said = texts(sides, out)
    assert not said
    right = np.array([int(a) == int(b) < 30 for a, b in every])
    scores = np.array(list(every.values()))
    known = tuple((str(n), str(n)) for n in range(30))
    for precision in (95.0, None):
        expected = best_threshold(scores, right, 30, least_precision=precision)
        # By id, by text, and by text as it stands between tabs.
        for pairs in (known, *(tuple((f"0{sep}{a}", f"1{sep}{b}") for a, b in known) for sep in "\t ")):
            got, said = texts(sides, out, threshold=KnownPairs((*pairs, ("gone", "gone")), precision))
            assert set(got) == {pair for pair, score in every.items() if score >= expected.value - 1e-6}
            assert f"precision {expected.precision:.1f}%, recall {expected.recall:.1f}% on 30 known pairs" in said
            assert "of 31," in said
    # Some are found by text, and others by id.
    assert "on 31 known pairs" in texts(sides, out, threshold=KnownPairs((*known, ("0\t40", "1\t41"))))[1]
    assert texts(sides, out, threshold=1.2)[1] == ""


def test_errors_keep_the_work_for_another_threshold(sides, tmp_path):
    out = tmp_path / "out.tsv"
    for pairs, message in (
        ((("0", "no"),), "none of the 1 known pairs is in the inputs, neither as sentences nor as ids"),
        ((("40", "40"),), "none of the 1 known pairs in the inputs was mined"),
        ((("0", "0"), ("40", "40")), "no threshold reaches a precision of 100%; the highest is"),
    ):
        with pytest.raises(ValueError, match=message):
            lj.mining.mine_folders(*sides, out, MiningOptions(threshold=KnownPairs(pairs, 100.0)))
        assert not out.exists()
        assert notes_of(out).exists() == ("mined" in message or "reaches" in message)
    done: list[object] = []
    assert lj.mining.mine_folders(*sides, out, MiningOptions(threshold=1.2), progress=done.append) > 0
    assert not done  # nothing was compared again


def test_the_command(sides, tmp_path, refused, printed, capsys):
    out, known = tmp_path / "out.tsv", tmp_path / "known.tsv"
    command = ["mine", *(str(side.folder) for side in sides), str(out)]
    known.write_text("".join(f"1.5\t0 {n}\t1 {n}\n" for n in range(30)))
    bad = [tmp_path / f"bad{number}.{form}" for number, form in enumerate(("tsv", "tsv", "jsonl"))]
    for path, content in zip(bad, ("", "0\n", '{"source": "a"}\n'), strict=True):
        path.write_text(content)
    texts = [tmp_path / "one.txt", tmp_path / "other.txt"]
    for path in texts:
        path.write_text(f"{path}\n")
    for options, message in (
        (["--known", bad[0]], "bad0.tsv is empty"),
        (["--known", bad[1]], "bad1.tsv, line 1: expected source, tab, target, as mine writes them"),
        (["--known", bad[2]], "line 1: expected source and target"),
        (["--known", known, "--correct", "0"], "it must be a share, above 0 and at most 1"),
        (["--known", known, "--threshold", "1"], "--threshold 1.0 and --known are given; omit one"),
        (["--correct", "95"], "--correct needs --known"),
        (["--threshold", "nan"], "threshold is nan"),
        (["--k", "0"], "k is 0"),
        (["--encoder", "bundled"], "there is no text to encode"),
    ):
        assert message in refused(main, [*command, *map(str, options)])
    # Of text, before an encoder is looked for.
    assert "omit one" in refused(main, ["mine", *texts, out, "--encoder", "gone", "--known", known, "--threshold", "1"])
    assert not notes_of(out).exists()
    assert "on 30 known pairs in the inputs, of 30" in printed(main, [*command, "--known", known, "--correct", "95"])
    assert main([*command, "--overwrite"]) == 0
    assert "warning: without --threshold" in capsys.readouterr().err
