"""Training on a disk that fills up, from checkpoints and caches that are damaged, and in folders of others."""

import json
import re
import shutil

import pytest

from eval.__main__ import main as evaluate
from tests.attack.damage import flip_bit
from tests.conftest import TINY
from tests.train.runs import log_of, write_bitext
from tests.train.test_disentangle import command as plain
from train.disentangle.__main__ import main
from train.run_folder import claimed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bitext of two languages, and the cache of its embeddings."""
    folder = tmp_path_factory.mktemp("attack")
    write_bitext(folder / "bitext")
    assert main(command(folder, folder / "whole", "--epochs", "4")) == 0
    return folder


def command(folder, out, *more):
    return plain(folder, out, "--checkpoint-seconds", "0", *more)


def test_a_damaged_checkpoint_is_not_trained_on(folder, tmp_path, rng, capsys, all_progress):
    out = tmp_path / "run"
    assert main(command(folder, out, "--epochs", "2")) == 0
    newest = max((out / "checkpoints").iterdir(), key=lambda path: int(path.name))
    flip_bit(max(newest.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else -1), rng)
    assert main(command(folder, out, "--epochs", "4")) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "is damaged; going on from the checkpoint of step" in printed
    taken, total = re.findall(r"resuming after step (\d+) of (\d+) ", printed)[0]
    steps = re.findall(rf"step (\d+) of {total} \((\d+)%\)(?:, less than a minute left)?; [a-z_]+ [0-9]", printed)
    assert int(taken) < int(steps[0][0]) < int(total)
    assert steps[-1] == (total, "100")
    assert log_of(out) == log_of(folder / "whole")


@pytest.mark.parametrize("content", ["[]", "{", "null", ""])
def test_the_options_of_a_run_are_damaged(folder, tmp_path, content, refused):
    (tmp_path / "config.json").write_text(content)
    assert "config.json" in refused(main, command(folder, tmp_path))


@pytest.mark.parametrize("kind", ["flipped", "text"])
def test_caches_that_are_not_of_these_embeddings(folder, tmp_path, kind, rng, refused):
    cache = shutil.copytree(folder / "cache", tmp_path / "cache")
    [path] = cache.iterdir()
    if kind == "flipped":
        flip_bit(path, rng)
    else:
        path.write_text("hello")
    arguments = command(folder, tmp_path / "run")
    arguments[arguments.index("--cache") + 1] = str(cache)
    assert path.name in refused(main, arguments)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_nothing_is_written_into_the_encoder(folder, tmp_path, refused):
    encoder = shutil.copytree(TINY, tmp_path / "encoder")
    before = {path.name: path.read_bytes() for path in encoder.iterdir()}
    for out in (encoder, encoder / "heads", tmp_path / "heads" / ".." / "encoder"):
        arguments = command(folder, out)
        arguments[1] = str(encoder)
        assert "which is read; choose another place" in refused(main, arguments)
    assert {path.name: path.read_bytes() for path in encoder.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["config.json", "log.jsonl", "curves.png", "trained.json", "seed-0/meaning.safetensors", "transfer.json"]
)
def test_files_of_others_are_kept(folder, tmp_path, name, refused):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    assert path.name in refused(main, command(folder, tmp_path))
    assert path.read_text() == "{}"
    assert not (tmp_path / "checkpoints").exists()


def test_a_finished_run_without_checkpoints_is_not_replaced(folder, tmp_path, refused):
    out = shutil.copytree(folder / "whole", tmp_path / "run")
    shutil.rmtree(out / "checkpoints")
    error = refused(main, command(folder, out, "--epochs", "4", "--batch", "8"))
    assert "belongs to another run: batch was 16 and is now 8" in error
    heads = out / "seed-0" / "meaning.safetensors"
    before = heads.read_bytes()
    assert main(command(folder, out, "--epochs", "4")) == 0
    assert heads.read_bytes() == before


@pytest.mark.parametrize("content", [b"\xc1\n", b"[]\n", b"{\n", b"{}\n"])
def test_a_damaged_log(folder, tmp_path, content, refused):
    out = shutil.copytree(folder / "whole", tmp_path / "run")
    lines = (out / "log.jsonl").read_bytes().splitlines(keepends=True)
    (out / "log.jsonl").write_bytes(b"".join([content, *lines[1:]]))
    assert f"{out / 'log.jsonl'} is damaged" in refused(main, command(folder, out, "--epochs", "4"))


@pytest.mark.parametrize("content", ["[]", "{", "{}", "3", '{"seeds": 5, "objective": "", "epochs": 1}'])
@pytest.mark.parametrize("name", ["config.json", "trained.json"])
def test_leakage_of_a_damaged_run(folder, tmp_path, name, content, refused):
    out = shutil.copytree(folder / "whole", tmp_path / "run")
    (out / name).write_text(content)
    options = ["--bitext", str(folder / "bitext"), "--out", str(tmp_path / "out")]
    assert name in refused(evaluate, ["leakage", str(out), *options])


@pytest.mark.parametrize("content", ["[]", "{", "{}", "3", '{"files": 1, "seeds": 5, "task": 1}'])
@pytest.mark.parametrize("name", ["config.json", "transfer.json"])
def test_transfer_of_a_damaged_run(tmp_path, name, content, refused):
    for other in ("config.json", "transfer.json"):
        keys = ("files", "train", "dev", "max_length", "task", "metric", "encoder", "maps", "seeds")
        (tmp_path / other).write_text(json.dumps({key: {} for key in keys}))
    (tmp_path / name).write_text(content)
    assert str(tmp_path) in refused(evaluate, ["transfer", str(tmp_path), "--out", str(tmp_path / "out")])


def test_checkpoints_cannot_be_at_a_path_that_is_not_utf_8(tmp_path):
    with pytest.raises(ValueError, match="is not UTF-8, as the paths of checkpoints have to be"):
        claimed(tmp_path / "\udcff" / "run", "bundled", {}).__enter__()
    assert not list(tmp_path.iterdir())
