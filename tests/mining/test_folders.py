"""Mining of folders: the pairs of ``mine``, block by block, however often the job was stopped."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.conftest import TINY
from tests.embeddings.made_folder import SPEC, made_folder

# More than two blocks of each side.
SOURCES, TARGETS, BLOCK = 2300, 2600, 1024


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Vectors of both sides, 500 of which are translations, and the folders of them with copies and blanks."""
    rng = np.random.default_rng(0)
    source, target = (rng.standard_normal((count, 24)).astype(np.float32) for count in (SOURCES, TARGETS))
    target[1000:1500] = source[:500] + 0.3 * rng.standard_normal((500, 24)).astype(np.float32)
    root = tmp_path_factory.mktemp("sides")
    vectors = {"source": source, "target": target}
    folders = {}
    for name, x in vectors.items():
        texts = [f"{name} {row}" for row in range(len(x))]
        # Every tenth row is followed by a copy or a blank, which must not count.
        rows = [row for row in range(len(x)) for _ in range(1 + (row % 10 == 0))]
        lines = [texts[row] for row in rows]
        for place in range(1, len(rows)):
            if rows[place] == rows[place - 1] and rows[place] % 20:
                lines[place] = " "
        folders[name] = made_folder(root / name, x[rows], lines)
    return source, target, folders["source"], folders["target"]


def read(path):
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [(int(one.split()[1]), int(other.split()[1])) for _, one, other in rows], [float(row[0]) for row in rows]


@pytest.mark.parametrize("retrieval", ["max", "intersection", "forward", "backward"])
def test_pairs_are_those_of_mine(retrieval, sides, tmp_path):
    source, target, left, right = sides
    expected = lj.mining.mine(source, target, k=4, retrieval=retrieval)
    out = tmp_path / "pairs.tsv"
    count = lj.mining.mine_folders(left, right, out, k=4, retrieval=retrieval, block=BLOCK)
    found, scores = read(out)
    assert count == len(found) == len(expected.score)
    # Scores that are equal but for rounding may be in another order.
    assert set(found) == set(zip(expected.source.tolist(), expected.target.tolist(), strict=True))
    np.testing.assert_allclose(scores, expected.score, atol=2e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def stopped(sides, out, blocks, **options):
    def told(progress):
        if progress.blocks == blocks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lj.mining.mine_folders(*sides[2:], out, block=BLOCK, progress=told, **options)


def test_a_stopped_job_goes_on(sides, tmp_path):
    whole, out = tmp_path / "whole.tsv", tmp_path / "out.tsv"
    lj.mining.mine_folders(*sides[2:], whole, block=BLOCK, threshold=1.2)
    for blocks in (1, 2):
        stopped(sides, out, blocks, threshold=1.2)
        assert not out.exists()
    with pytest.raises(
        ValueError, match="was begun with other options: k was 4 and is now 3; remove it, or write another file"
    ):
        lj.mining.mine_folders(*sides[2:], out, block=BLOCK, k=3, threshold=1.2)
    done = []
    lj.mining.mine_folders(*sides[2:], out, block=BLOCK, threshold=1.2, progress=done.append)
    assert [progress.blocks for progress in done] == [3]
    assert out.read_bytes() == whole.read_bytes()
    scores = read(out)[1]
    assert 300 < len(scores) < 700
    assert min(scores) >= 1.2
    # What was kept of a block is damaged.
    stopped(sides, tmp_path / "damaged.tsv", 2)
    part = tmp_path / "damaged.tsv.job" / "forward-00000.safetensors"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"forward-00000.safetensors is damaged"):
        lj.mining.mine_folders(*sides[2:], tmp_path / "damaged.tsv", block=BLOCK)


def test_a_job_that_was_stopped_after_its_output(sides, tmp_path, monkeypatch):
    out = tmp_path / "out.tsv"
    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    count = lj.mining.mine_folders(*sides[2:], out, block=BLOCK)
    monkeypatch.undo()
    notes = tmp_path / "out.tsv.job"
    assert (notes / "written.json").is_file()
    content = out.read_bytes()
    assert lj.mining.mine_folders(*sides[2:], out, block=BLOCK) == count
    assert out.read_bytes() == content
    assert not notes.exists()
    # The output of another job is not taken for it.
    with pytest.raises(FileExistsError):
        lj.mining.mine_folders(*sides[2:], out, block=BLOCK)
    remove(notes, ignore_errors=True)


def test_what_is_refused(sides, tmp_path):
    _, _, left, right = sides
    (tmp_path / "there.tsv").touch()
    with pytest.raises(FileExistsError, match=r"there.tsv already exists"):
        lj.mining.mine_folders(left, right, tmp_path / "there.tsv")
    other = made_folder(tmp_path / "other", np.ones((5, 24), np.float32), list("abcde"), spec=replace(SPEC, layer=9))
    with pytest.raises(ValueError, match="different embedding spaces: layer 8, not 9; encode both with one encoder"):
        lj.mining.mine_folders(left, other, tmp_path / "out.tsv")
    lsar = lj.transforms.fit_lsar({"de": left[:50], "en": right[:50]}, source=replace(SPEC, layer=7))
    with pytest.raises(ValueError, match="fitted on other embeddings than those of .*: layer 7, not 8"):
        lj.mining.mine_folders(left, right, tmp_path / "out.tsv", transform=lsar)
    with pytest.raises(ValueError, match="k is 900; it must be a whole number from 1 to 766"):
        lj.mining.mine_folders(left, right, tmp_path / "out.tsv", k=900, block=BLOCK)
    blank = made_folder(tmp_path / "blank", np.ones((2, 24), np.float32), ["", " "])
    with pytest.raises(ValueError, match="blank has only blank sentences"):
        lj.mining.mine_folders(left, blank, tmp_path / "out.tsv")
    (left.folder / "copy").mkdir(exist_ok=True)
    with pytest.raises(ValueError, match="which is read"):
        lj.mining.mine_folders(left, right, left.folder / "out.tsv")


def test_a_transform_is_applied_to_both(sides, tmp_path):
    source, target, left, right = sides
    center = lj.transforms.fit_center({"de": source + 1, "en": target - 1}, source=SPEC)
    out = tmp_path / "pairs.jsonl"
    lj.mining.mine_folders(left, right, out, k=2, transform=center, languages=("de", "en"), block=BLOCK)
    expected = lj.mining.mine(center(source, "de"), center(target, "en"), k=2)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = [(int(row["source"].split()[1]), int(row["target"].split()[1])) for row in rows]
    assert set(found) == set(zip(expected.source.tolist(), expected.target.tolist(), strict=True))
    # Ids are those of the folder, which has copies.
    assert all(
        left.sentences(int(row["source_id"]), int(row["source_id"]) + 1).texts == [row["source"]] for row in rows[:9]
    )


def test_from_text(tiny, tmp_path, capsys, rng):
    english = [" ".join(rng.choice(list("abcdefghij"), 6)) for _ in range(40)]
    (tmp_path / "en.txt").write_text("\n".join(english) + "\n")
    rows = [{"text": f"{text}\tz"} for text in english[5:25]]
    (tmp_path / "de.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = [str(tmp_path / name) for name in ("de.jsonl", "en.txt", "out.tsv")]
    assert main(["mine", *names]) == 1
    assert "de.jsonl is read as text, which needs an encoder; give --encoder" in capsys.readouterr().err
    options = ["--encoder", str(TINY), "--layer", "2", "--k", "2"]
    assert main(["mine", *names, *options]) == 0
    assert "pairs to " in capsys.readouterr().out
    encoder = lj.load_encoder(str(TINY), layer=2)
    german = [row["text"] for row in rows]
    expected = lj.mining.mine(encoder.encode(german), encoder.encode(english), k=2)
    lines = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    pairs = zip(expected.source, expected.target, strict=True)
    # The tab of a sentence is written as a space.
    assert {(one, other) for _, one, other in lines} == {(german[i].replace("\t", " "), english[j]) for i, j in pairs}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de.jsonl", "en.txt", "out.tsv"]
    # The same from folders.
    for name in ("de.jsonl", "en.txt"):
        assert main(["encode", str(tmp_path / name), str(tmp_path / name[:2]), *options[:4]]) == 0
    names = [str(tmp_path / name) for name in ("de", "en", "again.tsv")]
    assert main(["mine", *names, *options[:2]]) == 1
    assert "there is no text to encode; omit it" in capsys.readouterr().err
    assert main(["mine", *names, "--k", "2"]) == 0
    again = [line.split("\t") for line in (tmp_path / "again.tsv").read_text().splitlines()]
    assert {tuple(row[1:]) for row in again} == {tuple(row[1:]) for row in lines}
