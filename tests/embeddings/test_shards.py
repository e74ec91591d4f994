"""Jobs in shares that processes do alone, in any order, and that a merge ends: the bytes are those of one process."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.embeddings.job import locked
from tests.attack.stops import Killed, count_changes
from tests.conftest import TINY
from tests.embeddings.made_folder import made_folder
from tests.embeddings.test_job import contents, words

SHARES = 3


@pytest.fixture(autouse=True)
def here(rng, tmp_path, monkeypatch):
    """Text of 13 shards of rows, and two folders of 3 blocks."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("".join(f"{line}\n" for line in words(rng, 100)))
    x = rng.standard_normal((3000, 8)).astype(np.float32)
    for name, rows in (("source", x), ("target", x[::-1] + 0.3 * rng.standard_normal(x.shape, np.float32))):
        made_folder(tmp_path / name, rows, [f"{name} {row}" for row in range(len(x))])


COMMANDS = {
    "encode": ["encode", "in.txt", "out", "--encoder", str(TINY), "--layer", "1", "--shard-rows", "8"],
    "mine": ["mine", "source", "target", "out", "--block", "1024", "--threshold", "1.1"],
}
each = pytest.mark.parametrize("kind", COMMANDS)


def run(kind, share=None, count=SHARES):
    assert main([*COMMANDS[kind], *([] if share is None else ["--shard", f"{share}/{count}"])]) == 0


def merge():
    assert main(["merge", "out"]) == 0


def taken():
    """The output, which is moved away with its work; files of locks are empty, or have the number of a process."""
    found = contents(Path("out")) if Path("out").is_dir() else Path("out").read_bytes()
    assert not Path("out.job").exists()
    shutil.rmtree("out") if Path("out").is_dir() else Path("out").unlink()
    return found


@each
def test_shares_in_any_order_and_repeated_give_the_bytes_of_one_process(kind):
    run(kind)
    whole = taken()
    order = random.sample(range(SHARES), SHARES)
    for share in [*order, order[0]]:
        run(kind, share)
    merge()
    if kind == "encode":  # of what is finished, all is checked
        run(kind, 1)
        merge()
    assert taken() == whole
    for share in order:
        run(kind, share)
    run(kind)  # ends it as well
    assert taken() == whole


@each
def test_a_share_or_a_merge_that_is_killed_before_any_change_goes_on(kind):
    run(kind)
    whole = taken()
    steps = [*(partial(run, kind, share) for share in range(SHARES)), merge]
    changes = [count_changes(step) for step in steps]
    assert taken() == whole
    for step, stops in ((0, (0, 1, changes[0] // 2, changes[0] - 1)), (-1, (0, 1, changes[-1] // 2, changes[-1] - 2))):
        for stop in stops:
            for run_step in steps[: step % len(steps)]:
                run_step()
            with pytest.raises(Killed):
                count_changes(steps[step], stop)
            at_end = kind == "mine" and steps[step] is merge and not Path("out.job").exists()
            for run_step in () if at_end else steps[step:]:
                run_step()
            assert taken() == whole, stop


def killed(process, ready):
    """Waits until ``ready`` returns something, or the process has ended, and kills it."""
    while process.poll() is None and not ready():
        time.sleep(0.001)
    process.kill()
    process.communicate()
    return process.returncode


@pytest.mark.slow
@each
def test_processes_that_are_killed(kind, all_progress):
    """A Slurm array, each task of which is killed once."""
    run(kind)
    whole = taken()
    ends = []
    for task, restart in product(random.sample(range(SHARES), SHARES), (False, True)):
        array = {"ID": task + 5, "MIN": 5, "MAX": 5 + SHARES - 1, "STEP": 1, "COUNT": SHARES}
        slurm = {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in array.items()}
        process = subprocess.Popen(
            [sys.executable, "-m", "lsar_jax", *COMMANDS[kind]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, env=os.environ | slurm | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        if not restart:
            # The first once it holds its lock, when it can hardly be done; the others after a part, if they are not.
            parts = "out/.job/[0-9]*.json" if kind == "encode" else "out.job/forward-*"
            if not ends:
                parts = str(Path(parts).parent / (f"lock-{task:05d}" if task else "lock"))
            before = len([*Path().glob(parts)])
            ends.append(killed(process, lambda parts=parts, before=before: len([*Path().glob(parts)]) > before))
        else:
            errors = process.communicate(timeout=300)[1]
            assert process.returncode == 0, errors
            assert f"--shard {task}/{SHARES}, by the scheduler" in errors
    assert -signal.SIGKILL in ends
    merge()
    assert taken() == whole


@each
def test_shares_that_do_not_belong_together_are_refused(kind, refused, monkeypatch):
    job = COMMANDS[kind]
    other = ["--normalize"] if kind == "encode" else ["--threshold", "1.2"]
    run(kind, 0)
    work = Path("out/.job" if kind == "encode" else "out.job")
    before = contents(work)
    assert refused(main, ["merge", "out"]) == "error: out lacks the shares 1/3, 2/3; run its command with --shard 1/3\n"
    assert "out lacks the shares 1/3, 2/3" in refused(main, job)
    assert "out was begun in 3 shares, not in 4; go on with --shard I/3" in refused(main, [*job, "--shard", "0/4"])
    assert "was begun with other options" in refused(main, [*job, *other, "--shard", "1/3"])
    with locked(work, "", 1):
        wait = "share 1/3 of out is being written by another process; wait for it"
        assert wait in refused(main, [*job, "--shard", "1/3"])
        assert wait in refused(main, ["merge", "out"])
    assert contents(work).items() >= before.items()
    run(kind, 1)
    run(kind, 2)
    mark = work / "done-00001.json"
    found = json.loads(mark.read_text())
    name = "inputs" if kind == "encode" else "threshold"
    mark.write_text(json.dumps(found | {name: []}))
    assert f"share 1/3 of out differs from share 0/3 in {name}; run it again" in refused(main, ["merge", "out"])
    mark.write_text(json.dumps(found))
    if kind == "mine":
        (work / "arguments.json").rename("arguments")
        assert "arguments.json, the command line of a share, is missing" in refused(main, ["merge", "out"])
        Path("arguments").rename(work / "arguments.json")
    whole = Path.cwd() / "out"
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert main(["merge", str(whole)]) == 0
    assert whole.exists()


def test_a_share_of_other_text_is_refused_by_the_merge(refused):
    run("encode", 0)
    lines = Path("in.txt").read_text().splitlines(keepends=True)
    Path("in.txt").write_text("".join([*lines[:50], "a z\n", *lines[51:]]))
    for share in (1, 2):
        run("encode", share)
    assert "share 1/3 of out differs from share 0/3 in inputs" in refused(main, ["merge", "out"])
    assert not Path("out/manifest.json").exists()


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        ("3/3", {}, "shard is 3; it must be a whole number from 0 to 2"),
        ("1", {}, "--shard 1 is not I/N"),
        (None, {"JOB_COMPLETION_INDEX": "1"}, "--shard 1/ is not I/N, such as 0/4; a scheduler's N"),
        (None, {"SLURM_ARRAY_TASK_ID": "x"}, "SLURM_ARRAY_TASK_ID is 'x'"),
    ],
)
def test_what_is_no_share(given, environment, message, refused, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert message in refused(main, [*COMMANDS["encode"], *(["--shard", given] if given else [])])
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("task", "first", "others"),
    [
        ("JOB_COMPLETION_INDEX", 0, "JOB_COMPLETIONS=2"),
        ("SLURM_ARRAY_TASK_ID", 5, "SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_STEP=1 SLURM_ARRAY_TASK_COUNT=2"),
    ],
)
def test_the_tasks_of_a_scheduler(task, first, others, monkeypatch, capsys):
    for other in others.split():
        monkeypatch.setenv(*other.split("="))
    for number in (1, 0):
        monkeypatch.setenv(task, str(first + number))
        run("encode")
        assert f"--shard {number}/2, by the scheduler" in capsys.readouterr().err
    merge()
    assert len(lj.embeddings.open("out")) == 100


@pytest.mark.parametrize("shard", [(True, 2), (2, 2), (-1, 2)])
def test_a_share_that_does_not_exist(shard):
    with pytest.raises(ValueError, match=r"^shard is .*; it must be a whole number from 0 to 1 \(of 2 shares\)"):
        lj.mining.MiningOptions(shard=shard)


def test_a_share_that_comes_while_a_merge_ends_changes_nothing():
    for share in range(SHARES):
        run("encode", share)
    shutil.copytree("out/.job", "work")
    merge()
    whole = contents(Path("out"))
    shutil.copytree("work", "out/.job")
    Path("out/.job/done-00000.json").unlink()
    run("encode", 1)
    merge()
    assert contents(Path("out")) == whole


def test_shares_may_change_their_number_until_there_is_a_part(refused):
    Path("in.txt").rename("text")
    Path("in.txt").touch()
    assert "in.txt is empty" in refused(main, [*COMMANDS["encode"], "--shard", "0/2"])
    Path("text").replace("in.txt")
    for share in range(SHARES):
        run("encode", share)
    merge()


def test_text_is_encoded_before_it_is_mined_in_shares(refused):
    text = ["mine", "in.txt", "target", "out", "--encoder", str(TINY), "--shard", "0/2"]
    assert "--shard mines folders, but in.txt is a file; encode it first" in refused(main, text)
    assert "out is finished, or was not begun in shares" in refused(main, ["merge", "out"])
