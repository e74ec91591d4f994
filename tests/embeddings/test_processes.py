"""Several processes on the loopback interface that share a job."""

import numpy as np
import pytest

from lsar_jax.__main__ import main
from tests.conftest import TINY
from tests.embeddings.test_job import contents, words
from tests.process_group import ended, kill_one, started
from train.align.__main__ import main as align

slow = pytest.mark.slow


def start(folder, out, count, **options):
    """Starts the processes of a job."""
    command = ["encode", "in.txt", folder / out, "--encoder", TINY, "--shard-rows", "8"]
    return started("lsar_jax", command, count, folder=folder, **options)


@pytest.fixture
def text(rng, tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in words(rng, 400)))


@slow
def test_two_processes_write_what_one_does(text, tmp_path):
    """Although one of them is killed, and the job is started again."""
    one = start(tmp_path, "one", 1)
    processes = start(tmp_path, "two", 2)
    place = int(np.random.default_rng().integers(2, 40))
    kill_one(processes, 1, lambda: len(list((tmp_path / "two").glob(".job/[0-9]*.json"))) >= place)
    status, errors = ended(start(tmp_path, "two", 2))
    assert status == [0, 0], errors
    assert ended(one)[0] == [0]
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    # An error of one ends both.
    shard = tmp_path / "two" / "vectors-00001.npy"  # of process 1
    shard.write_bytes(shard.read_bytes()[:-1] + b"\1")
    status, errors = ended(start(tmp_path, "two", 2))
    assert status[1] == 1
    assert "vectors-00001.npy is corrupt" in errors[1]
    assert status[0] != 0


@slow
def test_processes_of_different_text(text, tmp_path):
    lines = (tmp_path / "in.txt").read_text().splitlines(keepends=True)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "in.txt").write_text("".join([*lines[:200], "z z\n", *lines[201:]]))
    status, errors = ended(start(tmp_path, "out", 2, places=(tmp_path, tmp_path / "copy")))
    assert status[0] == 1
    assert "the inputs of process 1 are not those of process 0" in errors[0]
    assert status[1] != 0
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_only_some_commands_are_shared(capsys):
    assert main(["--distributed=127.0.0.1:1,0/2", "apply"]) == 1
    assert "apply cannot be shared by processes; encode, fit, mine can" in capsys.readouterr().err
    assert align(["--distributed="]) == 1
    assert "--distributed= has no address" in capsys.readouterr().err
