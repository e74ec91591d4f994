"""The same text in every form of ``--texts`` gives the same transform, bit for bit, and the same sentences."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.options.texts import texts_of
from lsar_jax.options.user_text import read_user_text
from tests.conftest import TINY
from tests.optional import need
from tests.report.planted_text import CODES, LINES, write

ENCODER = ["--encoder", str(TINY), "--layer", "2"]


@pytest.fixture(autouse=True)
def forms(tmp_path, monkeypatch):
    """Text in files, of which one has no language in its name, and in tables, and its vectors."""
    monkeypatch.chdir(tmp_path)
    write(Path("corpus"), LINES)
    write(Path("other"), LINES, CODES[1:])
    Path("other/german.txt").write_bytes(Path("corpus/de.txt").read_bytes())
    rows = [{"language": code, "text": f"{code} {line}"} for line in LINES for code in CODES]
    Path("all.jsonl").write_text("\n".join(map(json.dumps, rows)))  # its name is a language's, too
    Path("t.csv").write_text("\n".join(["text,language", *(f"{row['text']},{row['language']}" for row in rows)]))
    Path("german.csv").write_text("id,text\n1,a\n")
    Path("content.csv").write_text("language,content\nde,a\n")
    Path("empty").mkdir()
    Path("both").mkdir()
    for name in ("de.txt", "deu.jsonl"):
        Path("both", name).touch()


def fitted(*texts):
    assert main(["fit", "lsar", "out", "--overwrite", "--texts", *texts]) == 0
    return {name: x.tobytes() for name, x in load_file("out").items()}


def test_every_form_of_text_and_of_vectors(capsys):
    pyarrow, parquet = need("pyarrow"), need("pyarrow.parquet")
    rows = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    parquet.write_table(pyarrow.Table.from_pylist(rows), "t.parquet")
    of_text = fitted("corpus", *ENCODER)
    assert "on 75 sentences: de 25, en 25, fr 25" in capsys.readouterr().out
    for form in ("corpus/de.txt corpus/en.txt corpus/fr.txt", "other de=other/german.txt", "all.jsonl", "t.csv",
                 "t.parquet", "other/en.txt fr=other/fr.txt de=other/german.txt"):  # fmt: skip
        assert fitted(*form.split(), *ENCODER) == of_text, form
    assert fitted("corpus", *ENCODER, "--limit", "9") == fitted("t.csv", *ENCODER, "--limit", "9") != of_text
    sentences = read_user_text(Path("corpus"), (), 1000, "auto", 0).sentences
    for table in ("all.jsonl", "t.csv", "t.parquet"):
        assert read_user_text(Path(table), (), 1000, "auto", 0).sentences == sentences
    for _ in range(2):  # the second finds that all is done
        assert main(["encode", "corpus", "vectors", *ENCODER]) == 0
    of_vectors = fitted("vectors")
    for code in CODES:
        np.save(f"corpus/{code}.npy", lj.embeddings.open(f"vectors/{code}")[:])
    for form in ("vectors/de vectors/en vectors/fr", "corpus/de.npy corpus/en.npy fr=corpus/fr.npy"):
        assert fitted(*form.split()) == of_vectors


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("corpus/german.txt", "there is no text at corpus/german.txt; corpus has de.txt, en.txt, fr.txt; "
         "give a file with its language, such as --texts de=corpus/de.txt"),
        ("other/de.txt", "other has en.txt, fr.txt, german.txt; .* such as --texts de=other/german.txt"),
        ("empty", "at empty; empty has nothing; .* such as --texts de=empty/german.txt"),
        ("other", "other/german.txt is not named after a language; give, .* --texts other de=other/german.txt"),
        ("german.csv", "german.csv has no column language, only id, text; give, for example, --texts de=german.csv"),
        ("content.csv", "has no column text, only language, content; .* --texts content.csv --text NAME"),
        ("both", "both/de.txt and both/deu.jsonl are both for 'de'; name the files, such as --texts both/de.txt"),
        ("xyzzy=corpus/de.txt", "'xyzzy' is not a language code"),
    ],
)  # fmt: skip
def test_refusals_show_the_command(texts, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        texts_of(texts.split())
