"""Fits and applied transforms in shares: in any order, killed and repeated, the result is that of one process."""

import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.embeddings.job import locked
from tests.attack.stops import Killed, count_changes
from tests.conftest import TINY
from tests.embeddings.made_folder import made_folder
from tests.embeddings.test_job import words

SHARES = 3
TEXT = ["--encoder", str(TINY), "--layer", "1"]
DATA = {
    "text": ["--texts", "de=de.txt", "fr=fr.txt", *TEXT],
    "table": ["--texts", "t.tsv", *TEXT],
    "vectors": ["--texts", "de=de.npy", "fr=fr.npy"],
    "folders": ["--texts", "de=de", "fr=fr"],
}
APPLY = ["apply", "t", "de.npy", "out", "--language", "de"]
JOBS = {"fit": ["fit", "lir", "out", *DATA["vectors"], "--save", "sums"], "apply": APPLY}


@pytest.fixture(autouse=True)
def here(rng, tmp_path, monkeypatch):
    """Text, vectors and folders of small blocks, and a fit of the vectors; French is in one share alone."""
    monkeypatch.chdir(tmp_path)
    for module, name, rows in (("options.inputs", "_LINES", 4), ("options.inputs", "BLOCK", 16),
                               ("cli.apply", "BLOCK", 16), ("cli.apply", "_BLOCK", 16)):  # fmt: skip
        monkeypatch.setattr(f"lsar_jax.{module}.{name}", rows)
    for code, rows in (("de", 99), ("fr", 4)):
        lines = words(rng, rows)
        lines[1] = " "
        Path(f"{code}.txt").write_text("".join(f"{line}\n" for line in lines))
        with Path("t.tsv").open("a") as table:
            table.writelines([*["text\tlanguage\n"] * (code == "de"), *(f"{line}\t{code}\n" for line in lines)])
        x = rng.standard_normal((rows, 32)).astype(np.float32) + 1
        np.save(f"{code}.npy", x)
        made_folder(tmp_path / code, x, lines)
    assert main(["fit", "center", "t", *DATA["vectors"]]) == 0


def run(command, *shares, count=SHARES):
    for share in shares:
        assert main([*command, "--shard", f"{share}/{count}"]) == 0


def ended():
    assert main(["merge", "out"]) == 0
    assert not Path("out.job").exists()


def both(command):
    """Does a job in one process, which writes one, and in shares in any order, one of them again, which write out."""
    assert main(command("one")) == 0
    run(command("out"), 0, *random.sample(range(SHARES), SHARES))
    ended()


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("method", ["lsar", "whitening", "lir"])
def test_a_fit_in_shares_is_that_of_one_process(method, data):
    both(lambda name: ["fit", method, name, *DATA[data], "--save", f"{name}.sums"])
    for name, tolerance in (("{}.sums", 1e-6), ("{}", 1e-5)):
        one, shared = (load_file(name.format(which)) for which in ("one", "out"))
        assert one.keys() == shared.keys()
        for key, array in one.items():
            np.testing.assert_allclose(shared[key], array, rtol=0, atol=tolerance * np.abs(array).max(), err_msg=key)
    assert lj.Transform.load("out").fits == lj.Transform.load("one").fits
    assert "sample.de" in shared


@pytest.mark.parametrize(("data", "path", "more"), [("text", "de.txt", TEXT), ("vectors", "de.npy", [])])
def test_a_transform_applied_in_shares_gives_the_bytes_of_one_process(data, path, more):
    assert main(["fit", "center", "t", *DATA[data], "--overwrite"]) == 0
    both(lambda name: ["apply", "t", path, name, "--language", "de", *more])
    assert Path("out").read_bytes() == Path("one").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_share_or_a_merge_that_is_killed_before_any_change_goes_on(job):
    def taken():
        """The outputs, which are moved away; there is no work."""
        assert not Path("out.job").exists()
        return [Path(name).rename(f"{name}.taken").read_bytes() for name in ("out", "sums") if Path(name).exists()]

    def share():
        run(JOBS[job], 0)

    run(JOBS[job], 2, 1)
    shutil.copytree("out.job", "begun.job")
    changes = count_changes(share)
    shutil.copytree("out.job", "done.job")
    stops = [("begun", share, stop) for stop in range(changes)]
    stops += [("done", ended, stop) for stop in range(count_changes(ended))]
    whole = taken()
    for before, step, stop in stops:
        shutil.copytree(f"{before}.job", "out.job")
        with pytest.raises(Killed):
            count_changes(step, stop)
        if step is share:
            share()
        if Path("out.job").exists():  # else it was at its end
            ended()
        assert taken() == whole, (before, stop)


def test_a_share_that_is_repeated_does_only_the_blocks_that_are_missing():
    run(APPLY, 0, 1, 2)
    first, second = (next(Path("out.job").glob(f"*/block-0000{number}.npy")) for number in (0, 3))
    first.unlink()
    np.save(second, np.zeros((16, 32), np.float32))
    run(APPLY, 0)
    ended()
    assert [np.load("out")[start : start + 16].any() for start in (0, 48)] == [True, False]


@pytest.mark.parametrize("job", JOBS)
def test_shares_that_do_not_belong_together_are_refused(job, refused):
    command, work, shares = JOBS[job], Path("out.job"), ["--shard", "1/3"]
    run(command, 0)
    for more, message in (
        (["--shard", "0/4"], "out was begun in 3 shares, not in 4; go on with --shard I/3"),
        ([*shares, "--strength", "0.5"], "other options: strength was 1.0 and is now 0.5; remove it"),
        ([], "out lacks the shares 1/3, 2/3; run its command with --shard 1/3"),
    ):
        assert message in refused(main, [*command, *more])
    assert "out lacks the shares 1/3, 2/3" in refused(main, ["merge", "out"])
    with locked(work, "", 1):
        assert "share 1/3 of out is being written by another process" in refused(main, [*command, *shares])
    run([re.sub(r"^(out|sums|t)$|de.npy", f"{Path.cwd()}/\\g<0>", word) for word in command], 1, 2)
    before = np.load("de.npy")
    np.save("de.npy", before + 1)
    for again in (["merge", "out"], [*command, *shares]):
        assert f"other options: {'--texts de' if job == 'fit' else 'vectors'} was ['" in refused(main, again)
    np.save("de.npy", before)
    Path("out").write_text("mine")  # in the meantime
    assert "out already exists" in refused(main, ["merge", "out"])
    assert Path("out").read_text() == "mine"
    Path("out").unlink()
    ended()


@pytest.mark.parametrize(("job", "count"), [*((job, SHARES) for job in JOBS), ("fit", 2)])
def test_shares_of_other_options_that_began_at_the_same_time(job, count, refused):
    """Each has written the record; no part of the other options, or of another number of shares, is used."""
    before = np.load("de.npy")
    np.save("de.npy", before + (count == SHARES))
    run(JOBS[job], 1, count=count)
    Path("out.job/job.json").unlink()
    Path("out.job/shares.json").write_text('{"count": 3}')
    np.save("de.npy", before)
    run(JOBS[job], 0, 2)
    assert "share 1/3 of out differs" in refused(main, ["merge", "out"])
    run(JOBS[job], 1)
    ended()
    found = Path("out").rename("one").read_bytes()
    run([*JOBS[job], "--overwrite"], *range(SHARES))
    ended()
    assert Path("out").read_bytes() == found


def test_what_cannot_be_shared(refused):
    fit = ["fit", "cbie", "out", *DATA["vectors"], "--clusters", "2", "--components", "1", "--shard", "0/2"]
    assert "fitted on the embeddings; encode the text in shares, with lsar-jax encode" in refused(main, fit)
    assert "standard input cannot be" in refused(main, ["apply", "t", "-", "out", *TEXT, "--shard", "0/2"])
    Path("blank.txt").write_text("\n \n")
    made_folder(Path("blank"), np.ones((2, 32), np.float32), [" ", ""])
    for name, more in (("blank.txt", ["de=de.txt", *TEXT]), ("blank", ["de=de"])):
        fit = ["fit", "center", f"{name}.out", "--texts", f"de={name}", *more, "--shard", "1/2"]
        assert f"{name}: there are no embeddings" in refused(main, fit)


def test_small_files_are_in_different_shares_and_their_last_rows_and_the_weights_are_compared(refused):
    np.save("de.npy", np.ones((9000, 32), np.float32))
    vectors = ["fit", "center", "out", "--texts", "de=de.npy", "en=fr.npy", "fr=fr.npy", "--limit", "9"]
    run(vectors, 2, 1, 0)
    assert [path.stat().st_size > 0 for path in Path("out.job").glob("*/moments-*")] == [True] * SHARES
    np.load("de.npy", mmap_mode="r+")[-1] = 2
    assert "other options: --texts de was ['" in refused(main, [*vectors, "--shard", "1/3"])
    shutil.copytree(TINY, "bert")
    text = ["fit", "center", "text", *DATA["text"][:3], "--encoder", "bert"]
    run(text, 0)
    save_file({name: x + 1 for name, x in load_file("bert/model.safetensors").items()}, "bert/model.safetensors")
    assert "other options: spec was {'id': 'bert'" in refused(main, [*text, "--shard", "1/3"])
