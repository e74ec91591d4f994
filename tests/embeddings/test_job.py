"""Text encoded into a folder: the vectors of an encoder, whatever the format, however often it was stopped."""

import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from filelock import FileLock

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.corpora.records import Records
from lsar_jax.embeddings.job import check_own
from tests.attack.stops import end_after
from tests.commands import peak_memory
from tests.conftest import TINY

ROWS = 8


def words(rng, count):
    """Sentences of random letters; every fifth is one of three."""
    made = [" ".join(rng.choice(list("abcdefghij"), rng.integers(1, 9))) for _ in range(count)]
    return [text if number % 5 else ("b a d", "", "c a b")[number // 5 % 3] for number, text in enumerate(made)]


@pytest.fixture
def text(rng, tmp_path):
    lines = words(rng, 50)
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    return lines


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def command(folder, source="in.txt", out="out", *more):
    return ["encode", str(folder / source), str(folder / out), "--encoder", str(TINY), "--layer", "2",
            "--shard-rows", str(ROWS), *more]  # fmt: skip


def encoded(folder, *arguments):
    """The folder that a command writes."""
    assert main(command(folder, *arguments)) == 0
    return lj.embeddings.open(folder / arguments[1] if len(arguments) > 1 else folder / "out")


@pytest.fixture
def error_of(refused, tmp_path):
    """A function that takes the arguments of ``command``, and returns the error of the command."""
    return lambda *arguments: refused(main, command(tmp_path, *arguments))


def test_lines_that_are_not_in_nfc_are_counted(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("ab\nVie\u0323\u0302t\n\u1100\u1161\n", encoding="utf-8")
    assert [shard.decomposed for shard in encoded(tmp_path).manifest.shards] == [2]
    assert capsys.readouterr().out.endswith(" in 1 shard; 2 not in Unicode's composed form (NFC)\n")


def test_rows_are_lines(text, tmp_path, capsys, unchecked):
    x = encoded(tmp_path)
    assert "out has 50 vectors of width" in capsys.readouterr().out
    encoder = lj.load_encoder(str(TINY), layer=2)
    assert x.spec == encoder.spec
    expected = encoder.encode(text)
    assert x.shape == expected.shape
    np.testing.assert_allclose(x[:], expected, rtol=0, atol=1e-5)
    for part in (slice(None), slice(5, 21), -1, slice(40, 5, -3)):
        np.testing.assert_array_equal(x[part], np.asarray(x)[part])
    np.testing.assert_array_equal(np.concatenate(list(x.blocks(7))), x[:])
    assert x.sentences(6, 18) == (text[6:18], [str(row) for row in range(6, 18)])
    assert x.sentences(-2, 60).texts == text[-2:]
    chosen = np.array([49, 3, 17, 3])
    for form in (np.array, np.uint8, list):
        np.testing.assert_array_equal(x.take(form(chosen)), x[:][chosen])
    assert x.sentences_of(chosen).texts == [text[row] for row in chosen]
    for row in (50, -51):
        with pytest.raises(IndexError, match=f"row {row} does not exist; there are 50 rows"):
            x[row]
    for row in (1.9, np.float32(2.7), True, np.True_, None, "1", [1], (1, 2)):
        with pytest.raises(IndexError, match="is not a whole number or a range"):
            x[row]
    for rows in ([1.0], [True, False], [[1]], 1):
        with pytest.raises(IndexError, match="is not a whole number or a range"):
            x.take(np.array(rows))
    assert np.array_equal(x[np.uint8(49)], x[-1])
    with pytest.raises(ValueError, match="in a folder is a copy"):
        np.array(x, copy=False)
    # Rows of one sentence are one vector, encoded once a shard; those in another shard are packed otherwise.
    assert text[0] == text[45]
    np.testing.assert_allclose(x[0], x[45], rtol=0, atol=1e-5)
    shards = [list(dict.fromkeys(text[first : first + ROWS])) for first in range(0, len(text), ROWS)]
    tokens = [encoder.encode_with_report(sentences)[1].tokens for sentences in shards]
    assert [shard.tokens for shard in x.manifest.shards] == tokens
    assert not (tmp_path / "out" / ".job").exists()
    half = encoded(tmp_path, "in.txt", "half", "--store", "float16", "--normalize")
    assert half.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(half[:].astype(np.float32), axis=1), 1, atol=1e-3)


def test_every_format_gives_the_same(text, tmp_path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    rows = [{"sentence": line, "key": f"k{row}", "other": 1} for row, line in enumerate(text)]
    for form in ("jsonl", "ndjson", "json"):
        (tmp_path / f"in.{form}").write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    for form, dialect in (("csv", "excel"), ("tsv", "excel-tab")):
        with (tmp_path / f"in.{form}").open("w", newline="") as file:
            csv.writer(file, dialect).writerows([rows[0], *(row.values() for row in rows)])
    for path in list(tmp_path.glob("in.*")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    pq.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in.PARQUET")
    paths = list(tmp_path.glob("in.*"))
    assert len(paths) == 13
    for path in paths:
        columns = (None, None) if ".txt" in path.name else ("sentence", "key")
        records = list(Records([path], *columns))
        ids = columns[1]
        assert [record.text for record in records] == text
        assert [record.id for record in records] == [ids and f"k{row}" for row in range(50)]
    expected = encoded(tmp_path)
    assert expected.sentences() == (text, [str(row) for row in range(50)])
    x = encoded(tmp_path, "in.jsonl", "parquet", "--text", "sentence", "--ids", "key", "--format", "parquet")
    np.testing.assert_array_equal(x[:], expected[:])
    assert x.sentences() == (text, [f"k{row}" for row in range(50)])
    x.check()
    table = pq.read_table(sorted((tmp_path / "parquet").glob("*.parquet")))
    assert table["id"].to_pylist() == [f"k{row}" for row in range(50)]
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), expected[:])
    # Standard input, as a file that is open, a pipe, and a file that is called like standard input.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_bytes((tmp_path / "in.txt").read_bytes())
    for name in ("-", "./-", "pipe"):
        with piped(tmp_path / "pipe", "in.txt") if name == "pipe" else (tmp_path / "in.txt").open() as file:
            monkeypatch.setattr(sys, "stdin", file if name == "-" else None)
            assert main(["encode", name, *command(tmp_path, out=f"of{len(name)}")[2:]]) == 0
        np.testing.assert_array_equal(lj.embeddings.open(tmp_path / f"of{len(name)}")[:], expected[:])


@contextmanager
def piped(path, name):
    """A pipe at a path that another process writes a file of the same folder to."""
    os.mkfifo(path)
    with subprocess.Popen(["cp", path.with_name(name), path]) as copying:
        try:
            yield
        finally:
            copying.kill()


def stop_after(shards, folder):
    """Stops a job, as by Ctrl-C, after some shards."""
    encoder, stop = lj.load_encoder(str(TINY), layer=2), end_after(shards * ROWS, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        lj.embeddings.encode(encoder, [folder / "in.txt"], folder / "out", shard_rows=ROWS, progress=stop)


def test_a_stopped_job_goes_on(text, tmp_path, caplog, error_of):
    encoded(tmp_path, "in.txt", "whole")
    expected = contents(tmp_path / "whole")
    stop_after(3, tmp_path)
    with pytest.raises(FileNotFoundError, match="out is not finished; run the command that encodes it again"):
        lj.embeddings.open(tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("vectors-*")}
    assert len(times) == 3
    with FileLock(tmp_path / "out" / ".job" / "lock"):
        assert "out is being written by another process; wait for it" in error_of()
    # As a process that was killed leaves it.
    (tmp_path / "out" / ".vectors-00003.0123456789abcdef.partial.npy").write_bytes(b"half")
    # The name of an encoder may change.
    shutil.copytree(TINY, tmp_path / "copy")
    encoded(tmp_path, "in.txt", "out", "--encoder", str(tmp_path / "copy"))
    assert contents(tmp_path / "out") == expected
    assert {path: path.stat().st_mtime_ns for path in times} == times
    # A finished folder is checked, and a shard whose file is missing is encoded again.
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    missing = [tmp_path / "out" / n for n in ("sentences-00001.jsonl", "vectors-00000.npy", "vectors-00005.npy")]
    for path in missing:
        path.unlink()
    encoded(tmp_path)
    assert "vectors-00005.npy is missing, and is written again" in caplog.text
    assert contents(tmp_path / "out") == expected
    # Other shards are not written.
    written = {path.stem.partition("-")[2] for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert written == {"00000", "00001", "00005"}


@pytest.mark.parametrize("finished", [False, True])
def test_faults_are_named(finished, text, tmp_path, error_of):
    if finished:
        encoded(tmp_path)
    else:
        stop_after(3, tmp_path)
    source, shard = tmp_path / "in.txt", tmp_path / "out" / "vectors-00001.npy"
    before = contents(tmp_path / "out") if finished else None
    whole = source.read_text()
    lines = whole.splitlines(keepends=True)
    source.write_text("".join([*lines[:12], "z z z\n", *lines[13:]]))
    assert "rows 8 to 15 are not those of vectors-00001.npy" in error_of()
    source.write_text("".join(lines[:16]))
    assert "in.txt changed since " in error_of()
    if finished:
        source.write_text("".join([*lines, "one more\n"]))
        assert "rows 48 to 50 are not those of vectors-00006.npy" in error_of()
    source.write_text(whole)
    for options, message in (
        (["--layer", "1"], "another embedding space (layer 1, not 2)"),
        (["--dtype", "bfloat16"], "another embedding space (dtype bfloat16, not float32)"),
        (["--normalize"], "normalize was False and is now True"),
    ):
        assert f"was begun with other options: {message}" in error_of("in.txt", "out", *options)
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "vectors-00001.npy is corrupt: its SHA-256 does not match the manifest; remove it" in error_of()
    if finished:
        with pytest.raises(ValueError, match=r"vectors-00001.npy is corrupt"):
            lj.embeddings.open(tmp_path / "out").check()
    shard.unlink()
    if finished:
        with pytest.raises(FileNotFoundError, match=r"vectors-00001.npy is missing; run the command"):
            lj.embeddings.open(tmp_path / "out")
    encoded(tmp_path)
    assert shard.read_bytes() == content
    assert before is None or contents(tmp_path / "out") == before


def test_text_that_cannot_be_encoded(text, tmp_path, error_of):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    assert "other already exists and will not be overwritten" in error_of("in.txt", "other")
    assert "there is no absent.txt in " in error_of("absent.txt")
    assert "is text, which has no column 'key'" in error_of("in.txt", "out", "--ids", "key")
    assert "latin.txt, line 2 is not UTF-8" in error_of(write(tmp_path, "latin.txt", "a\nß\n".encode("latin-1")))
    with pytest.raises(FileNotFoundError):
        lj.embeddings.open(tmp_path / "out")
    # Options may change until a shard is finished.
    write(tmp_path, "in.jsonl", "".join(json.dumps({"sentence": line}) + "\n" for line in text).encode())
    assert "field 'text' is not in" in error_of("in.jsonl")
    # As a run with other options leaves it that was killed before the record of its shard.
    write(tmp_path, "out/vectors-00009.parquet", b"half")
    assert encoded(tmp_path, "in.jsonl", "out", "--text", "sentence").sentences().texts == text
    assert not (tmp_path / "out" / "vectors-00009.parquet").exists()


def write(folder, name, content):
    (folder / name).write_bytes(content)
    return name


def test_a_shard_that_comes_out_otherwise_is_never_taken(text, tmp_path, error_of):
    """As after an update of a package whose version is not recorded."""
    stop_after(3, tmp_path)
    shard, note = tmp_path / "out" / "vectors-00001.npy", tmp_path / "out" / ".job" / "00001.json"
    shard.unlink()
    record = json.loads(note.read_text())
    record["files"]["vectors-00001.npy"] = f"sha256:{0:064d}"
    note.write_text(json.dumps(record))
    for _ in range(2):
        assert "was encoded again, and is not what it was" in error_of()
    with pytest.raises(FileNotFoundError):
        lj.embeddings.open(tmp_path / "out")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    peaks = {}
    # Compiling takes more memory than a run: the first one keeps the programs for the others.
    for name, lines in (("compiled", 12_000), ("short", 12_000), ("long", 120_000)):
        source, out = tmp_path / f"{name}.txt", tmp_path / name
        with source.open("w") as file:
            file.writelines(f"{number} {'z' * 210}\n" for number in range(lines))
        peaks[name] = peak_memory("encode", source, out, "--encoder", TINY, "--layer", 0, "--shard-rows", 2048)
    # The vectors alone would be 15 MB, and the text 28 MB.
    assert sum(path.stat().st_size for path in out.iterdir()) > 43e6
    assert peaks["long"] < peaks["short"] + 12


def test_a_file_that_safetensors_has_not_renamed(tmp_path):
    (tmp_path / ".tmpuDgfSL").write_bytes(b"")
    check_own(tmp_path, "lock")
    (tmp_path / ".tmp-mine").write_bytes(b"")
    with pytest.raises(ValueError, match=r"\.tmp-mine is where a job keeps work"):
        check_own(tmp_path, "lock")
