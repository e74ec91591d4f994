"""Training on a disk that fills up, from checkpoints and caches that are damaged, and in folders of others."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from lsar_jax.array_files import open_arrays, save_arrays
from tests.attack.damage import flip_bit, on_a_full_disk
from tests.conftest import TINY
from tests.train.runs import log_of, write_bitext
from train.disentangle.__main__ import main

SHORT = ["--held-out", "15", "--batch", "16", "--learning-rate", "1e-3", "--layer", "2", "--max-length", "24"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bitext of two languages, and the cache of its embeddings."""
    folder = tmp_path_factory.mktemp("attack")
    write_bitext(folder / "bitext")
    assert main(command(folder, folder / "whole", "--epochs", "4")) == 0
    return folder


def command(folder, out, *more):
    data = ["--encoder", str(TINY), "--data", str(folder / "bitext"), "--cache", str(folder / "cache")]
    return [*data, *SHORT, "--checkpoint-seconds", "0", "--out", str(out), *more]


def test_a_damaged_checkpoint_is_not_trained_on(folder, tmp_path, rng, capsys):
    out = tmp_path / "run"
    assert main(command(folder, out, "--epochs", "2")) == 0
    newest = max((path for path in (out / "checkpoints").iterdir()), key=lambda path: int(path.name))
    flip_bit(max(newest.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else -1), rng)
    assert main(command(folder, out, "--epochs", "4")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "is damaged; going on from the checkpoint of step" in printed
    assert log_of(out) == log_of(folder / "whole")


def test_a_disk_that_fills_up(folder, tmp_path, capsys):
    with on_a_full_disk(tmp_path / "disk", 200 << 10) as disk:
        capsys.readouterr()
        assert main(command(folder, disk / "run", "--epochs", "4")) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "No space left on device" in error or "no checkpoint could be written" in error
        # There is room again.
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        assert main(command(folder, disk / "run", "--epochs", "4")) == 0
        assert log_of(disk / "run") == log_of(folder / "whole")


@pytest.mark.parametrize("content", ["[]", "{", "null", ""])
def test_the_options_of_a_run_are_damaged(folder, tmp_path, content, capsys):
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    assert main(command(folder, tmp_path)) == 1
    error = capsys.readouterr().err
    assert "config.json" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", ["narrow", "short", "float64", "flipped", "text"])
def test_caches_that_are_not_of_these_embeddings(folder, tmp_path, kind, rng, capsys):
    cache = shutil.copytree(folder / "cache", tmp_path / "cache")
    [path] = cache.iterdir()
    with open_arrays(path, format="lsar_jax.embeddings.v1", what="cache") as file:
        x, header = file.read("embeddings"), file.header
    assert header["layer"] == 2
    changed = {"narrow": x[:, :20], "short": x[:-1], "float64": x.astype(np.float64)}
    if kind in changed:
        save_arrays(path, {"embeddings": changed[kind]}, format="lsar_jax.embeddings.v1", header=header)
    elif kind == "flipped":
        flip_bit(path, rng)
    else:
        path.write_text("hello")
    arguments = command(folder, tmp_path / "run")
    arguments[arguments.index("--cache") + 1] = str(cache)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert path.name in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_run_of_others_is_not_continued(folder, tmp_path, capsys):
    assert main(command(folder, tmp_path, "--epochs", "1")) == 0
    before = json.loads((tmp_path / "config.json").read_text())
    assert main(command(folder, tmp_path, "--epochs", "2", "--batch", "8")) == 1
    assert "belongs to another run: batch was 16 and is now 8" in " ".join(capsys.readouterr().err.split())
    assert json.loads((tmp_path / "config.json").read_text()) == before
