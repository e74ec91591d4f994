"""Text encoded into a folder: the vectors of an encoder, whatever the format, however often it was stopped."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from filelock import FileLock

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.corpora.records import Records
from tests.attack.damage import on_a_full_disk
from tests.conftest import TINY

ROWS = 8


def words(rng, count):
    """Sentences of random letters, every fifth of which is one of three that occur again and again."""
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


def test_rows_are_lines(text, tiny, tmp_path, capsys):
    assert main(command(tmp_path)) == 0
    assert "out has 50 vectors of width" in capsys.readouterr().out
    x = lj.embeddings.open(tmp_path / "out")
    encoder = lj.load_encoder(str(TINY), layer=2)
    assert x.spec == encoder.spec
    expected = encoder.encode(text)
    assert x.shape == expected.shape
    np.testing.assert_allclose(x[:], expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(x), x[:])
    np.testing.assert_array_equal(np.concatenate(list(x.blocks(7))), x[:])
    np.testing.assert_array_equal(x[5:21], x[:][5:21])
    np.testing.assert_array_equal(x[-1], x[49])
    assert x.sentences(6, 18) == (text[6:18], [str(row) for row in range(6, 18)])
    # Rows of one sentence are one vector, encoded once a shard.
    assert np.array_equal(x[0], x[45])
    shards = [list(dict.fromkeys(text[first : first + ROWS])) for first in range(0, len(text), ROWS)]
    tokens = [encoder.encode_with_report(sentences)[1].tokens for sentences in shards]
    assert [shard.tokens for shard in x.manifest.shards] == tokens
    assert not (tmp_path / "out" / ".job").exists()
    with pytest.raises(IndexError, match="row 50 does not exist; there are 50 rows"):
        x[50]
    # Moments, and a transform that is applied where it is encoded.
    moments = lj.Moments.from_blocks(x.blocks())
    np.testing.assert_allclose(moments.mean, x[:].mean(axis=0, dtype=np.float64), atol=1e-6)


def test_every_format_gives_the_same(text, tmp_path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    assert main(command(tmp_path)) == 0
    expected = lj.embeddings.open(tmp_path / "out")[:]
    lines = (tmp_path / "in.txt").read_bytes()
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(lines))
    rows = [{"sentence": line, "key": f"k{row}", "other": 1} for row, line in enumerate(text)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress((tmp_path / "in.jsonl").read_bytes()))
    pq.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in.parquet")
    columns = ["--text", "sentence", "--ids", "key"]
    for number, (source, options) in enumerate(
        [
            ("in.txt.gz", []), ("in.jsonl", columns), ("in.jsonl.gz", columns), ("in.parquet", columns),
            ("in.txt", ["--format", "parquet"]), ("in.jsonl", [*columns, "--format", "parquet"]),
        ]
    ):  # fmt: skip
        assert main(command(tmp_path, source, f"out{number}", *options)) == 0
        x = lj.embeddings.open(tmp_path / f"out{number}")
        np.testing.assert_array_equal(x[:], expected)
        ids = [f"k{row}" if "--ids" in options else str(row) for row in range(50)]
        assert x.sentences() == (text, ids)
        x.check()
    table = pq.read_table(sorted((tmp_path / "out5").glob("*.parquet")))
    assert table["id"].to_pylist() == [f"k{row}" for row in range(50)]
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), expected)
    # Standard input, which cannot be read from its beginning again unless it is given again.
    run = [sys.executable, "-m", "lsar_jax", *command(tmp_path, "in.txt", "piped")]
    run[run.index(str(tmp_path / "in.txt"))] = "-"
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4"}
    subprocess.run(run, input=lines, env=environment, check=True, stdout=subprocess.DEVNULL)
    np.testing.assert_array_equal(lj.embeddings.open(tmp_path / "piped")[:], expected)


def test_half_precision_and_unit_length(text, tiny, tmp_path):
    assert main(command(tmp_path, "in.txt", "out", "--store", "float16", "--normalize")) == 0
    x = lj.embeddings.open(tmp_path / "out")
    assert x.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(x[:].astype(np.float32), axis=1), 1, atol=1e-3)


def stop_after(shards, folder):
    """Stops a job, as by Ctrl-C, after some shards."""

    def told(progress):
        if progress.rows >= shards * ROWS:
            raise KeyboardInterrupt

    encoder = lj.load_encoder(str(TINY), layer=2)
    with pytest.raises(KeyboardInterrupt):
        lj.embeddings.encode(encoder, [folder / "in.txt"], folder / "out", shard_rows=ROWS, progress=told)


def test_a_stopped_job_goes_on(text, tiny, tmp_path, caplog):
    assert main(command(tmp_path, "in.txt", "whole")) == 0
    expected = contents(tmp_path / "whole")
    stop_after(3, tmp_path)
    with pytest.raises(FileNotFoundError, match="out is not finished; run the command that encodes it again"):
        lj.embeddings.open(tmp_path / "out")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("vectors-*")}
    assert len(kept) == 3
    # What a process that was killed leaves behind.
    (tmp_path / "out" / ".vectors-00003.0123456789abcdef.partial.npy").write_bytes(b"half")
    assert main(command(tmp_path)) == 0
    assert contents(tmp_path / "out") == expected
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    # A finished folder is checked; a shard that is missing is encoded again.
    (tmp_path / "out" / "vectors-00002.npy").unlink()
    assert main(command(tmp_path)) == 0
    assert "vectors-00002.npy is missing, and is encoded again" in caplog.text
    assert contents(tmp_path / "out") == expected


def refused(folder, capsys, *arguments):
    capsys.readouterr()
    assert main(command(folder, *arguments)) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("finished", [False, True])
def test_faults_are_named(finished, text, tiny, tmp_path, capsys):
    if finished:
        assert main(command(tmp_path)) == 0
    else:
        stop_after(3, tmp_path)
    source, shard = tmp_path / "in.txt", tmp_path / "out" / "vectors-00001.npy"
    before = contents(tmp_path / "out") if finished else None
    whole = source.read_text()
    lines = whole.splitlines(keepends=True)
    changed = [*lines]
    changed[12] = "z z z\n"
    source.write_text("".join(changed))
    error = refused(tmp_path, capsys)
    assert "in.txt changed: rows 8 to 15 are not those that vectors-00001.npy in " in error
    source.write_text("".join(lines[:16]))
    assert "in.txt changed: " in refused(tmp_path, capsys)
    if finished:
        source.write_text("".join([*lines, "one more\n"]))
        assert "in.txt changed: " in refused(tmp_path, capsys)
    source.write_text(whole)
    for options, told in (
        (["--layer", "1"], "another embedding space (layer 1, not 2)"),
        (["--dtype", "bfloat16"], "another embedding space (dtype bfloat16, not float32)"),
        (["--normalize"], "normalize was False and is now True"),
        (["--max-length", "8"], "max_length was "),
        (["--shard-rows", "9"], "shard_rows was 8 and is now 9"),
    ):
        assert f"was begun with other options: {told}" in refused(tmp_path, capsys, "in.txt", "out", *options)
    kept = shard.read_bytes()
    shard.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    assert "vectors-00001.npy is damaged: it is not what was written; remove it" in refused(tmp_path, capsys)
    if finished:
        with pytest.raises(ValueError, match=r"vectors-00001.npy is damaged"):
            lj.embeddings.open(tmp_path / "out").check()
    shard.unlink()
    if finished:
        with pytest.raises(FileNotFoundError, match=r"vectors-00001.npy is missing; run the command"):
            lj.embeddings.open(tmp_path / "out")
    assert main(command(tmp_path)) == 0
    assert shard.read_bytes() == kept
    assert before is None or contents(tmp_path / "out") == before


def test_a_folder_is_written_by_one_job_at_a_time(text, tiny, tmp_path, capsys):
    stop_after(1, tmp_path)
    with FileLock(tmp_path / "out" / ".job" / "lock"):
        assert "out is being written by another process; wait for it" in refused(tmp_path, capsys)
    assert main(command(tmp_path)) == 0


def test_what_cannot_be_encoded(text, tiny, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    assert "other already exists and holds something else" in refused(tmp_path, capsys, "in.txt", "other")
    assert "there is no file " in refused(tmp_path, capsys, "absent.txt")
    assert "is text, which has no column of ids ('key')" in refused(tmp_path, capsys, "in.txt", "out", "--ids", "key")
    for name, content, told in (
        ("latin.txt", "a\nß\n".encode("latin-1"), "latin.txt, line 2 is not UTF-8"),
        ("empty.txt", b"", "empty.txt is empty"),
        ("cut.txt.gz", gzip.compress(b"a b\n" * 999)[:-12], "cut.txt.gz is damaged"),
        ("no.txt.gz", b"a b\n", "no.txt.gz is damaged"),
        ("no.parquet", b"a b\n", "no.parquet cannot be read as parquet"),
        (
            "a.jsonl",
            b'{"text": "a"}\n{"sentence": "a"}\n',
            "a.jsonl, line 2; it has sentence",
        ),
        ("b.jsonl", b'{"text": "a"}\n{"text": 3}\n', "b.jsonl, row 2: text is 3, which is not text"),
        ("c.jsonl", b'{"text": "a\\ud800"}\n', "holds a lone surrogate"),
    ):
        (tmp_path / name).write_bytes(content)
        assert told in refused(tmp_path, capsys, name, f"out-{name}")
        with pytest.raises(FileNotFoundError):
            lj.embeddings.open(tmp_path / f"out-{name}")


def test_a_shard_that_comes_out_otherwise_is_never_taken(text, tiny, tmp_path, capsys):
    """As after an update of a package that the versions do not tell."""
    stop_after(3, tmp_path)
    shard, note = tmp_path / "out" / "vectors-00001.npy", tmp_path / "out" / ".job" / "00001.json"
    shard.unlink()
    record = json.loads(note.read_text())
    record["files"]["vectors-00001.npy"] = f"sha256:{0:064d}"
    note.write_text(json.dumps(record))
    for _ in range(2):
        assert "vectors-00001.npy of " in (error := refused(tmp_path, capsys))
        assert "was encoded again, and is not what it was" in error
    with pytest.raises(FileNotFoundError):
        lj.embeddings.open(tmp_path / "out")


def test_only_one_file_of_a_shard_is_missing(text, tiny, tmp_path):
    assert main(command(tmp_path)) == 0
    expected = contents(tmp_path / "out")
    # The later of two shards takes rows of the earlier.
    for name in ("sentences-00001.jsonl", "vectors-00000.npy", "vectors-00005.npy"):
        (tmp_path / "out" / name).unlink()
    assert main(command(tmp_path)) == 0
    assert contents(tmp_path / "out") == expected


def test_the_same_sentences_in_other_bytes(text, tiny, tmp_path, capsys):
    assert main(command(tmp_path)) == 0
    source = tmp_path / "in.txt"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert "although their sentences are the same; choose another folder" in refused(tmp_path, capsys)


def test_options_may_change_until_a_shard_is_finished(text, tiny, tmp_path, capsys):
    rows = [{"sentence": line} for line in text]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "field 'text' is not in" in refused(tmp_path, capsys, "in.jsonl")
    assert main(command(tmp_path, "in.jsonl", "out", "--text", "sentence")) == 0
    assert lj.embeddings.open(tmp_path / "out").sentences().texts == text


def test_every_damage_of_a_packed_file_is_told(tmp_path, rng):
    whole = gzip.compress("".join(f"{line}\n" for line in words(rng, 300)).encode())
    path = tmp_path / "in.txt.gz"
    for place in rng.integers(12, len(whole) - 20, 12):
        path.write_bytes(whole[:place] + bytes(20) + whole[place + 20 :])
        with pytest.raises(ValueError, match=r"in\.txt\.gz"):
            list(Records([path]))


def test_rows_are_bounded(text, tiny, tmp_path):
    assert main(command(tmp_path)) == 0
    x = lj.embeddings.open(tmp_path / "out")
    assert x.sentences(45, 60).texts == text[45:]
    assert x.sentences(-2).texts == text[-2:]
    rows = np.array([49, 3, 17, 3])
    np.testing.assert_array_equal(x.take(rows), x[:][rows])
    assert x.sentences_of(rows).texts == [text[row] for row in rows]
    for wrong in ([50], [-1]):
        with pytest.raises(IndexError, match="does not exist; there are 50 rows"):
            x.take(np.array(wrong))


def test_a_full_disk_loses_nothing(text, tiny, tmp_path, capsys):
    assert main(command(tmp_path, "in.txt", "whole")) == 0
    with on_a_full_disk(tmp_path / "disk", 49_152) as disk:
        error = refused(tmp_path, capsys, "in.txt", "disk/out")
        assert "was not written: No space left on device" in error
        assert 1 <= len(list((disk / "out").glob("vectors-*.npy"))) < 7
        saved = contents_of_all(disk / "out")
    (tmp_path / "again").mkdir()
    for name, content in saved.items():
        (tmp_path / "again" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "again" / name).write_bytes(content)
    assert main(command(tmp_path, "in.txt", "again")) == 0
    assert contents(tmp_path / "again") == contents(tmp_path / "whole")


def contents_of_all(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


_MEASURED = """
import resource, sys
from pathlib import Path
import lsar_jax as lj
encoder = lj.load_encoder(sys.argv[1], layer=1)
lj.embeddings.encode(encoder, [Path(sys.argv[2])], Path(sys.argv[3]), shard_rows=2048)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak_memory(lines, folder):
    rng = np.random.default_rng(0)
    with (folder / f"{lines}.txt").open("w") as file:
        for _ in range(lines):
            file.write(" ".join(rng.choice(list("abcdefghij"), 8)) + " " + "z" * 200 + "\n")
    arguments = [str(TINY), str(folder / f"{lines}.txt"), str(folder / f"out-{lines}")]
    run = [sys.executable, "-c", _MEASURED, *arguments]
    return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    small, large = (peak_memory(lines, tmp_path) for lines in (12_000, 120_000))
    written = sum(path.stat().st_size for path in (tmp_path / "out-120000").iterdir())
    print(f"{small / 1e6:.0f} MB for 12,000 lines, {large / 1e6:.0f} MB for 120,000, which make {written / 1e6:.0f} MB")
    # The vectors alone would be 15 MB, and the text 28 MB.
    assert written > 43e6
    assert large < small + 12e6
