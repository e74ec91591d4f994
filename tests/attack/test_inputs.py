"""Files of text, vectors and weights that are damaged, endless, or something else than their names say."""

import gzip
import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.corpora.records import Records
from lsar_jax.corpora.text_files import LONGEST
from tests.conftest import TINY
from train.finetune import conllu_ner_xnli as labelled

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
IS_POINTER = "is a pointer of Git LFS, not the file itself"
LONG = b"ab \0" * (LONGEST // 4 + 1)
TEXTS = ["ab c", 'd "e", f', "a\tc", "b", "", "c a b"]
ENCODER = ["--encoder", str(TINY), "--layer", "2"]


def npy(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"ok\n" + LONG, "a.txt, line 2 is longer than 4 MiB"),
        ("a.txt.gz", gzip.compress(b"ok\n" + LONG, mtime=0), "a.txt.gz, line 2 is longer than 4 MiB"),
        ("a.json.gz", gzip.compress(b'{"text": "' + LONG, mtime=0), "a.json.gz, line 1 is longer than 4 MiB"),
        ("a.csv", b"text\nok\n" + LONG, "a.csv, line 3 is longer than 4 MiB"),
        ("a.csv", b'text\nok\n"' + (b"a" * 4095 + b"\n") * (LONGEST // 4096 + 1), "as CSV, line 3: field larger"),
        ("a.tsv", LONG, "a.tsv, line 1 is longer than 4 MiB"),
        ("a.txt", b"old Mac\r" * (LONGEST // 8 + 1), "line 1 is longer than 4 MiB; write a sentence a line that ends"),
        ("a.json", b'[\n{"text": "a"}\n]\n', "a.json cannot be read as JSON lines, line 1"),
        ("a.ndjson", b'{"text": "a"}\n\n{"text": null}\n', "a.ndjson, line 3: text is None, which is not text"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', "a.jsonl, line 2 is not UTF-8"),
        ("a.csv", b"text,id\na,1\n\nb\n", "a.csv, line 4 has 1 fields, but the header has 2"),
        ("a.csv", b'text,id\na,1\n"b,2\nc,3\n', "a.csv cannot be read as CSV, line 3: unexpected end of data"),
        ("a.csv", b"text,text\na,b\n", "field 'text' is twice in a.csv; it has text, text"),
        ("a.tsv", b"sentence\na\n", "field 'text' is not in a.tsv; it has sentence"),
        ("a.csv", b"text\n", "a.csv is empty"),
        ("a.csv", b"", "a.csv is empty"),
        ("a.jsonl", b"\n \n", "a.jsonl is empty"),
        ("a.jsonl", b'{"text": "a", "id": ' + b"1" * 5000 + b"}", "read as JSON lines, line 1: Exceeds"),
        ("a.parquet.gz", b"", "a.parquet.gz cannot be read as parquet"),
        ("a.txt", gzip.compress(b"a\n", mtime=0), "is not UTF-8: the file is compressed; let its name end in .gz"),
        ("a.txt", npy(a=np.array(["\xe4"])), "the file is a ZIP archive"),
        ("a.txt.xz", b"\xfd7zXZ\0", "the file is compressed by xz; decompress it"),
        ("a.jsonl.bz2", b"BZh91AY&SY", "a.jsonl.bz2, line 1 is not UTF-8: the file is compressed by bzip2"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd\x04\x00", "the file is compressed by zstd; decompress it"),
        ("a.feather", b"ARROW1\0\0\n", "the file is of Arrow; write the table as .parquet, .csv or .jsonl"),
        ("a.xlsx", b"PK\x03\x04\n", "the file is a ZIP archive, as are those of Excel"),
        ("a.tar.gz", gzip.compress(b"a" + bytes(256) + b"ustar\0\n", mtime=0), "the file is a tar archive; unpack it"),
        *(
            (f"a.{end}", mark + f"{text}\n{text}\n".encode(f"utf-16-{order}"), why)
            for end in ("txt", "csv", "jsonl")
            for text in ("text", "Дом")
            for order, bom in (("le", b"\xff\xfe"), ("be", b"\xfe\xff"))
            for mark, why in (
                (bom, "the file is UTF-16; write it as UTF-8"),
                (b"", "the file is UTF-16 without its mark"),
            )
        ),
        ("a.jl", b"a\n", "a.jl cannot be read as JSON lines, line 1"),
        ("a.pq.gz", b"", "a.pq.gz cannot be read as parquet"),
        *((f"a.{end}", bytes(128), f"a.{end} is named as vectors, which are not text") for end in ("emb", "NPZ", "pt")),
        ("a.jsonlines", b"[1]\n", "line 1: it is not an object; write an object a line"),
        ("a.txt.gz", b"a\n", "a.txt.gz is damaged after line 0: Not a gzipped file"),
        *((f"a.{end}", POINTER, f"a.{end} {IS_POINTER}") for end in ("txt", "txt.gz", "jsonl", "csv", "parquet")),
    ],
)
def test_text_that_is_something_else(name, content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        list(Records([Path(name)]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "a b|c"),
        ("a.tsv", "id\ttext|1\ta b|2\tc"),
        ("a.csv", 'id,text|1,"a b"|2,c'),
        ("a.jl", '{"text": "a b"}|{"text": "c"}'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "|"])
def test_ends_of_lines(name, content, end, last, tmp_path):
    (tmp_path / name).write_bytes((content + last).replace("|", end).encode())
    assert [record.text for record in Records([tmp_path / name])] == ["a b", "c"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_blank_lines_of_one_column_are_empty_sentences(name, tmp_path):
    path = tmp_path / name
    for content, texts in (("\ntext\na\n\nb\n", ["a", "", "b"]), ("text%sid\na%s1\n\nb%s2\n", ["a", "b"])):
        path.write_text(content.replace("%s", "," if name == "a.csv" else "\t"))
        assert [record.text for record in Records([path])] == texts


def test_damaged_parquet_is_named(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "a.pq"
    table = pyarrow.table({"text": [f"a {row}" for row in range(9000)]})
    for codec in ("snappy", "none"):
        options = {"compression": codec, "use_dictionary": False, "write_page_checksum": codec == "none"}
        pq.write_table(table, path, row_group_size=3000, **options)
        whole = bytearray(path.read_bytes())
        whole[len(whole) // 2] ^= 0xFF
        path.write_bytes(whole)
        with pytest.raises(ValueError, match=r"a.pq, row group 1 cannot be read as parquet: "):
            list(Records([path]))
    pq.write_table(pyarrow.table({"text": ["a", LONG.decode()]}), path)
    with pytest.raises(ValueError, match=r"a.pq, row 2: text is longer than 4 MiB"):
        list(Records([path]))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a.pq cannot be read as parquet"):
        list(Records([path]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Text in three forms, vectors, and a transform."""
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    shutil.copy("a.txt", "b.txt")
    Path("a.ndjson").write_text("\n\n".join(json.dumps({"content": text}) for text in TEXTS))
    Path("a.csv").write_text("content\n" + "".join('"' + text.replace('"', '""') + '"\n' for text in TEXTS))
    np.save("a.npy", np.random.default_rng(0).standard_normal((30, 32)).astype(np.float32))
    assert main(["fit", "center", "t", "--texts", "de=a.npy", "en=a.npy"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("encode a.txt out --text content", "a.txt is text, which has no column 'content'; leave out --text"),
        ("fit lsar out --texts de=a.txt en=a.txt --text content", "a.txt is text, which has no column 'content'"),
        ("apply t a.txt out --text content", "a.txt is text, which has no column 'content'"),
        ("encode a.ndjson out", "field 'text' is not in a.ndjson, line 1; it has content"),
        ("fit lsar out --texts de=a.ndjson en=a.ndjson", "field 'text' is not in a.ndjson, line 1; it has content"),
        ("apply t a.csv out --language de", "field 'text' is not in a.csv; it has content"),
        ("encode /dev/null out", "/dev/null is empty"),
        ("encode /dev/zero out", "/dev/zero, line 1 is longer than 4 MiB"),
        ("encode - out", "standard input is closed; give a file"),
        ("encode - - out", "standard input can be read only once; write it to a file"),
        ("fit lsar out --texts de=- en=-", "standard input can be read only once"),
        ("mine - - out", "- is given for both sides; give two collections"),
    ],
)
def test_inputs_are_refused(folder, refused, monkeypatch, command, message):
    monkeypatch.setattr("sys.stdin", None)
    assert message in refused(main, [*command.split(), *ENCODER])
    assert not Path("out").is_file()


@pytest.mark.parametrize("name", ["a.npz", "a.emb", "a.safetensors", "pointer.npy"])
def test_vectors_of_another_kind(folder, refused, name):
    x = np.load("a.npy")
    np.savez("a.npz", x)
    for path in ("a.emb", "a.safetensors"):
        x.tofile(path)
    Path("pointer.npy").write_bytes(POINTER)
    message = IS_POINTER if "pointer" in name else "is not a .npy file of floats, which numpy.save writes"
    for command in (["apply", "t", name, "out"], ["fit", "lsar", "out", "--texts", f"de={name}", f"en={name}"]):
        assert f"{name} {message}" in refused(main, command)


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        ("bert", "config.json"),
        ("bert", "model.safetensors"),
        ("bert", "tokenizer.json"),
        ("laser2", "sentencepiece.model"),
        ("xlm", "tokenizer_config.json"),
    ],
)
def test_pointers_in_place_of_weights(tmp_path, encoder, name):
    if encoder != "bert":
        pytest.importorskip("sacremoses")
    shutil.copytree(TINY.with_name(encoder), tmp_path / "copy")
    path = tmp_path / "copy" / name
    assert path.is_file()
    path.write_bytes(POINTER)
    with pytest.raises(ValueError, match=f"{name} {IS_POINTER}"):
        lj.load_encoder(tmp_path / "copy")


def test_pointers_in_place_of_files(folder, refused):
    for path in ("t", "de.conllu"):
        Path(path).write_bytes(POINTER)
    assert f"t {IS_POINTER}" in refused(main, ["apply", "t", "a.npy", "out"])
    assert f"t {IS_POINTER}" in refused(main, ["fit", "lsar", "out", "--moments", "t"])
    with pytest.raises(ValueError, match=IS_POINTER):
        labelled.read_parsed("de.conllu")


@pytest.mark.skipif(os.name != "posix", reason="names of files are text there")
@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_names_that_are_not_utf_8(folder, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    name = os.fsdecode(b"b\xff")
    Path(name).mkdir()
    shutil.copy("a.txt", f"{name}/a.txt")
    for _ in range(2):
        options = ["--format", form, *ENCODER]
        assert main(["encode", f"{name}/a.txt", f"{name}/out", *options]) == 0
    assert lj.embeddings.open(f"{name}/out").sentences().texts == TEXTS
    Path("c.txt").write_text("b\na b\n")
    assert main(["mine", f"{name}/out", "c.txt", f"{name}/m.tsv", "--k", "2", *ENCODER]) == 0
