"""Prepared datasets: documents to sentences, and folders that cannot be read."""

import json
import sys
from typing import ClassVar

import pytest

from lsar_jax.corpora.builders import DatasetFiles, prepare
from lsar_jax.corpora.tfds import find, prepared, prepared_languages, rows
from tests.optional import need

tfds = need("tensorflow_datasets")

COUNT = 130


class Documents(DatasetFiles):
    """A dataset as the Beam builders give it: texts with other fields, by another name."""

    name: ClassVar = "wikipedia"
    fields: ClassVar = {"title": "text", "text": "text"}
    configs: ClassVar = ("20230601.de",)

    def splits(self, config):
        return ("train", "test")

    def rows(self, config, split):
        return ({"title": f"title {n}", "text": f" {split} {n}\n\nline two of {n}\n"} for n in range(COUNT))


class Wiki40b(Documents):
    name: ClassVar = "wiki40b"
    configs: ClassVar = ("de", "zh-cn")

    def rows(self, config, split):
        start = "\n_START_ARTICLE_\nA long title\n_START_PARAGRAPH_\n"
        ends = (f"Ä first {n}_NEWLINE_short_NEWLINE_and the last of {n}" for n in range(COUNT))
        return ({"title": "", "text": f"{start}{end}"} for end in ends)


class Two(Documents):
    name: ClassVar = "two"
    configs: ClassVar = ("de",)
    fields: ClassVar = {"a": "text", "b": "text", "c": "ints"}

    def rows(self, config, split):
        return ({"a": "a", "b": " ", "c": [n, n]} for n in range(COUNT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("datasets")
    for source in (Documents(), Wiki40b(), Two()):
        prepare(source, out)
    return out


def test_wiki40b(folder, monkeypatch):
    every = [piece for n in range(COUNT) for piece in (f"Ä first {n}", f"and the last of {n}")]
    path = folder / "wiki40b" / "de" / "1.0.0"
    assert prepared(path, count=None) == every
    assert prepared(path, count=7) == every[:7]
    # By its name, its only version or its path.
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    assert prepared("wiki40b/zh-cn/1.0.0", count=3) == every[:3]
    assert prepared("wiki40b/de", count=3) == every[:3]
    assert find("wiki40b/de") == path


def test_wikipedia(folder):
    path = folder / "wikipedia" / "20230601.de"
    assert prepared(path, count=3) == ["train 0", "line two of 0", "train 1"]
    assert prepared(path, "test", count=1) == ["test 0"]
    assert prepared(path, "train[50%:]", count=1) == [f"train {COUNT // 2}"]
    assert prepared(path, field="title", count=2) == ["title 0", "title 1"]


def test_rows_are_plain_python(folder):
    expected = [{"a": "a", "b": " ", "c": [n, n]} for n in range(COUNT)]
    assert repr(list(rows(folder / "two" / "de"))) == repr(expected)


def test_refuses_names(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    two = folder / "two" / "de"
    for name, options, error, message in (
        ("wiki40b/fr", {}, FileNotFoundError, r"no prepared dataset at wiki40b/fr nor at .*fr\. .*run `tfds build"),
        ("wiki40b", {}, ValueError, r"wiki40b holds several .*; name one of de/1.0.0, zh-cn/1.0.0"),
        ("wiki40b/de", {"split": "dev"}, ValueError, "split 'dev' of .* cannot be read: Unknown split 'dev'"),
        (two, {"field": "c"}, ValueError, "has no text field 'c'; choose one with field=: a, b"),
        (two, {"field": "b"}, ValueError, "split 'train' of .* has no sentence that document_lines keeps"),
    ):
        with pytest.raises(error, match=message):
            prepared(name, **options)


def test_refuses_files(tmp_path):
    (folder,) = prepare(Documents(), tmp_path).values()
    file = folder / "wikipedia-train.array_record-00000-of-00001"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="split 'train' of .* cannot be read"):
        prepared(folder)
    file.unlink()
    with pytest.raises(ValueError, match="cannot be read: .*wikipedia-train.array_record-00000-of-00001"):
        prepared(folder)
    assert prepared(folder, "test", count=1) == ["test 0"]
    path = folder / "dataset_info.json"
    info = json.loads(path.read_text())
    # A description without a format is older than all others.
    for form, kind in (({"fileFormat": "parquet"}, "parquet"), ({}, "tfrecord")):
        path.write_text(json.dumps({key: value for key, value in info.items() if key != "fileFormat"} | form))
        with pytest.raises(ValueError, match=f"{kind} files, but .*tfds convert_format --dataset_version_dir={folder}"):
            prepared(folder)
    path.write_text("{")
    with pytest.raises(ValueError, match="dataset_info.json is not JSON"):
        prepared(folder)


def test_needs_tensorflow_datasets(folder, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    for call in (lambda: prepared(folder / "wiki40b" / "de"), lambda: prepare(Documents(), tmp_path)):
        with pytest.raises(ImportError, match=r"needs tensorflow-datasets: pip install 'lsar_jax\[tfds\]'"):
            call()
    assert not any(tmp_path.iterdir())


def test_languages_of_a_template(tmp_path, monkeypatch):
    for name in ("de", "zh-cn", "pt", "unfinished-things"):
        (tmp_path / "wiki" / name / "1.0.0").mkdir(parents=True)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    expected = {code: tmp_path / "wiki" / name for code, name in (("de", "de"), ("pt", "pt"), ("zh", "zh-cn"))}
    assert prepared_languages(str(tmp_path / "wiki" / "{}")) == prepared_languages("wiki/{}") == expected
    assert prepared_languages("wiki/{}/1.0.0") == {code: path / "1.0.0" for code, path in expected.items()}
    (tmp_path / "wiki" / "20230601.de").mkdir()
    assert prepared_languages("wiki/20230601.{}") == {"de": tmp_path / "wiki" / "20230601.de"}
    (tmp_path / "wiki" / "deu").mkdir()
    for name, error, message in (
        ("wiki/{}", ValueError, "are both for 'de'; keep only one"),
        ("other/{}", FileNotFoundError, "has no dataset other/LANGUAGE; it has none"),
        ("wiki", ValueError, "'wiki' has no {} in place of the language"),
    ):
        with pytest.raises(error, match=message):
            prepared_languages(name)
