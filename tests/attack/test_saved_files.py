"""Transforms, moments and results on disk: how they are written, and what happens when their bytes change."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from eval.resampling import Queries
from eval.results import Result, read_results, write_results
from lsar_jax.files import new_file, write_text
from tests.attack.damage import flip_bit, on_a_full_disk, truncate
from tests.conftest import TINY

SPEC = lj.EncoderSpec("bundled", "sha256:0", 8, "mean", "float32")


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(3)
    return {code: rng.standard_normal((60, 24)).astype(np.float32) + i for i, code in enumerate(("de", "en", "zh"))}


def saved(kind, x, path):
    """Writes a file of a kind; returns the function that reads it."""
    if kind == "moments":
        moments = {code: lj.Moments.from_embeddings(rows, second_moment=True) for code, rows in x.items()}
        lj.save_moments(path, moments, source=SPEC)
        return lj.load_moments
    if kind == "center":
        transform = lj.transforms.fit_center(x, source=SPEC)
        transform = transform.with_identifier(lj.transforms.fit_identifier(x, source=SPEC))
    else:
        transform = lj.transforms.fit_lsar(x, source=SPEC)
    transform.save(path)
    return lj.Transform.load


KINDS = ("center", "lsar", "moments")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [flip_bit, truncate])
def test_changed_bytes_are_noticed(kind, damage, x, tmp_path, rng):
    path = tmp_path / "file"
    read = saved(kind, x, path)
    whole = path.read_bytes()
    read(path)
    for _ in range(150):
        path.write_bytes(whole)
        damage(path, rng)
        with pytest.raises(ValueError, match=r"^[^\n]*$"):
            read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_content_gives_the_same_bytes(kind, x, tmp_path):
    for name in "abcdefgh":
        saved(kind, x, tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("theirs")
    link = tmp_path / "out.txt"
    link.symlink_to(target)
    for name in (f".out.{os.getpid()}.partial.txt", "out.partial", "out.txt.partial"):
        (tmp_path / name).symlink_to(target)
    write_text(link, "ours")
    assert target.read_text() == "theirs"
    assert link.read_text() == "ours"
    assert not link.is_symlink()
    assert len(list(tmp_path.iterdir())) == 5


def test_threads_may_write_one_path(x, tmp_path):
    transform = lj.transforms.fit_lsar(x, source=SPEC)
    path = tmp_path / "t"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: transform.save(path), range(80)))
    assert [one.name for one in tmp_path.iterdir()] == ["t"]
    assert lj.Transform.load(path).digests == transform.digests


def test_files_have_the_mode_of_any_new_file(tmp_path):
    code = """
import os, sys, numpy as np, lsar_jax as lj
encoder = lj.load_encoder(sys.argv[2])
for umask in (0o022, 0o077, 0o002):
    os.umask(umask)
    folder = f"{sys.argv[1]}/{umask}"
    os.mkdir(folder)
    lj.transforms.fit_center({"de": np.eye(3, dtype="f")}).save(folder + "/t")
    encoder.to_sentence_transformers(folder + "/exported")
"""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(TINY)], check=True, env=environment)
    names = {"": 0o777, "t": 0o666, "exported": 0o777}
    names |= {"exported/model.safetensors": 0o666, "exported/config.json": 0o666}
    for umask in (0o022, 0o077, 0o002):
        modes = {name: stat.S_IMODE((tmp_path / str(umask) / name).stat().st_mode) for name in names}
        assert modes == {name: mode & ~umask for name, mode in names.items()}


def fail(path):
    with new_file(path) as partial:
        partial.write_text("new")
        raise ZeroDivisionError


def test_nothing_is_left_of_a_write_that_failed(tmp_path):
    (tmp_path / "old").write_text("old")
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path / "old")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "old")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_keeps_the_old_file(kind, x, tmp_path):
    with on_a_full_disk(tmp_path / "disk", 40_000) as disk:
        read = saved(kind, x, disk / "file")
        whole = (disk / "file").read_bytes()
        (disk / "filler").write_bytes(b"x" * (40_960 - len(whole) - 8192))
        wide = {code: np.tile(rows, (1, 40)) for code, rows in x.items()}
        with pytest.raises(OSError, match="file was not written: [^\n]*No space left on device[^\n]*$"):
            saved(kind, wide, disk / "file")
        assert (disk / "file").read_bytes() == whole
        read(disk / "file")
        assert sorted(path.name for path in Path(disk).iterdir()) == ["file", "filler"]


def some_results(value):
    result = Result(
        "tatoeba", ("de",), "e", "1", 8, "mean", "float32", 128, "lsar", {"rank": 3}, "udhr", "en-xx accuracy", value,
        9, None, 0.1,
    )  # fmt: skip
    return [result.resampled(Queries(np.full(900, value)))]


def test_results_outlive_a_full_disk(tmp_path):
    with on_a_full_disk(tmp_path / "disk", 40_960) as disk:
        path = disk / "results.jsonl"
        write_results(some_results(1.0), path)
        used = sum(-(-one.stat().st_size // 4096) * 4096 for one in disk.iterdir())
        (disk / "filler").write_bytes(b"x" * (40_960 - used - 4096))
        with pytest.raises(OSError, match="was not written: .*No space left on device"):
            write_results([*some_results(2.0)] * 30, path)
        [old] = read_results(path)
        assert old.value == 1.0
        assert old.queries.values[0] == 1.0
        assert len(list(disk.iterdir())) == 3


def test_scores_of_other_results_are_noticed(tmp_path):
    for name, value in (("one", 1.0), ("two", 2.0)):
        (tmp_path / name).mkdir()
        write_results(some_results(value), tmp_path / name / "results.jsonl")
    # As if the process had been killed between the two files.
    (tmp_path / "one" / "queries.npz").replace(tmp_path / "two" / "queries.npz")
    with pytest.raises(ValueError, match="holds the scores of other results than .*; run the task again"):
        read_results(tmp_path / "two" / "results.jsonl")
