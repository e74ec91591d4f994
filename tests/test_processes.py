"""Processes that share moments, search, fits, mining and training."""

import signal
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.process_group import ended, started
from tests.shared_work import SharedWork, heads_arguments, write_input
from tests.train.runs import log_of
from train.disentangle.__main__ import main as disentangle

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    write_input(folder)
    return folder


@pytest.fixture(scope="module")
def one(folder, tmp_path_factory):
    """What one process makes, on four devices."""
    out = tmp_path_factory.mktemp("one") / "out"
    SharedWork(folder, out).run()
    return out


@pytest.fixture(scope="module")
def two(folder, tmp_path_factory):
    """What two processes make, on two devices each."""
    out = tmp_path_factory.mktemp("two") / "out"
    status, errors = ended(started("tests.shared_work", [folder, out], 2, folder=folder))
    assert status == [0, 0], errors
    return out


def same(path, other, tolerance):
    arrays, others = load_file(path), load_file(other)
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        scale = np.abs(array).max(initial=0)
        np.testing.assert_allclose(others[name], array, rtol=0, atol=tolerance * scale, err_msg=name)


def same_log(path, other):
    lines, others = log_of(path), log_of(other)
    assert len(lines) == len(others)
    for line, other_line in zip(lines, others, strict=True):
        assert [line[name] for name in ("event", "epoch", "step", "active")] == [
            other_line[name] for name in ("event", "epoch", "step", "active")
        ]
        for name, values in line["terms"].items():
            np.testing.assert_allclose(other_line["terms"][name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@slow
def test_moments_and_neighbours(one, two, folder):
    alone, shared = np.load(one / "arrays.npz"), np.load(two / "arrays.npz")
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
@pytest.mark.parametrize("name", ["lir", "cbie", "whitening", "moments", "lsar"])
def test_fits(one, two, name):
    # Directions of clusters follow from embeddings, which batches of other sentences round in another way.
    same(one / name, two / name, 1e-5 if name == "cbie" else 1e-6)


@slow
def test_mining(one, two):
    assert (two / "pairs.tsv").read_bytes() == (one / "pairs.tsv").read_bytes()
    assert not list(two.glob("*.job"))


@slow
@pytest.mark.parametrize("name", ["heads", "strong", "linear", "pos/seed-12", "pos/seed-8"])
def test_training(one, two, name):
    same_log(one / name, two / name)
    for path in one.glob(f"{name}/**/*.safetensors"):
        # Of so few links, the best orthogonal matrix is not the only one.
        if not path.name.startswith("procrustes"):
            same(path, two / path.relative_to(one), 1e-5)


@slow
def test_scores_of_transfer(one, two):
    assert (one / "pos" / "transfer.json").read_text() == (two / "pos" / "transfer.json").read_text()


def kill_second(processes, there):
    """Kills the second process once there is something."""
    deadline = time.monotonic() + 200
    while not there():
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.002)
    processes[1].send_signal(signal.SIGKILL)
    status, errors = ended(processes)
    assert status[1] == -signal.SIGKILL
    assert status[0] not in (0, None)
    # Told by us, if it was waiting for the other one, and else by jax.
    told = ("another process of the job ended", "if another process ended", "heartbeat", "unhealthy")
    assert any(one in errors[0].lower() for one in told), errors[0]


@slow
def test_mining_goes_on_after_a_kill(one, folder, tmp_path):
    out = tmp_path / "pairs.tsv"
    job = ["mine", str(folder / "source"), str(folder / "target"), str(out), "--block", "1024"]
    kill_second(
        started("lsar_jax", job, 2, folder=tmp_path),
        lambda: list(tmp_path.glob("pairs.tsv.job/backward-*.safetensors")),
    )
    assert not out.exists()
    # With another number of processes.
    assert main(job) == 0
    assert out.read_bytes() == (one / "pairs.tsv").read_bytes()


@slow
def test_training_goes_on_after_a_kill(one, folder, tmp_path):
    out = tmp_path / "heads"
    job = [*map(str, heads_arguments(folder, out)), "--checkpoint-seconds", "0"]
    lines = int(np.random.default_rng().integers(3, len(log_of(one / "heads"))))
    print(f"killed after {lines} lines of the log")

    def there():
        log = out / "log.jsonl"
        return log.is_file() and len(log.read_text().splitlines()) >= lines

    kill_second(started("train.disentangle", job, 2, folder=tmp_path), there)
    status, errors = ended(started("train.disentangle", job, 2, folder=tmp_path))
    assert status == [0, 0], errors
    same_log(one / "heads", out)


def test_only_some_commands_are_shared(capsys):
    assert main(["--distributed=127.0.0.1:1,0/2", "apply"]) == 1
    assert "apply cannot be shared by processes; encode, fit, mine can" in capsys.readouterr().err
    assert disentangle(["--distributed="]) == 1
    assert "--distributed= has no address" in capsys.readouterr().err
