"""Text as spreadsheets save it: a byte-order mark, \\r\\n, semicolons and quotation marks change nothing."""

import json

import pytest

from eval.data.dictionaries import read_dictionary
from lsar_jax import corpora
from lsar_jax.corpora.builders import Bucc, Parallel, XquadR
from lsar_jax.corpora.records import Records
from lsar_jax.files import read_json
from lsar_jax.mining.pair_files import read_pairs
from train.finetune.conllu_ner_xnli import read_inference, read_parsed, read_tagged
from train.word_pairs.aligned_files import read_pairs as aligned_pairs


def texts(path):
    return [record.text for record in Records([path])]


SQUAD = {
    "context": "One. Two.",
    "sentence_breaks": [[0, 4], [5, 9]],
    "qas": [{"id": "1", "question": "Which?", "answers": [{"answer_start": 5}]}],
}
READERS = {
    "lines": (corpora.lines, {"de.txt": "eins\nzwei\n"}),
    "text_folder": (lambda path: corpora.text_folder(path.parent), {"de.txt": "eins\n"}),
    "json": (lambda path: read_json(path, dict), {"a.json": '{"a": "b"}\n'}),
    "jsonl": (texts, {"a.jsonl": '{"text": "eins"}\n'}),
    "csv": (texts, {"a.csv": 'text,id\n"a, ""b""",1\nc,2\n'}),
    "tsv": (texts, {"a.tsv": "text\tid\na\t1\n"}),
    "known tsv": (lambda path: [*read_pairs(path)], {"known.tsv": "eins\tone\nzwei\ttwo\n"}),
    "known jsonl": (lambda path: [*read_pairs(path)], {"a.jsonl": '{"source": "a", "target": "b"}\n'}),
    "Moses": (lambda path: [*read_pairs(path)], {"a.de-en.de": "eins\n", "a.de-en.en": "one\n"}),
    "bitext": (lambda path: Parallel.load(path.parent, "en-de", "train"), {"en-de.tsv": "one\teins\n"}),
    "SQuAD": (
        lambda path: XquadR.load(path.parent, "de", "test"),
        {"de.json": json.dumps({"data": [{"paragraphs": [SQUAD]}]})},
    ),
    "BUCC": (
        lambda path: Bucc.load(path.parent, "de-en", "sample"),
        {"de-en.sample.gold": "d1\te1\n", "de-en.sample.de": "d1\ta\n", "de-en.sample.en": "e1\tb\n"},
    ),
    "treebank": (read_parsed, {"de-a.conllu": "1\tJa\t_\tINTJ\t_\t_\t0\troot\t_\t_\n\n"}),
    "entities": (read_tagged, {"de-a.tsv": "Jo\tB-PER\n\nda\tO\n"}),
    "XNLI": (read_inference, {"x.tsv": "language\tgold_label\tsentence1\tsentence2\nde\tneutral\ta\tb\n"}),
    "links": (
        lambda path: [*aligned_pairs(path, path.with_suffix(".links"))],
        {"a.words": "a b ||| c\n", "a.links": "0-0\n"},
    ),
    "dictionary": (lambda path: read_dictionary(path.parent, "de"), {"de-en.txt": "ja\tyes\n"}),
}


@pytest.mark.parametrize("name", READERS)
def test_marks_and_ends_of_lines_are_no_text(name, tmp_path):
    read, files = READERS[name]
    found = []
    for mark, end in (("", "\n"), ("\ufeff", "\r\n")):
        for file, content in files.items():
            (tmp_path / file).write_bytes(f"{mark}{content}".replace("\n", end).encode())
        found.append(read(tmp_path / next(iter(files))))
    assert found[0] == found[1]
    assert found[0]


def test_semicolons_separate_where_commas_are_decimal(tmp_path):
    (tmp_path / "a.csv").write_text('id;text;note,x\n1;"a; ""b"", c";1,5\n2;d, e;2\n')
    assert texts(tmp_path / "a.csv") == ['a; "b", c', "d, e"]
