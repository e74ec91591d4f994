"""Scores of a given bitext against float64, and the files that they are read from and written to."""

import json
from dataclasses import replace

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.mining.pair_files import read_pairs
from tests.reference import unit


def test_scores_equal_their_definitions(rng):
    x, y, bank = rng.standard_normal((30, 12)), rng.standard_normal((25, 12)), rng.standard_normal((40, 12))
    rows = rng.integers(0, 25, (50, 2))
    cosine, to_bank = unit(x) @ unit(y).T, unit(y) @ unit(bank).T
    near = [np.sort(side, axis=1)[:, -4:].mean(axis=1) for side in (cosine, cosine.T)]
    scale = np.sort(to_bank, axis=1)[:, -10:].mean(axis=1)
    first = np.argsort(scale - 2 * cosine, axis=1)[:, :10]
    of_query = np.take_along_axis(cosine, first, axis=1).mean(axis=1)
    i, j = rows.T
    scores = lj.mining.score_pairs(x.astype(np.float32), y.astype(np.float32), rows, bank=bank.astype(np.float32))
    np.testing.assert_allclose(scores.cosine, cosine[i, j], atol=1e-6)
    neighbourhood = (near[0][i] + near[1][j]) / 2
    np.testing.assert_allclose(scores.margin, cosine[i, j] / neighbourhood, atol=1e-5)
    np.testing.assert_allclose(scores.csls, 2 * cosine[i, j] - of_query[i] - scale[j], atol=1e-5)
    assert lj.mining.score_pairs(x, y, rows).csls is None
    with pytest.raises(IndexError):
        lj.mining.score_pairs(x, y, np.array([[0, 25]]))


PAIRS = [("Guten Morgen.", "Good morning."), ("Es regnet.", "It rains."), ("Ein Haus", "A house"), ("Wir", "Us")]


TABS = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
FORMS = {
    "pairs.tsv": TABS,
    "scored.tsv": "".join(f"1.5\t{line}\n" for line in TABS.splitlines()),
    "pairs.jsonl": "".join(json.dumps({"source": a, "target": b, "id": 1}) + "\n" for a, b in PAIRS),
    "pairs.csv": "target,source\n" + "".join(f"{b},{a}\n" for a, b in PAIRS),
    "news.de-en.en": "".join(f"{b}\n" for _, b in PAIRS),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_pairs(name, tmp_path):
    (tmp_path / name).write_text(FORMS[name])
    (tmp_path / "news.de-en.de").write_text("".join(f"{a}\n" for a, _ in PAIRS))
    assert list(read_pairs(tmp_path / name)) == PAIRS


def test_the_command_keeps_order_and_copies_do_not_count(tmp_path, refused, capsys):
    path, out = tmp_path / "pairs.tsv", tmp_path / "out.jsonl"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in [*PAIRS, ("", "nothing"), ("Wir", "A house")]))
    command = ["mine", "--pairs", str(path), "--encoder", "bundled", "--layer", "2", "--k", "2"]
    assert main([*command, str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["source"], row["target"]) for row in rows] == [*PAIRS, ("Wir", "A house")]
    assert all(row["score"] == row["margin"] for row in rows)
    assert "wrote 5 of 5 pairs" in capsys.readouterr().out
    # A bitext in which every pair is there three times has the same scores.
    path.write_text(3 * path.read_text())
    threshold = sorted(row["score"] for row in rows)[2] - 1e-4
    tsv = out.with_suffix(".tsv")
    assert main([*command, str(tsv), "--threshold", str(threshold)]) == 0
    lines = [line.split("\t") for line in tsv.read_text().splitlines()]
    chosen = [row for row in rows if row["score"] >= threshold]
    assert [line[1] for line in lines] == 3 * [row["source"] for row in chosen]
    np.testing.assert_allclose([float(line[0]) for line in lines[:3]], [row["score"] for row in chosen], atol=1e-5)
    for words, message in (
        ([str(path), str(path), str(out)], "3 paths with --pairs are given; give SOURCE TARGET OUT, or --pairs FILE"),
        ([str(out), "--known", str(path)], "1 paths with --pairs and --known are given"),
        ([str(out)], "already exists"),
    ):
        assert message in refused(main, [*command, *words])
    assert "2 paths are given" in refused(main, ["mine", str(path), str(out)])
    assert "give --encoder" in refused(main, ["mine", "--pairs", str(path), str(tmp_path / "other")])


def test_a_calibration_scores_given_pairs_and_duplicates(tmp_path, rng):
    encoder = lj.load_encoder("bundled", layer=8)
    text = lj.corpora.udhr("all", ["de", "en", "fr"])
    count = min(len({*lines}) for lines in text.values())
    x = {code: encoder.encode(lines[:count]) for code, lines in text.items()}
    transform = lj.transforms.fit_lsar(x, source=encoder.spec)
    transform.save(tmp_path / "lsar.safetensors")
    calibration = lj.calibrate(x, transform)
    calibration.save(tmp_path / "calibration.safetensors")
    pairs, out = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    rows = [(text["de"][n], text["en"][n if n < 20 else n - 20]) for n in range(40)]
    pairs.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in rows))
    options = ["--encoder", "bundled", "--transform", str(tmp_path / "lsar.safetensors")]
    options += ["--threshold", str(tmp_path / "calibration.safetensors")]
    assert main(["mine", "--pairs", str(pairs), str(out), *options]) == 0
    written = [json.loads(line) for line in out.read_text().splitlines()]
    found = [(row["source"], row["target"]) for row in written if row["score"] == row["csls"]]
    # What mine writes, with ids, is scored by its texts.
    with_ids = tmp_path / "with_ids.jsonl"
    with_ids.write_text("".join(json.dumps(row | {"source_id": "1", "target_id": "2"}) + "\n" for row in written))
    assert main(["mine", "--pairs", str(with_ids), str(tmp_path / "again.jsonl"), *options]) == 0
    again = [json.loads(line)["source"] for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert again == [source for source, _ in found]
    # Right pairs are accepted, and 5% of the wrong ones, in the order of the file.
    assert len({*found} & {*rows[:20]}) >= 19
    assert len(found) <= 21
    assert found == sorted(found, key=rows.index)
    assert all(row["share"] > 0.5 for row in written)
    (tmp_path / "all.txt").write_text("\n".join(a for pair in rows[:20] for a in pair), encoding="utf-8")
    assert main(["duplicates", str(tmp_path / "all.txt"), str(tmp_path / "groups.jsonl"), *options]) == 0
    groups = [json.loads(line)["texts"] for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
    assert len({*map(tuple, groups)} & {*rows[:20]}) >= 12
    # The threshold of a pair that is given.
    absent = calibration.matches.absent + 9 * np.array([[pair != ("de", "en")] for pair in calibration.pairs])
    replace(calibration, matches=calibration.matches._replace(absent=absent)).save(tmp_path / "calibration.safetensors")
    assert main(["mine", "--pairs", str(pairs), str(out), *options, "--languages", "deu", "eng", "--overwrite"]) == 0
    of_pair = [json.loads(line)["csls"] for line in out.read_text().splitlines()]
    assert (np.array(of_pair) >= calibration.threshold(pair=("de", "en")) - 1e-6).sum() == len(of_pair) >= 19
