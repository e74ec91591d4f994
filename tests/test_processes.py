"""Processes that compute moments, search and train together, and how they are connected."""

import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.processes import start_processes
from tests.process_group import ended, free_address, started
from tests.shared_work import SharedWork, strong_arguments, write_input
from tests.train.runs import log_of
from train.align.__main__ import main as align

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    write_input(folder)
    return folder


@pytest.fixture(scope="module")
def one(folder, tmp_path_factory):
    """The work of one process, on four devices."""
    out = tmp_path_factory.mktemp("one") / "out"
    SharedWork(folder, out).run()
    return out


@pytest.fixture(scope="module")
def two(folder, tmp_path_factory):
    """The work of two processes, on two devices each, which Slurm tells where they are."""
    out = tmp_path_factory.mktemp("two") / "out"
    status, _, errors = ended(started("tests.shared_work", folder, out, folder=folder, slurm=True))
    assert status == [0, 0], errors
    return out


def same(path, other, tolerance):
    arrays, others = load_file(path), load_file(other)
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        # Softmax cancels the bias of keys: its gradient is rounding, from which Adam takes steps of full length.
        if name.endswith("attention.self.key.bias"):
            continue
        scale = np.abs(array).max(initial=0)
        np.testing.assert_allclose(others[name], array, rtol=0, atol=tolerance * scale, err_msg=name)


def same_log(path, other):
    lines, others = log_of(path), log_of(other)
    assert len(lines) == len(others)
    for line, other_line in zip(lines, others, strict=True):
        for name in ("event", "epoch", "step", "active"):
            assert line[name] == other_line[name]
        for name, values in line["terms"].items():
            np.testing.assert_allclose(other_line["terms"][name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@slow
def test_moments_and_neighbours(one, two, folder):
    with np.load(one / "arrays.npz") as alone_file, np.load(two / "arrays.npz") as shared_file:
        alone, shared = dict(alone_file), dict(shared_file)
    assert shared["counts"].tolist() == [203, 203]
    for name in ("mean", "scatter", "alone"):
        np.testing.assert_allclose(shared[name], alone[name], rtol=0, atol=1e-6 * np.abs(alone[name]).max())
    x = np.load(folder / "x.npy")
    for metric in ("cosine", "dot"):
        scores, ids = lj.retrieval.nearest(x[:20], x, 150, metric=metric)
        for found in (alone, shared):
            np.testing.assert_array_equal(found[f"{metric} ids"], ids)
            np.testing.assert_allclose(found[f"{metric} scores"], scores, rtol=1e-6, atol=1e-6)
    # Two rows are the same as row 2, in both shares; the lower one comes first.
    assert shared["cosine ids"][2, :3].tolist() == [2, 100, 150]
    np.testing.assert_array_equal(shared["last"], alone["last"])


@slow
@pytest.mark.parametrize("name", ["strong", "chunks", "linear", "pos/seed-12", "pos/seed-8"])
def test_training(one, two, name):
    same_log(one / name, two / name)
    for path in one.glob(f"{name}/**/*.safetensors"):
        # Of so few links, the best orthogonal matrix is not the only one.
        if not path.name.startswith("procrustes"):
            same(path, two / path.relative_to(one), 1e-5)


@slow
def test_scores_of_transfer(one, two):
    assert (two / "pos/transfer.json").read_bytes() == (one / "pos/transfer.json").read_bytes()


@slow
def test_training_goes_on_after_kills(one, folder, tmp_path):
    """One process of two is killed, and then the other one."""
    log = tmp_path / "out/log.jsonl"
    job = ("train.align", *strong_arguments(folder, log.parent), "--checkpoint-seconds", "0")
    lines = len(log_of(one / "strong"))
    for number, most in ((1, lines // 2), (0, lines)):
        least = int(np.random.default_rng().integers(2, most))
        print(f"process {number} is killed after {least} lines of the log")
        begun, processes = time.time(), started(*job, folder=tmp_path)
        while not log.is_file() or log.stat().st_mtime < begun or len(log.read_text().splitlines()) < least:
            assert all(process.poll() is None for process in processes), ended(processes)
            time.sleep(0.002)
        processes[number].kill()
        begun = time.monotonic()
        status, _, errors = ended(processes)
        # It waits for the other one, and does not have to find out that there are no more signs of it.
        assert time.monotonic() - begun < 60
        assert status[number] == -signal.SIGKILL
        assert status[1 - number] not in (0, None)
        messages = "another process of the job ended|if another process ended|unhealthy|another task died"
        assert re.search(messages, errors[1 - number]), errors[1 - number]
    status, printed, errors = ended(started(*job, folder=tmp_path))
    assert status == [0, 0], errors
    assert "resuming after step" in printed[0]
    same_log(one / "strong", log.parent)


@slow
@pytest.mark.parametrize(
    ("each", "message"),
    [
        ((["--seed", "9"], ["--seed", "8"]), "error: the options of process 1 are not those of process 0"),
        (([], ["--nonsense"]), "nonsense"),
    ],
    ids=["other options", "usage"],
)
def test_commands_that_differ_end(tmp_path, each, message):
    status, _, errors = ended(started("train.align", "--out", "out", folder=tmp_path, each=each))
    assert 0 not in status
    assert message in "".join(errors)
    assert not (tmp_path / "out").exists()


@slow
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("start.version = lambda _: number; begin(where)", "process 1 has 2 processes, lsar_jax 1, jax 1"),
        ("begin(where); claimed(Path('out'), 'bert', {'': number}).__enter__()", "text of process 1 are not those of"),
        # jax would listen at all addresses.
        ("begin(where); number == '0' and socket.create_connection(('127.0.0.2', port))", "ConnectionRefusedError"),
    ],
    ids=["other versions", "other text", "error in one, and another address"],
)
def test_scripts_that_differ_end(tmp_path, lines, message):
    (tmp_path / "script.py").write_text(f"""
import re, socket, sys
from pathlib import Path
import lsar_jax as lj
from lsar_jax.processes import start, wait_for_all
from train.run_folder import claimed
where = sys.argv[1].partition("=")[2]
_, port, number, _ = re.split("[:,/]", where)
begin = lj.processes.start_processes
{lines}
wait_for_all("never")
""")
    status, _, errors = ended(started("script", folder=tmp_path))
    assert status[0] == 1
    assert status[1] != 0
    assert message in errors[0]


@slow
def test_the_other_process_does_not_come(tmp_path):
    """jax itself ends this one: its message comes after a line that says for what it waits."""
    address = free_address()
    script = f"""
import functools, jax
from lsar_jax.processes import start_processes
jax.distributed.initialize = functools.partial(jax.distributed.initialize, initialization_timeout=1)
start_processes("{address},1/2")
"""
    ends = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert ends.returncode == -signal.SIGABRT
    assert ends.stderr.startswith(f"jax waits at {address} for all processes")
    assert "DEADLINE_EXCEEDED" in ends.stderr


@slow
def test_no_cluster(tmp_path):
    ends = subprocess.run([sys.executable, "-m", "train.align", "--distributed"], capture_output=True, text=True)
    assert ends.returncode == 1
    assert ends.stderr.splitlines()[-1] == (
        "error: the processes could not be connected: coordinator_address should be defined; outside of a cluster that "
        "jax knows, give --distributed=HOST:PORT,NUMBER/COUNT"
    )


def test_an_address_where_process_0_cannot_listen(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        reasons = {taken: "Address already in use", "192.0.2.1:8476": "Cannot assign", "no.such.host.invalid:8476": ""}
        for address, reason in reasons.items():
            with pytest.raises(ValueError, match=rf"cannot listen at {address}: .*{reason}.*; give an address of its"):
                start_processes(f"{address},0/2")
    monkeypatch.setenv("JAX_COORDINATOR_BIND_ADDRESS", "nonsense")
    with pytest.raises(ValueError, match="cannot listen at nonsense"):
        start_processes("127.0.0.1:8476,0/2")


@pytest.mark.parametrize(
    "where",
    ["10.0.0.1:0,0/2", "10.0.0.1:65536,0/2", "10.0.0.1:99999999,0/2", "a:1,2/2", "a:1,0/0", "a:1,-1/2", "a,0/2", "a:1"]
    + [f"{host}:8476,0/2" for host in ("[::1", "::1", "", "a b")],
)
def test_no_address(where):
    with pytest.raises(ValueError, match="is not HOST:PORT,NUMBER/COUNT"):
        start_processes(where)


def test_only_training_is_distributed(capsys, refused):
    for words in (["--distributed=127.0.0.1:1,0/2", "encode"], ["fit", "--distributed"]):
        assert main(words) == 2
        assert "--distributed is for training alone; give each process of encode" in capsys.readouterr().err
    assert "--distributed= has no address" in refused(align, ["--distributed="])
