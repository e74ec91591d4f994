"""Transforms, moments and results on disk: how they are written, and what happens when their bytes change."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.files import new_file, write_text
from lsar_jax.measures.query_scores import QueryScores
from lsar_jax.measures.results import Result, read_results, write_results
from tests.attack.damage import flip_bit, on_a_full_disk, truncate
from tests.embeddings.made_folder import SPEC


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
    write_text(link, "ours")
    assert (target.read_text(), link.read_text(), link.is_symlink()) == ("theirs", "ours", False)


def test_threads_may_write_one_path(x, tmp_path):
    transform = lj.transforms.fit_lsar(x, source=SPEC)
    path = tmp_path / "t"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: transform.save(path), range(80)))
    assert [one.name for one in tmp_path.iterdir()] == ["t"]
    assert lj.Transform.load(path).digests == transform.digests


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_have_the_mode_of_any_new_file(umask, x, tmp_path, tiny):
    before = os.umask(umask)
    try:
        lj.transforms.fit_center(x).save(tmp_path / "t")
        tiny.to_sentence_transformers(tmp_path / "exported")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [*tmp_path.iterdir(), *tmp_path.rglob("*.json")]}
    assert modes == {name: (0o777 if name == "exported" else 0o666) & ~umask for name in modes}
    assert {"t", "exported", "config.json"} <= set(modes)


def test_nothing_is_left_of_a_write_that_failed(tmp_path):
    (tmp_path / "old").write_text("old")
    with pytest.raises(UnicodeEncodeError), new_file(tmp_path / "old") as partial:
        partial.write_text("new \udc80", encoding="utf-8")
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
    names = "tatoeba", ("de",), "e", "1", 8, "mean", "float32", 128, "lsar", {"rank": 3}, "udhr", "en-xx accuracy"
    result = Result(*names, value, 9, None, 0.1)
    return [result.resampled(QueryScores(np.full(900, value)))]


def test_scores_of_other_results_are_noticed(tmp_path):
    for name, value in (("one", 1.0), ("two", 2.0)):
        (tmp_path / name).mkdir()
        write_results(some_results(value), tmp_path / name / "results.jsonl")
    # As if the process had been killed between the two files.
    (tmp_path / "one" / "queries.npz").replace(tmp_path / "two" / "queries.npz")
    with pytest.raises(ValueError, match="holds the scores of other results than .*; run the task again"):
        read_results(tmp_path / "two" / "results.jsonl")


@pytest.mark.parametrize(
    "write", [lambda path: np.savez(path, a=np.array([None])), lambda path: path.write_bytes(b"a")]
)
def test_scores_that_numpy_would_trust(tmp_path, write):
    write_results(some_results(1.0), tmp_path / "results.jsonl")
    write(tmp_path / "queries.npz")
    with pytest.raises(ValueError, match=r"queries.npz cannot be read: it is not an archive of numbers$"):
        read_results(tmp_path / "results.jsonl")
