"""The same text in every form of ``--texts`` gives the same transform, bit for bit, and the same sentences."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import lsar_jax as lj
from lsar_jax.__main__ import main
from lsar_jax.options.texts import texts_of
from lsar_jax.options.user_text import read_user_text, read_user_vectors
from tests.conftest import TINY
from tests.optional import need
from tests.report.planted_text import CODES, LINES, write

ENCODER = ["--encoder", str(TINY), "--layer", "2"]
ROWS = [{"language": code, "text": f"{code} {line}"} for line in LINES for code in CODES]


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    """Text in files, of which one has no language in its name, and in tables; the name of one is a language's, too."""
    monkeypatch.chdir(tmp_path)
    german = write(write(Path("corpus"), LINES).parent / "other", LINES) / "de.txt"
    german.rename("other/german.txt")
    Path("all.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    Path("t.csv").write_text("\n".join(["text,language", *(f"{row['text']},{row['language']}" for row in ROWS)]))


def fitted(*words):
    assert main(["fit", "lsar", "out", "--overwrite", "--texts", *words]) == 0
    return {name: x.tobytes() for name, x in load_file("out").items()}


def test_every_form_of_text_and_of_vectors(capsys):
    tables = ["all.jsonl", "t.csv", "t.parquet"]
    need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(ROWS), tables[-1])
    right = fitted("corpus", *ENCODER)
    assert "on 75 sentences: de 25, en 25, fr 25" in capsys.readouterr().out
    text = read_user_text(["corpus"], (), 1000, "auto", 0)
    files = ["corpus/de.txt corpus/en.txt corpus/fr.txt", "other/en.txt fr=other/fr.txt de=other/german.txt"]
    for form in (*files, "other de=other/german.txt", *tables):
        assert fitted(*form.split(), *ENCODER) == right, form
        assert read_user_text(form.split(), (), 1000, "auto", 0).sentences == text.sentences
    assert fitted("corpus", *ENCODER, "--limit", "9") == fitted("t.csv", *ENCODER, "--limit", "9") != right
    for shard in ("0/2", "1/2"):
        assert main(["encode", "corpus", "vectors", *ENCODER, "--shard-rows", "9", "--shard", shard]) == 0
    assert main(["merge", "vectors"]) == main(["encode", "corpus", "whole", *ENCODER, "--shard-rows", "9"]) == 0
    right = fitted("vectors")
    vectors = read_user_vectors(Path("vectors"), ["corpus"], text)
    for code, x in vectors.items():
        np.save(f"corpus/{code}.npy", x)
    for name, beside in (("v", {}), ("tv", {"text": "a"})):
        rows = [{"language": code, "vector": row.tolist()} | beside for code, x in vectors.items() for row in x]
        need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(rows), f"{name}.parquet")
    for code in CODES:  # its name says the language
        of_code = [{"vector": row["vector"]} for row in rows if row["language"] == code]
        need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(of_code), f"{code}.parquet")
    forms = [
        "corpus/de.npy corpus/en.npy fr=corpus/fr.npy",
        "de.parquet en.parquet fr=fr.parquet",
        "v.parquet",
        "tv.parquet",
    ]
    for form in ("whole", "vectors/de vectors/en vectors/fr", *forms):
        assert fitted(*form.split()) == right, form


def test_files_of_a_folder_are_encoded_each_in_its_language(refused):
    x = {code: lj.load_encoder(str(TINY), layer=2).encode([f"{code} {line}" for line in LINES]) for code in CODES}
    center = lj.transforms.fit_center(x)
    center.save("center")
    assert main(["encode", "corpus", "out", *ENCODER, "--transform", "center"]) == 0
    for code, rows in x.items():
        np.testing.assert_allclose(lj.embeddings.open(f"out/{code}")[:], center(rows, code), atol=1e-5)
    message = "german.txt is not named after a language; rename it, or .* lsar-jax encode other/german.txt new/de"
    assert re.search(message, refused(main, ["encode", "other", "new", *ENCODER]))


def test_other_files_are_left_out_where_languages_are_chosen():
    """Beside text: notes, a table of other columns, and a folder whose name has the sign of LANGUAGE=PATH."""
    Path("corpus").rename("run=3")
    Path("run=3/README.txt").write_text("notes")
    Path("run=3/rows.csv").write_text("id,text\n1,a\n")
    text = read_user_text(["run=3"], ("fr", "de"), 1000, "auto", 0)
    assert text.codes == ["fr", "de"]
    assert text.sentences["fr"] == [f"fr {line}" for line in LINES]
    with pytest.raises(ValueError, match="README.txt is not named after a language; move it"):
        read_user_text(["run=3"], (), 1000, "auto", 0)
    Path("pairs").mkdir()
    Path("pairs/en-de.tsv").write_text("one\teins\n")
    with pytest.raises(ValueError, match="other pairs has parallel text .en-de. beside other text; give one"):
        read_user_text(["other", "pairs"], (), 1000, "auto", 0)


def test_a_merge_misses_a_language_that_no_share_has_begun(monkeypatch, capsys):
    def until_french(encoder, paths, folder, **options):
        if folder.name == "fr":
            raise OSError("killed")
        return encode(encoder, paths, folder, **options)

    encode = lj.embeddings.encode
    with monkeypatch.context() as killed:
        killed.setattr(lj.embeddings, "encode", until_french)
        for shard in ("0/2", "1/2"):
            assert main(["encode", "corpus", "vectors", *ENCODER, "--shard", shard]) == 1
    assert main(["merge", "vectors"]) == 1
    assert "vectors/fr lacks the shares" in capsys.readouterr().err
    for shard in ("0/2", "1/2"):
        assert main(["encode", "corpus", "vectors", *ENCODER, "--shard", shard]) == 0
    assert capsys.readouterr().out.count("run lsar-jax merge vectors\n") == 2
    assert main(["merge", "vectors"]) == 0


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("corpus/xx.txt", "no text at corpus/xx.txt; corpus has de.txt, en.txt, fr.txt; .* such as de=corpus/de.txt"),
        ("other/de.txt", "other has en.txt, fr.txt, german.txt; .* such as de=other/german.txt"),
        ("empty", "at empty; empty has nothing; .* such as de=empty/german.txt"),
        ("other", "german.txt is not named after a language; move it, or give .* such as other de=other/german.txt"),
        ("empty/a.csv", "a.csv has no column language, only id, text; .* or give its code, such as de=empty/a.csv"),
        ("empty/b.csv", "has no column text, only language, content; name that of the sentences by --text"),
        ("corpus", "corpus/de.txt and corpus/deu.jsonl are both for .de.; .* such as corpus/de.txt"),
        ("xyzzy=corpus/de.txt", "'xyzzy' is not a language code"),
    ],
)  # fmt: skip
def test_refusals_show_the_command(texts, message):
    Path("empty").mkdir()
    if texts == "corpus":
        Path("corpus/deu.jsonl").touch()
    for name, columns in (("a", "id,text"), ("b", "language,content")) if "csv" in texts else ():
        Path("empty", f"{name}.csv").write_text(f"{columns}\n1,a\n")
    with pytest.raises(ValueError, match=message):
        texts_of(texts.split())
