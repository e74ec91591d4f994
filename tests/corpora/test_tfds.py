"""Prepared datasets: documents to sentences, and folders that cannot be read."""

import json
import sys
from typing import ClassVar

import pytest

from lsar_jax.corpora.builders import DatasetFiles, prepare
from lsar_jax.corpora.sentence_filters import not_blank
from lsar_jax.corpora.tfds import find, prepared, prepared_languages, rows
from tests.optional import need

tfds = need("tensorflow_datasets")

COUNT = 130


def article(n):
    return (
        f"\n_START_ARTICLE_\nTitle {n}\n\n_START_SECTION_\nA section\n\n_START_PARAGRAPH_\n"
        f"The paragraph {n} before a title.\n\n_START_SECTION_\nÄ section\n\n_START_PARAGRAPH_\n"
        f"Ä first {n}_NEWLINE_short_NEWLINE_and the last of {n}"
    )


class Documents(DatasetFiles):
    """What the Beam builders give: texts with other fields, of a name of theirs."""

    name: ClassVar = "wikipedia"
    fields: ClassVar = {"title": "text", "text": "text"}
    configs: ClassVar = ("20230601.de",)

    def splits(self, config):
        return ("train", "test")

    def rows(self, config, split):
        return ({"title": f"title {n}", "text": f" {split} {n}\n\nline two of {n}\n"} for n in range(COUNT))


class Wiki40b(Documents):
    name: ClassVar = "wiki40b"
    fields: ClassVar = {"text": "text", "wikidata_id": "text", "version_id": "text"}
    configs: ClassVar = ("de", "zh-cn")

    def rows(self, config, split):
        return ({"text": article(n), "wikidata_id": f"Q{n}", "version_id": "1"} for n in range(COUNT))


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
    assert prepared("wiki40b/de", data_dir=folder, count=3) == every[:3]
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    assert prepared("wiki40b/zh-cn/1.0.0", count=3) == every[:3]
    assert find("wiki40b/de") == path


def test_wikipedia(folder):
    path = folder / "wikipedia" / "20230601.de"
    assert prepared(path, count=3) == ["train 0", "line two of 0", "train 1"]
    assert prepared(path, "test", count=1) == ["test 0"]
    assert prepared(path, "train[50%:]", count=1) == [f"train {COUNT // 2}"]
    assert prepared(path, field="title", count=2) == ["title 0", "title 1"]
    assert prepared(path, filter=not_blank, count=1) == [" train 0\n\nline two of 0\n"]


def test_rows_are_plain_python(folder):
    every = list(rows(folder / "two" / "de"))
    assert every == [{"a": "a", "b": " ", "c": [n, n]} for n in range(COUNT)]
    assert {type(item) for row in every for item in row["c"]} == {int}


def test_refuses_names(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    with pytest.raises(FileNotFoundError, match=r"no prepared dataset at wiki40b/fr nor at .*fr\. .*run `tfds build"):
        prepared("wiki40b/fr")
    with pytest.raises(FileNotFoundError, match=f"no prepared dataset at {tmp_path}/none. On a machine"):
        prepared(tmp_path / "none")
    with pytest.raises(ValueError, match=r"wiki40b holds several .*; name one of de/1.0.0, zh-cn/1.0.0"):
        prepared("wiki40b")
    (tmp_path / "wiki40b").symlink_to(folder / "wiki40b")
    with pytest.raises(ValueError, match="split 'dev' is not in .*; it has train, test|it has test, train"):
        prepared("wiki40b/de", "dev")


def test_refuses_fields(folder):
    path = folder / "wikipedia" / "20230601.de"
    with pytest.raises(ValueError, match="field 'body' is not a text field of .*; it has text, title"):
        prepared(path, field="body")
    with pytest.raises(ValueError, match="has the text fields a, b; choose one with field="):
        prepared(folder / "two" / "de")
    with pytest.raises(ValueError, match="field 'c' is not a text field of .*; it has a, b"):
        prepared(folder / "two" / "de", field="c")
    with pytest.raises(ValueError, match="split 'train' of .* has no sentence that oscar_lines keeps"):
        prepared(folder / "two" / "de", field="b")
    with pytest.raises(ValueError, match="count is 0; it must be at least 1"):
        prepared(path, count=0)


@pytest.fixture
def broken(tmp_path):
    """A folder of its own, and a function that changes its description."""
    (out,) = prepare(Documents(), tmp_path).values()

    def change(**values):
        path = out / "dataset_info.json"
        info = {**json.loads(path.read_text()), **values}
        path.write_text(json.dumps({key: value for key, value in info.items() if value is not None}))

    return out, change


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("tfrecord", "tfrecord files, which need TensorFlow"),
        # As it was before there were other formats.
        (None, "tfrecord files, which need TensorFlow"),
        ("parquet", "parquet files, which tensorflow-datasets reads only in part"),
        ("riegeli", "riegeli files, which are not supported"),
    ],
)
def test_refuses_formats(form, message, broken):
    folder, change = broken
    change(fileFormat=form)
    with pytest.raises(ValueError, match=f"{message}; .*run `tfds convert_format --dataset_version_dir={folder} --out"):
        prepared(folder)


def test_refuses_files(broken):
    folder, _ = broken
    file = folder / "wikipedia-train.array_record-00000-of-00001"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="split 'train' of .* cannot be read"):
        prepared(folder)
    file.write_bytes(b"")
    with pytest.raises(ValueError, match="split 'train' of .* cannot be read"):
        prepared(folder)
    file.unlink()
    with pytest.raises(FileNotFoundError, match="lacks wikipedia-train.array_record-00000-of-00001; copy all"):
        prepared(folder)
    assert prepared(folder, "test", count=1) == ["test 0"]
    (folder / "dataset_info.json").write_text("{")
    with pytest.raises(ValueError, match="dataset_info.json is not JSON"):
        prepared(folder)


def test_needs_tensorflow_datasets(folder, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    for call in (lambda: prepared(folder / "wiki40b" / "de"), lambda: prepare(Documents(), tmp_path)):
        with pytest.raises(ImportError, match=r"needs tensorflow-datasets: pip install 'lsar_jax\[eval\]'"):
            call()
    assert not any(tmp_path.iterdir())


def test_languages_of_a_template(tmp_path):
    for name in ("de", "zh-cn", "pt", "unfinished-things"):
        (tmp_path / "wiki" / name / "1.0.0").mkdir(parents=True)
    expected = {code: str(tmp_path / "wiki" / name) for code, name in (("de", "de"), ("pt", "pt"), ("zh", "zh-cn"))}
    assert prepared_languages(str(tmp_path / "wiki" / "{}")) == expected
    assert prepared_languages("wiki/{}", data_dir=tmp_path) == expected
    versions = {code: f"{path}/1.0.0" for code, path in expected.items()}
    assert prepared_languages("wiki/{}/1.0.0", data_dir=tmp_path) == versions
    (tmp_path / "wiki" / "20230601.de").mkdir()
    assert prepared_languages("wiki/20230601.{}", data_dir=tmp_path) == {"de": str(tmp_path / "wiki" / "20230601.de")}
    (tmp_path / "wiki" / "deu").mkdir()
    with pytest.raises(ValueError, match="are for the same language, 'de'; remove one"):
        prepared_languages("wiki/{}", data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no prepared dataset other/{} under"):
        prepared_languages("other/{}", data_dir=tmp_path)
    with pytest.raises(ValueError, match="'wiki' has no {} in place of the language"):
        prepared_languages("wiki", data_dir=tmp_path)
