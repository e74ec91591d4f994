"""Our TensorFlow datasets: what is prepared and read back equals the files, and what is wrong is said."""

import json
import sys

import pytest

from lsar_jax import corpora
from lsar_jax.corpora.builders import Bucc, Monolingual, Parallel, XquadR, prepare
from lsar_jax.corpora.tfds import prepared, rows
from tests.dataset_hub import write_rows as write
from tests.optional import need

tfds = need("tensorflow_datasets")

# What a sentence may hold: line separators of Unicode, spaces at the ends, nothing at all.
LINES = [f"{'äक文'[n % 3]} {n}\u2028 \x0c " * (n % 4) for n in range(300)]


def test_monolingual(tmp_path):
    write(tmp_path, "text/deu.txt", LINES)
    write(tmp_path, "text/zh_Hant.txt", LINES[::-1])
    folders = prepare(Monolingual(tmp_path / "text"), tmp_path / "out")
    assert folders == {code: tmp_path / "out" / "monolingual" / code / "1.0.0" for code in ("de", "zh-Hant")}
    for code, name in (("de", "deu"), ("zh-Hant", "zh_Hant")):
        assert Monolingual.read(folders[code]) == corpora.lines(tmp_path / "text" / f"{name}.txt")
    assert Monolingual.read(folders["zh-Hant"]) == LINES[::-1]
    # As a corpus it is what the text files are.
    assert prepared(folders["de"], count=20) == corpora.text_folder(tmp_path / "text", ["de"], 20)["de"]
    # Nothing but the dataset is left.
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["monolingual"]
    files = {"dataset_info.json", "features.json", "monolingual-train.array_record-00000-of-00001"}
    assert {path.name for path in folders["de"].iterdir()} == files
    # TensorFlow Datasets reads it too.
    builder = tfds.builder_from_directory(str(folders["de"]))
    assert (builder.name, builder.info.config_name, str(builder.version)) == ("monolingual", "de", "1.0.0")
    assert [row["text"].decode() for row in builder.as_data_source("train")] == LINES
    assert "tensorflow" not in sys.modules


def test_parallel_tables(tmp_path):
    pairs = [(f"domain {n % 2}", f"source {n}", LINES[n]) for n in range(150)]
    write(tmp_path, "eng-deu.tsv", pairs)
    write(tmp_path, "en-zh_Hant.tsv", ["a\tb\tc"])
    write(tmp_path, "notes.tsv", ["not bitext"])
    write(tmp_path, "en-es.news.tsv", ["a\tb", "c\td"])
    write(tmp_path, "en-es.talks.tsv", ["x\te\tf"])
    write(tmp_path, "en-fr.tsv", ["g\th"])
    write(tmp_path, "TED-2020.en-it.tsv", ["x\ti\tj"])
    folders = prepare(Parallel(tmp_path), tmp_path / "out")
    assert list(folders) == ["en-de", "en-es", "en-fr", "en-it", "en-zh-Hant"]
    first, second, domain = Parallel.read(folders["en-de"])
    assert list(zip(domain, first, second, strict=True)) == pairs
    assert prepared(folders["en-de"], field="source", count=2) == ["source 0", "source 1"]
    assert Parallel.read(folders["en-es"]) == (["a", "c", "e"], ["b", "d", "f"], ["news", "news", "x"])
    assert Parallel.read(folders["en-fr"]).domain == [""]
    assert Parallel.read(folders["en-it"]).first == ["i"]


def test_moses_files(tmp_path):
    write(tmp_path, "GNOME.ger-en.ger", LINES)
    write(tmp_path, "GNOME.ger-en.en", LINES[::-1])
    write(tmp_path, "GNOME.ger-en.ids", ["other"])
    read = Parallel.read(prepare(Parallel(tmp_path), tmp_path / "out")["de-en"])
    assert read == (LINES, LINES[::-1], [""] * len(LINES))


def squad(count=120, **last):
    """Paragraphs of two sentences, and of each a question that the second answers; the third differs."""
    paragraphs = []
    for n in range(count):
        context = f"Sentence {n}. Ä second."
        first = len(f"Sentence {n}. ")
        question = {"id": f"id{n}", "question": f"question {n}?", "answers": [{"answer_start": first + 2, "text": "s"}]}
        breaks = [[0, first - 1], [first, len(context)]]
        questions = [question, {**question, "id": f"q{n}"}]
        paragraphs.append({"context": context, "sentence_breaks": breaks, "qas": questions})
    paragraphs[2] |= last
    return {"data": [{"paragraphs": paragraphs[:50]}, {"paragraphs": paragraphs[50:]}]}


def test_xquad_r(tmp_path):
    text = squad()
    # The end of the first sentence is the first sentence's.
    text["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"answer_start": 11}]
    (tmp_path / "deu.json").write_text(json.dumps(text))
    read = XquadR.read(prepare(XquadR(tmp_path), tmp_path / "out")["de"])
    assert read.ids == [f"{name}{n}" for n in range(120) for name in ("id", "q")]
    assert read.questions[2:4] == ["question 1?"] * 2
    assert read.candidates[:4] == ["Sentence 0.", "Ä second.", "Sentence 1.", "Ä second."]
    assert read.answers == [0, 1, *(2 * n + 1 for n in range(1, 120) for _ in range(2))]


def bucc(folder, code="de", split="sample"):
    source = {f"{code}-{n:09d}": f"{line}\tafter a tab" for n, line in enumerate(LINES)}
    target = {f"en-{n:09d}": f"{split} {n}" for n in range(200)}
    gold = [(f"{code}-{n:09d}", f"en-{(n * 7) % 200:09d}") for n in range(40, 0, -1)]
    for end, pairs in ((code, source.items()), ("en", target.items()), ("gold", gold)):
        write(folder, f"{code}-en.{split}.{end}", pairs)
    return source, target, gold


def test_bucc(tmp_path):
    files = {split: bucc(tmp_path / "de-en", split=split) for split in ("training", "sample")}
    bucc(tmp_path, "zh", "dev")
    # The shared task's own test files have no gold pairs.
    (tmp_path / "de-en" / "de-en.test.de").write_text("is not read")
    with pytest.raises(FileNotFoundError, match="has no zh-en.training.gold"):
        Bucc.load(tmp_path, "zh-en", "training")
    folders = prepare(Bucc(tmp_path), tmp_path / "out")
    assert list(folders) == ["de-en", "zh-en"]
    for split, (source, target, gold) in files.items():
        read = Bucc.read(folders["de-en"], split)
        assert read == (source, target, gold)
        assert list(read.other) == list(source)
    with pytest.raises(ValueError, match=r"split 'training' of .*zh-en.* cannot be read: Unknown split .*\['sample'\]"):
        list(rows(folders["zh-en"], "training"))


def test_prepare_writes_all_or_nothing(tmp_path):
    write(tmp_path, "text/de.txt", LINES)
    bad = write(tmp_path, "text/fr.txt", LINES)
    bad.write_bytes(b"\n".join([b"fine"] * 200 + [b"bad \xff"]))
    with pytest.raises(ValueError, match=r"fr.txt, line 201 is not UTF-8"):
        prepare(Monolingual(tmp_path / "text"), tmp_path / "out")
    assert not any((tmp_path / "out").iterdir())
    bad.unlink()
    prepare(Monolingual(tmp_path / "text"), tmp_path / "out")
    with pytest.raises(FileExistsError, match="monolingual already exists and will not be overwritten"):
        prepare(Monolingual(tmp_path / "text"), tmp_path / "out")


MOSES = {"x.de-fr.de": LINES[:5]}
REFUSED = [
    # A source, its files (lines, or JSON), and the error.
    (Monolingual, {}, "has no LANGUAGE.txt; it has none"),
    (Parallel, {}, r"no bitext: neither SOURCE-TARGET.tsv"),
    (Parallel, {"en-de.tsv": ["a\tb\tc", "a\tb"]}, "en-de.tsv, line 2 has 2 tab-separated fields; expected 3"),
    (Parallel, {"en-de.tsv": []}, "en-de.tsv is empty"),
    (Parallel, MOSES, "there is no x.de-fr.fr in"),
    (Parallel, MOSES | {"x.de-fr.fr": LINES[:3]}, "fr has 3 lines and .*de has more; line i belongs to line i"),
    (Parallel, MOSES | {"x.de-fr.fr": LINES[:7]}, "de has 5 lines and .*fr has more; line i belongs to line i"),
    (Parallel, {"en-de.tsv": ["a\tb"], "en-de.x.tsv": ["a\tb"]}, "en-de.* are both for en-de"),
    (XquadR, {"de.json": "{}"}, "de.json.* is not in XQuAD-R's format: KeyError"),
    *((XquadR, {"de.json": json.dumps(squad(**change))}, f"de.json, .*{message}") for change, message in (
        ({"qas": squad()["data"][0]["paragraphs"][1]["qas"]}, "the id 'id1' is already in article 1, paragraph 2"),
        ({"sentence_breaks": [[0, 3]]}, "paragraph 3 .*the question 'id2' has no answer in a sentence"),
        ({"qas": [{"id": "x", "question": "?", "answers": []}]}, "paragraph 3 .*the question 'x' has no answer"),
    )),
    (Bucc, {}, "has no LANGUAGE-en.SPLIT.gold of a split, sample or training"),
    (Bucc, {"de-en.sample.gold": ["a\tb"]}, "there is no de-en.sample.de in"),
    (Bucc, {"de-en.sample.gold": [], "de-en/de-en.dev.gold": []}, "are both for 'sample'; keep only one"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "files", "message"), REFUSED)
def test_refuses(source, files, message, tmp_path):
    for name, content in files.items():
        if isinstance(content, str):
            (tmp_path / name).write_text(content)
        else:
            write(tmp_path, name, content)
    refused(source(tmp_path), tmp_path / "out", message)


def refused(source, out, message):
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        prepare(source, out)
    assert not (out / source.name).exists()


@pytest.mark.parametrize(
    ("end", "line", "message"),
    [
        ("de", "no tab", "de-en.sample.de, line 301 is not a new id, a tab and a sentence"),
        ("de", "de-000000004\tagain", "sample.de, line 301 .*: the id 'de-000000004' is already on line 5"),
        ("gold", "de-000000001", "sample.gold, line 41 has 1 tab-separated fields; expected 2"),
        ("gold", "de-1\ten-000000001", "gold, line 41 is not a new pair of ids of .*sample.de and .*sample.en: de-1,"),
        ("gold", "de-000000040\ten-000000080", "gold, line 41 is not a new pair of ids"),
    ],
)
def test_bucc_refuses_a_line(end, line, message, tmp_path):
    bucc(tmp_path)
    with (tmp_path / f"de-en.sample.{end}").open("a") as file:
        file.write(line)
    refused(Bucc(tmp_path), tmp_path / "out", message)
