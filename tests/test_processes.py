"""Processes that share moments, search, fits, mining and training."""

import re
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from tests.process_group import ended, kill_one, started
from tests.shared_work import SharedWork, strong_arguments, write_input
from tests.train.runs import log_of

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("name", ["lir", "cbie", "whitening", "moments", "lsar"])
def test_fits(one, two, name):
    # Directions of clusters follow from embeddings, which batches of other sentences round in another way.
    same(one / name, two / name, 1e-5 if name == "cbie" else 1e-6)


def test_mining_and_scores_of_transfer(one, two):
    for name in ("pairs.tsv", "pos/transfer.json"):
        assert (two / name).read_bytes() == (one / name).read_bytes()
    assert not list(two.glob("*.job"))


@pytest.mark.parametrize("name", ["strong", "chunks", "linear", "pos/seed-12", "pos/seed-8"])
def test_training(one, two, name):
    same_log(one / name, two / name)
    for path in one.glob(f"{name}/**/*.safetensors"):
        # Of so few links, the best orthogonal matrix is not the only one.
        if not path.name.startswith("procrustes"):
            same(path, two / path.relative_to(one), 1e-5)


def test_mining_goes_on_after_a_kill(one, folder, tmp_path, capsys, all_progress):
    out = tmp_path / "pairs.tsv"
    job = ["mine", str(folder / "source"), str(folder / "target"), str(out), "--block", "1024"]
    processes = started("lsar_jax", job, 2, folder=tmp_path)
    kill_one(processes, 0, lambda: list(tmp_path.glob("pairs.tsv.job/backward-*.safetensors")), signal.SIGTERM)
    assert not out.exists()
    # With another number of processes, and without the blocks that were finished.
    capsys.readouterr()
    assert main(job) == 0
    assert int(re.findall(r"\((\d+)%\)", capsys.readouterr().out)[0]) > 100 / 3
    assert out.read_bytes() == (one / "pairs.tsv").read_bytes()


def test_training_goes_on_after_a_kill(one, folder, tmp_path):
    out = tmp_path / "strong"
    job = [*map(str, strong_arguments(folder, out)), "--checkpoint-seconds", "0"]
    lines = int(np.random.default_rng().integers(3, len(log_of(one / "strong"))))
    print(f"killed after {lines} lines of the log")
    log = out / "log.jsonl"
    processes = started("train.align", job, 2, folder=tmp_path)
    kill_one(processes, 1, lambda: log.is_file() and len(log.read_text().splitlines()) >= lines)
    processes = started("train.align", job, 2, folder=tmp_path)
    status, errors = ended(processes)
    assert status == [0, 0], errors
    assert "resuming after step" in processes[0].printed
    same_log(one / "strong", out)


@pytest.mark.parametrize(
    ("each", "message"),
    [
        ((["--limit", "9"], ["--limit", "8"]), "the options of process 1 are not those of process 0"),
        (([], ["--nonsense"]), "nonsense"),
        ((), "the files of process 1 are not those of process 0"),
    ],
    ids=["other options", "usage", "other vectors"],
)
def test_processes_that_differ_end(tmp_path, each, message):
    places = [tmp_path / name for name in ("a", "b")]
    for number, place in enumerate(places):
        place.mkdir()
        np.save(place / "x.npy", np.full((9, 4), 1.0 if each else number, np.float32))
    fit = ["fit", "center", tmp_path / "out", "--data", "de=x.npy"]
    status, errors = ended(started("lsar_jax", fit, 2, folder=tmp_path, each=each, places=places))
    assert 0 not in status
    assert message in "".join(errors)
    assert not (tmp_path / "out").exists()


def test_an_error_in_one_process_of_a_script_ends_the_other(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "import lsar_jax as lj\n"
        "lj.processes.start_processes(sys.argv[1].partition('=')[2])\n"
        "if lj.processes.is_first():\n"
        "    raise RuntimeError('in one alone')\n"
        "lj.processes.wait_for_all('never')\n"
    )
    processes = started("script", [], 2, folder=tmp_path, places=[tmp_path, tmp_path])
    status, errors = ended(processes)
    assert status[0] == 1
    assert "in one alone" in errors[0]
    assert status[1] != 0
