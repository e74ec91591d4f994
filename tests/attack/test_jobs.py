"""Jobs that are killed, work of other jobs, and folders of others."""

import json
import os
import shutil
from pathlib import Path

import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.mining import MiningOptions
from tests.attack.stops import Killed, count_changes, end_after
from tests.conftest import TINY
from tests.embeddings.made_folder import made_folder
from train.checkpoints import Checkpoints, remove_checkpoints
from train.run_folder import claimed

ROWS = 24


@pytest.fixture
def sides(x, tmp_path):
    """Two small folders."""
    pairs = zip(("de", "en"), x, strict=True)
    return [made_folder(tmp_path / code, v[:ROWS], [f"{code} {i}" for i in range(ROWS)]) for code, v in pairs]


def contents(folder):
    """The bytes of all files, and what links are links to."""
    every = sorted(folder.rglob("*"))
    paths = [path for path in every if path.name != "lock" or not path.is_file() or path.stat().st_size]
    return {path: os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes() for path in paths}


def test_text_that_is_mined_by_a_command_that_is_killed(tmp_path, monkeypatch, rng):
    """It is encoded in the job's folder first; shares of a job are killed in tests/embeddings/test_shards.py."""
    monkeypatch.chdir(tmp_path)
    for code in ("de", "en"):
        Path(f"{code}.txt").write_text("".join(f"{' '.join(rng.choice(list('abcdefgh'), 6))}\n" for _ in range(20)))
    command = ["mine", "de.txt", "en.txt", "out", "--encoder", str(TINY), "--layer", "1"]

    def run():
        assert main(command) == 0

    def taken():
        """The output, which is moved away."""
        return Path("out").rename("taken").read_bytes()

    changes, whole = count_changes(run), taken()
    for stop in (changes // 3, changes - 6, changes - 2):
        with pytest.raises(Killed):
            count_changes(run, stop)
        if Path("out.job").exists() or not Path("out").exists():  # else it was at its end
            run()
        assert taken() == whole
        assert not Path("out.job").exists()


def test_parts_of_other_jobs_or_places(x, tmp_path):
    texts = [str(row) for row in range(len(x[0]))]
    sides = [made_folder(tmp_path / name, v, texts) for name, v in zip("ab", x, strict=True)]
    for k in (2, 3):
        with pytest.raises(Killed):
            lj.mining.mine_folders(*sides, tmp_path / f"{k}.tsv", MiningOptions(k=k, block=1024), progress=end_after(2))
    work = tmp_path / "2.tsv.job"
    whole = {path.name: path.read_bytes() for path in work.iterdir()}
    zero, one, backward = "forward-00000.safetensors", "forward-00001.safetensors", "backward-00000.safetensors"
    for name, other in (
        (zero, work / one),
        (backward, work / zero),
        (zero, tmp_path / "3.tsv.job" / zero),
        (backward, tmp_path / "3.tsv.job" / backward),
    ):
        (work / name).write_bytes(other.read_bytes())
        with pytest.raises(ValueError, match=rf"remove .*2.tsv.job, and mine again: .*{name} has format .*, expected"):
            lj.mining.mine_folders(*sides, tmp_path / "2.tsv", MiningOptions(k=2, block=1024))
        (work / name).write_bytes(whole[name])
    (work / one).unlink()
    with pytest.raises(ValueError, match=f"{one} is missing; remove .*2.tsv.job"):
        lj.mining.mine_folders(*sides, tmp_path / "2.tsv", MiningOptions(k=2, block=1024))
    (work / one).write_bytes(whole[one])
    # Neighbours of another version may differ.
    record = json.loads(whole["job.json"])
    (work / "job.json").write_text(json.dumps(record | {"versions": "lsar_jax 0.0.1"}))
    with pytest.raises(ValueError, match="versions was 'lsar_jax 0.0.1' and is now"):
        lj.mining.mine_folders(*sides, tmp_path / "2.tsv", MiningOptions(k=2, block=1024))
    for name in ("job.json", backward):
        (work / name).unlink()
    with pytest.raises(ValueError, match=f"{zero} is of no job that is known"):
        lj.mining.mine_folders(*sides, tmp_path / "2.tsv", MiningOptions(k=2, block=1024))
    assert (work / zero).read_bytes() == whole[zero]


def test_records_of_other_encodings_or_places(tmp_path, tiny):
    source = tmp_path / "in.txt"
    source.write_text("a b\nc d\ne\n")
    for name, options in (("one", {}), ("two", {"normalize": True})):
        with pytest.raises(Killed):
            lj.embeddings.encode(tiny, [source], tmp_path / name, shard_rows=1, progress=end_after(2), **options)
    record = tmp_path / "one" / ".job" / "00000.json"
    whole = record.read_bytes()
    for other, message in ((record.with_name("00001.json"), "shard 0 has the files"), ("two", "it is of another job")):
        record.write_bytes((tmp_path / other / ".job/00000.json" if other == "two" else other).read_bytes())
        with pytest.raises(ValueError, match=f"00000.json is damaged, .*{message}"):
            lj.embeddings.encode(tiny, [source], tmp_path / "one", shard_rows=1)
    record.write_bytes(whole)
    lj.embeddings.encode(tiny, [source], tmp_path / "one", shard_rows=1)


def scratch(link, root, name="job.json"):
    """Links to a folder of someone's files."""
    theirs = root / "theirs"
    theirs.mkdir()
    for file in (name, "thesis.txt"):
        (theirs / file).write_text("{}")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(theirs)


def inside(path, text="mine"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def linked(path, root):
    inside(root / "theirs.txt")
    path.parent.mkdir()
    path.symlink_to(root / "theirs.txt")


FOREIGN = {
    "link": lambda out, root: scratch(out, root),
    "file": lambda out, root: inside(out),
    "note": lambda out, root: inside(out / "notes.txt"),
    "name like ours": lambda out, root: inside(out / "job.json.bak"),
    "partial": lambda out, root: inside(out / ".notes.0123456789abcdef.partial.txt"),
    "deep": lambda out, root: inside(out / "source" / "deep" / "manifest.json"),
    "empty folder": lambda out, root: (out / "mine").mkdir(parents=True),
    "folder for a file": lambda out, root: (out / "job.json").mkdir(parents=True),
    "linked folder": lambda out, root: scratch(out / "source", root),
    "linked file": lambda out, root: linked(out / "job.json", root),
    "lock": lambda out, root: inside(out / "lock"),
    "linked lock": lambda out, root: linked(out / "lock", root),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("command", ["mine de en out --overwrite", f"encode in.txt out --layer 2 --encoder {TINY}"])
def test_no_file_of_others_is_deleted(kind, command, sides, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a\nb\n")
    work = tmp_path / ("out.job" if "mine" in command else "out/.job")
    work.parent.mkdir(exist_ok=True)
    FOREIGN[kind](work, tmp_path)
    before = contents(tmp_path)
    assert "job" in refused(main, command.split())
    assert contents(tmp_path) == before


def test_no_file_of_others_is_replaced_by_an_encoding(tmp_path, tiny):
    (tmp_path / "in.txt").write_text("a\nb\n")
    inside(tmp_path / "out" / "vectors-00000.npy")
    (tmp_path / "out" / ".job").mkdir()
    with pytest.raises(FileExistsError, match="out already exists and will not be overwritten"):
        lj.embeddings.encode(tiny, [tmp_path / "in.txt"], tmp_path / "out")
    # Unfinished files are deleted only if they are an encoding's.
    lj.embeddings.encode(tiny, [tmp_path / "in.txt"], tmp_path / "whole")
    inside(tmp_path / "whole" / ".notes.0123456789abcdef.partial.txt")
    inside(tmp_path / "whole" / ".vectors-00000.0123456789abcdef.partial.npy")
    lj.embeddings.encode(tiny, [tmp_path / "in.txt"], tmp_path / "whole")
    assert [path.name for path in (tmp_path / "whole").glob(".*")] == [".notes.0123456789abcdef.partial.txt"]


def test_files_that_come_to_a_job_stay(sides, tmp_path, tiny):
    """Beside its parts, or put into its folder before it ends."""
    (tmp_path / "in.txt").write_text("a\nb\n")
    with pytest.raises(Killed):
        lj.embeddings.encode(tiny, [tmp_path / "in.txt"], tmp_path / "out", shard_rows=1, progress=end_after(1))
    (tmp_path / "out" / ".job" / "00000.json").unlink()
    names = ["sentences-00000.npy", "sentences-00000.parquet", "vectors-00000.jsonl", "vectors-000001.npy"]
    for name in names:
        inside(tmp_path / "out" / name)
    lj.embeddings.encode(tiny, [tmp_path / "in.txt"], tmp_path / "out", shard_rows=1)
    assert all((tmp_path / "out" / name).read_text() == "mine" for name in names)
    pairs = tmp_path / "pairs.tsv"
    for name in ("notes.txt", "mine/notes.txt"):
        path = tmp_path / "pairs.tsv.job" / name
        lj.mining.mine_folders(*sides, pairs, MiningOptions(k=2), progress=lambda _, path=path: inside(path))
        assert list(path.parents[name.count("/")].rglob("*.txt")) == [path]
        shutil.rmtree(tmp_path / "pairs.tsv.job")
        pairs.unlink()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda out, root: inside(out / "lock"), "lock is not the lock of a run"),
        (lambda out, root: scratch(out / "checkpoints", root, "5"), "checkpoints is a link"),
        (lambda out, root: scratch(out / "seed-0", root, "5"), "seed-0 is a link"),
    ],
)
def test_no_file_of_others_is_deleted_by_a_run(place, message, tmp_path):
    place(tmp_path / "out", tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=message), claimed(tmp_path / "out", "bundled", {}):
        pass
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["2024", "3.damaged"])
def test_no_folder_of_others_is_deleted_as_a_checkpoint(name, tmp_path):
    inside(tmp_path / name / "thesis.txt")
    inside(tmp_path / "notes" / "thesis.txt")
    with pytest.raises(ValueError, match=f"{name} is no checkpoint of a run; move it away"):
        Checkpoints(tmp_path)
    inside(tmp_path / "5" / "arrays" / "x")
    remove_checkpoints(tmp_path)
    assert not (tmp_path / "5").exists()
    assert (tmp_path / "notes" / "thesis.txt").exists()
    assert (tmp_path / name / "thesis.txt").read_text() == "mine"


def test_mining_text_that_is_in_its_work(sides, tmp_path, refused):
    shutil.copytree(sides[0].folder, tmp_path / "out.job" / "source")
    command = ["mine", str(tmp_path / "out.job" / "source"), str(sides[1].folder), str(tmp_path / "out")]
    assert "source is in " in refused(main, command)
    assert (tmp_path / "out.job" / "source" / "manifest.json").is_file()


def test_a_folder_in_the_place_of_work_is_kept(x, sides, tmp_path, refused):
    """Only a side that is text is encoded there."""
    (tmp_path / "out.job").mkdir()
    made_folder(tmp_path / "out.job" / "target", x[0][:9], list("abcdefghi"))
    error = refused(main, ["mine", *(str(side.folder) for side in sides), str(tmp_path / "out")])
    assert "is where a job keeps work that it deletes; move it away" in error
    assert lj.embeddings.open(tmp_path / "out.job" / "target").sentences().texts == list("abcdefghi")


def test_places_that_cannot_be_mined(sides, tmp_path, refused):
    one, two = (side.folder for side in sides)
    (tmp_path / "linked").symlink_to(one)
    shutil.copytree(one, tmp_path / "copied")
    (tmp_path / "in.txt").write_text("a\nb\n")
    for source, target, out, message in (
        (one, one, "out.tsv", "is given for both sides; give two collections"),
        (one, tmp_path / "linked", "out.tsv", "is given for both sides"),
        (one, tmp_path / "copied", "out.tsv", "hold the same; give the folders of two collections"),
        (tmp_path / "in.txt", tmp_path / "in.txt", "out.tsv", "is given for both sides"),
        (one, two, "/dev/null", "/dev/null is not a file, and will not be replaced by one"),
        (one, two, "/dev/full", "/dev/full is not a file, and will not be replaced by one"),
    ):
        assert message in refused(main, ["mine", str(source), str(target), str(tmp_path / out)])
    assert not list(tmp_path.glob("*.job"))
