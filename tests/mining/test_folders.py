"""Mining of folders: the pairs of ``mine``, block by block, however often the job was stopped."""

import json
from dataclasses import replace

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.mining.job import MiningOptions, notes_of
from tests.conftest import TINY
from tests.embeddings.made_folder import SPEC, made_folder

# More than two blocks of each side.
SOURCES, TARGETS, BLOCK = 2300, 2600, 1024


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Vectors of both sides, with 500 translations, and their folders with copies and blanks."""
    rng = np.random.default_rng(0)
    source, target = (rng.standard_normal((count, 24)).astype(np.float32) for count in (SOURCES, TARGETS))
    target[1000:1500] = source[:500] + 0.3 * rng.standard_normal((500, 24)).astype(np.float32)
    root = tmp_path_factory.mktemp("sides")
    folders = {}
    for name, x in (("source", source), ("target", target)):
        texts = [f"{name} {row}" for row in range(len(x))]
        # Every tenth row is followed by a copy or a blank, which must not count.
        rows = [row for row in range(len(x)) for _ in range(1 + (row % 10 == 0))]
        lines = [texts[row] for row in rows]
        for place in range(1, len(rows)):
            if rows[place] == rows[place - 1] and rows[place] % 20:
                lines[place] = " "
        folders[name] = made_folder(root / name, x[rows], lines)
    return source, target, folders["source"], folders["target"]


@pytest.fixture
def small(rng, tmp_path):
    """Two small folders."""
    x = rng.standard_normal((2, 20, 8)).astype(np.float32)
    return [made_folder(tmp_path / str(n), v, [f"{n} {row}" for row in range(20)]) for n, v in enumerate(x)]


def read(path):
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [(int(one.split()[1]), int(other.split()[1])) for _, one, other in rows], [float(row[0]) for row in rows]


def calibrated(rng):
    """A transform of these vectors, whose bank is random, and a calibration whose pair en to de scores too high."""
    lines = rng.standard_normal((400, 24))
    x = {code: lines + 0.3 * rng.standard_normal((400, 24)) for code in ("de", "en")}
    transform = lj.transforms.fit_lsar({code: rows[:200] for code, rows in x.items()}, rank=1, source=SPEC)
    calibration = lj.calibrate({code: rows[200:] for code, rows in x.items()}, transform)
    absent = calibration.matches.absent + np.array([[0], [9]])
    return transform, replace(calibration, matches=calibration.matches._replace(absent=absent))


def test_a_calibration_accepts_first_targets_by_csls(sides, tmp_path, rng):
    """In blocks as in one search; wrong pairs are as rare as is promised."""
    source, target, left, right = sides
    transform, calibration = calibrated(rng)
    options = MiningOptions(threshold=calibration, error=0.1, transform=transform, languages=("deu", "eng"), block=1024)
    with pytest.raises(ValueError, match=f"has 200 lines, but an error of {0.01 * 200 / TARGETS:.3g} needs"):
        lj.mining.mine_folders(left, right, tmp_path / "few.tsv", replace(options, error=0.01))
    for wrong, message in ((transform.at_strength(0.5), "is of other scores"), (None, "give that transform, too")):
        with pytest.raises(ValueError, match=message):
            lj.mining.mine_folders(left, right, tmp_path / "other.tsv", replace(options, transform=wrong))
    out = tmp_path / "pairs.tsv"
    lj.mining.mine_folders(left, right, out, options)
    found, scores = read(out)
    x, y = (np.asarray(transform(side)) for side in (source, target))
    csls, first = (np.asarray(part)[:, 0] for part in lj.retrieval.nearest(x, y, 1, bank=transform.bank))
    least, best = calibration.threshold(0.1, candidates=TARGETS, pair=("de", "en")), {}
    for row in np.argsort(-csls):
        best.setdefault(int(first[row]), int(row))
    expected = {(row, place): csls[row] for place, row in best.items() if csls[row] >= least}
    assert set(found) == set(expected)
    of_arrays = lj.mining.mine(x, y, bank=transform.bank)
    first_ones = of_arrays.score >= least
    assert [*zip(*(rows[first_ones].tolist() for rows in of_arrays[:2]), strict=True)] == found
    np.testing.assert_allclose(scores, [expected[pair] for pair in found], atol=1e-5)
    right_ones = [row + 1000 == place for row, place in found]
    assert sum(right_ones) > 400
    assert len(found) - sum(right_ones) <= 0.1 * (SOURCES - 500)


def test_pairs_are_those_of_mine(sides, tmp_path):
    source, target, left, right = sides
    expected = lj.mining.mine(source, target, k=4)
    out = tmp_path / "pairs.tsv"
    count = lj.mining.mine_folders(left, right, out, MiningOptions(k=4, block=BLOCK))
    found, scores = read(out)
    assert count == len(found) == len(expected.score)
    # Scores that are equal but for rounding may be in another order.
    assert set(found) == set(zip(expected.source.tolist(), expected.target.tolist(), strict=True))
    np.testing.assert_allclose(scores, expected.score, atol=2e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def stopped(sides, out, blocks, options):
    def stop(progress):
        if progress.done == blocks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lj.mining.mine_folders(*sides[2:], out, options, progress=stop)


def test_a_stopped_job_goes_on(sides, tmp_path):
    whole, out = tmp_path / "whole.tsv", tmp_path / "out.tsv"
    lj.mining.mine_folders(*sides[2:], whole, MiningOptions(block=BLOCK, threshold=1.2))
    for blocks in (1, 2):
        stopped(sides, out, blocks, MiningOptions(block=BLOCK, threshold=1.2))
        assert not out.exists()
    with pytest.raises(ValueError, match="was begun with other options: k was 4 and is now 3; remove it, or write"):
        lj.mining.mine_folders(*sides[2:], out, MiningOptions(block=BLOCK, k=3, threshold=1.2))
    part = tmp_path / "out.tsv.job" / "forward-00000.safetensors"
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = []
    with pytest.raises(ValueError, match=r"forward-00000.safetensors is damaged"):
        lj.mining.mine_folders(*sides[2:], out, MiningOptions(block=BLOCK, threshold=1.2), progress=done.append)
    part.write_bytes(content)
    lj.mining.mine_folders(*sides[2:], out, MiningOptions(block=BLOCK, threshold=1.2), progress=done.append)
    assert [progress.done for progress in done] == [3]
    assert out.read_bytes() == whole.read_bytes()
    scores = read(out)[1]
    assert 300 < len(scores) < 700
    assert min(scores) >= 1.2


def test_refusals(sides, tmp_path, unchecked):
    _, _, left, right = sides
    (tmp_path / "there.tsv").touch()
    other = made_folder(tmp_path / "other", np.ones((5, 24), np.float32), list("abcde"), spec=replace(SPEC, layer=9))
    blank = made_folder(tmp_path / "blank", np.ones((2, 24), np.float32), ["", " "])
    lsar = lj.transforms.fit_lsar({"de": left[:50], "en": right[:50]}, source=replace(SPEC, layer=7))
    (left.folder / "copy").mkdir(exist_ok=True)
    out = tmp_path / "out.tsv"
    for target, path, options, message in (
        (right, tmp_path / "there.tsv", {}, r"there.tsv already exists"),
        (other, out, {}, "the folders are of different embeddings: .*: layer 9, not 8"),
        (right, out, {"transform": lsar}, "fitted on other embeddings than those of .*: layer 7, not 8"),
        (right, out, {"k": 900, "block": BLOCK}, "k is 900; it must be a whole number from 1 to 766"),
        (blank, out, {}, "blank has only blank sentences"),
        (right, left.folder / "out.tsv", {}, "which is read"),
        (right, out, {"threshold": 10**400}, "threshold is 10+; it must be a number that fits a float"),
        (right, out, {"threshold": 10**5000}, "Exceeds the limit"),
        (right, out, {"block": 10**5000}, "Exceeds the limit"),
        *((right, tmp_path / f"a.{end}", {}, "its name end in .tsv or .jsonl") for end in ("csv", "tsv.gz", "PQ")),
    ):
        with pytest.raises((ValueError, FileExistsError), match=message):
            lj.mining.mine_folders(left, target, path, MiningOptions(**options))


def test_an_error_before_the_work_is_no_dead_end(small, tmp_path, refused):
    """The same output can be mined with other options, until there is a part of the work."""
    center = lj.transforms.fit_center({code: side[:] for code, side in zip(("de", "en"), small, strict=True)})
    out = tmp_path / "out.tsv"
    for options, message in (
        ({"transform": center}, "depends on the language; give one of de, en"),
        ({"transform": center, "languages": ("de", "auto")}, "has no identifier"),
    ):
        with pytest.raises(ValueError, match=message):
            lj.mining.mine_folders(*small, out, MiningOptions(k=2, **options))
        assert not notes_of(out).exists()
    center.save(tmp_path / "center")
    (tmp_path / "in.txt").write_text("a\n")
    text, target = str(tmp_path / "in.txt"), str(small[1].folder)
    command = ["mine", text, target, str(out), "--encoder", str(TINY), "--transform", str(tmp_path / "center")]
    assert "depends on the language" in refused(main, command)
    assert "takes width 8, but" in refused(main, [*command, "--languages", "de", "en"])
    assert not notes_of(out).exists()

    # Of an encoder that embeds the language, too.
    command = ["mine", text, str(tmp_path / "there.txt"), str(out), "--encoder", str(TINY.with_name("xlm"))]
    (tmp_path / "there.txt").write_text("b\n")
    assert "--languages is not given: xlm embeds the language" in refused(main, command)
    command += ["--languages", "de"]
    assert "--languages is de xx: 'xx' is not a language code" in refused(main, [*command, "xx"])
    assert "max_length is 1; it must be" in refused(main, [*command, "en", "--max-length", "1"])
    assert not notes_of(out).exists()

    notes_of(out).mkdir()
    (notes_of(out) / "job.json").write_text('{"k": 3}')  # of a job that ended at once
    assert lj.mining.mine_folders(*small, out, MiningOptions(k=2, transform=center, languages=("de", "en"))) > 0
    assert not notes_of(out).exists()


def test_a_transform_is_applied_to_both(sides, tmp_path):
    source, target, left, right = sides
    center = lj.transforms.fit_center({"de": source + 1, "en": target - 1}, source=SPEC)
    out = tmp_path / "pairs.jsonl"
    lj.mining.mine_folders(left, right, out, MiningOptions(k=2, transform=center, languages=("de", "en"), block=BLOCK))
    expected = lj.mining.mine(center(source, "de"), center(target, "en"), k=2)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = [(int(row["source"].split()[1]), int(row["target"].split()[1])) for row in rows]
    assert set(found) == set(zip(expected.source.tolist(), expected.target.tolist(), strict=True))
    # Ids are those of the folder, which has copies.
    places = [int(row["source_id"]) for row in rows[:9]]
    assert left.sentences_of(np.array(places)).texts == [row["source"] for row in rows[:9]]


def test_from_text(tmp_path, refused, rng):
    english = [" ".join(rng.choice(list("abcdefghij"), 6)) for _ in range(40)]
    (tmp_path / "en.txt").write_text("\n".join(english) + "\n")
    german = [f"{text}\tz" for text in english[5:25]]
    (tmp_path / "de.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in german))
    names = [str(tmp_path / name) for name in ("de.jsonl", "en.txt", "out.tsv")]
    assert "de.jsonl is read as text, which needs an encoder; give --encoder" in refused(main, ["mine", *names])
    options = ["--encoder", str(TINY), "--layer", "2"]
    assert main(["mine", *names, *options, "--k", "2"]) == 0
    encoder = lj.load_encoder(str(TINY), layer=2)
    expected = lj.mining.mine(encoder.encode(german), encoder.encode(english), k=2)
    lines = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    pairs = zip(expected.source, expected.target, strict=True)
    # The tab of a sentence is written as a space.
    assert {(one, other) for _, one, other in lines} == {(german[i].replace("\t", " "), english[j]) for i, j in pairs}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de.jsonl", "en.txt", "out.tsv"]
