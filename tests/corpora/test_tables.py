"""Data by name: what the Hub's and TFDS's sets give equals the files that they are made of."""

import gzip
import json
import time
from typing import ClassVar

import pytest

from eval.__main__ import main
from eval.data.bucc import read_split
from eval.data.reviews import read_reviews
from eval.data.sts17 import read_tracks
from eval.data.tatoeba import read_pairs
from eval.data.xquad import read_xquad
from eval.tasks.tatoeba import COMMAND
from lsar_jax.corpora.builders import DatasetFiles, prepare
from lsar_jax.corpora.hub_datasets import PINNED, hub_files
from lsar_jax.corpora.parallel_text import read_bitext
from lsar_jax.corpora.tables import named_pairs, named_tables, pin
from tests.dataset_hub import COMMIT, point, serve
from tests.eval.test_tasks import ENCODER, write_pairs
from tests.optional import need

pyarrow = need("pyarrow")

ENGLISH = ["a cat", "the dog barks", "no", "we see b", "go a"]
OTHER = {"deu": ["eine katze", "der hund bellt", "nein", "wir sehen b", "geh a"], "fra": ["c", "d", "e", "f", "g h"]}


def lines(folder, name, rows):
    """Writes JSON lines, compressed where the name says so."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def table(folder, name, rows):
    """Writes parquet."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def pair_rows(code):
    return [{"sentence1": other, "sentence2": english} for english, other in zip(ENGLISH, OTHER[code], strict=True)]


@pytest.fixture
def tatoeba(tmp_path):
    """The same pairs as LASER's files, and as on the Hub in either form."""
    for code, other in OTHER.items():
        write_pairs(tmp_path / "files", code, "\n".join(ENGLISH) + "\n", "\n".join(other) + "\n")
    lines(tmp_path / "hub", "deu-eng/test.jsonl.gz", pair_rows("deu"))
    table(tmp_path / "hub", "fra-eng/test-00000-of-00001.parquet", pair_rows("fra"))
    (tmp_path / "hub" / "README.md").write_text("a card")
    return tmp_path


class TatoebaOfTfds(DatasetFiles):
    """The fields and names of TFDS's builder, which leaves the line breaks in the sentences."""

    name: ClassVar = "tatoeba"
    fields: ClassVar = dict.fromkeys(
        ("source_sentence", "target_sentence", "source_language", "target_language"), "text"
    )
    configs: ClassVar = ("tatoeba_de", "tatoeba_fr")

    def splits(self, config):
        return ("train",)

    def rows(self, config, split):
        code = config.removeprefix("tatoeba_")
        for english, other in zip(ENGLISH, OTHER[{"de": "deu", "fr": "fra"}[code]], strict=True):
            yield {
                "source_sentence": f"{other}\n",
                "target_sentence": f"{english}\n",
                "source_language": code,
                "target_language": "en",
            }


def test_tatoeba_is_the_same_from_everywhere(tatoeba, monkeypatch):
    expected = read_pairs(tatoeba / "files", ["fr", "de"])
    assert expected == {"fr": (ENGLISH, OTHER["fra"]), "de": (ENGLISH, OTHER["deu"])}
    assert read_pairs(f"hub:{tatoeba / 'hub'}", ["fr", "deu"]) == expected
    prepare(TatoebaOfTfds(), tatoeba / "prepared")
    assert read_pairs(f"tfds:{tatoeba}/prepared/tatoeba/tatoeba_{{}}", ["fr", "de"]) == expected
    monkeypatch.setenv("TFDS_DATA_DIR", str(tatoeba / "prepared"))
    assert read_pairs("tfds:tatoeba/tatoeba_{}", ["fr", "de"]) == expected
    # As any bitext too, all languages by default.
    bitext = {code: list(zip(*sides, strict=True)) for code, sides in sorted(expected.items())}
    assert read_bitext("tfds:tatoeba/tatoeba_{}", (), "--data") == bitext


def test_tatoeba_of_a_hub_that_answers(tatoeba, monkeypatch):
    name = "mteb/tatoeba-bitext-mining"
    with serve(tatoeba / "hub", name) as web, point(monkeypatch, tatoeba / "cache") as to:
        to(web.server_address[1])
        assert read_pairs(f"hub:{name}", ["fr", "de"]) == read_pairs(tatoeba / "files", ["fr", "de"])
        assert web.asked[0].endswith(f"/revision/{PINNED[name]}")
        assert not any("README" in path for path in web.asked)
        assert hub_files(name).name == f"{name}@{COMMIT}"
        # A branch is recorded as the commit that it is.
        assert pin(f"hub:{name}@main") == pin(f"hub:{name}") == f"hub:{name}@{COMMIT}"
        assert hub_files(name, "main").commit == COMMIT


def test_a_hub_that_is_away_ends_soon(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    started = time.monotonic()
    with point(monkeypatch, tmp_path / "cache") as to:
        to(9)
        assert main(["tatoeba", *ENCODER, "--data", "hub:mteb/tatoeba-bitext-mining"]) == 1
        message = capsys.readouterr().err
    assert time.monotonic() - started < 10
    assert message.startswith("error: 'mteb/tatoeba-bitext-mining' is not a folder and cannot be read from the Hugging")
    revision = PINNED["mteb/tatoeba-bitext-mining"]
    assert f"run `hf download mteb/tatoeba-bitext-mining --repo-type dataset --revision {revision}" in message


def test_results_say_the_revision(tatoeba, tmp_path, monkeypatch):
    name = "mteb/tatoeba-bitext-mining"
    with serve(tatoeba / "hub", name) as web, point(monkeypatch, tatoeba / "cache") as to:
        to(web.server_address[1])
        assert COMMAND(data=f"hub:{name}", out=tmp_path).pinned().data == f"hub:{name}@{COMMIT}"
        assert web.asked[-1].endswith(f"/revision/{PINNED[name]}")
        assert pin("hub:some/set@main") == f"hub:some/set@{COMMIT}"
        assert web.asked[-1].endswith("/some/set/revision/main")
    assert pin(f"hub:{tmp_path}") == f"hub:{tmp_path}"
    assert pin("data/tatoeba") == "data/tatoeba"


@pytest.mark.parametrize(
    ("config", "row"),
    [
        ("de-en", {"sentence1": "o", "sentence2": "e"}),
        ("en-de", {"sentence1": "e", "sentence2": "o"}),
        ("en-de", {"english": "e", "non_english": "o"}),
        ("de-en", {"english": "e", "non_english": "o"}),
        ("de-en", {"translation": {"de": "o", "en": "e"}}),
        ("de-en", {"deu_Latn": "o", "eng_Latn": "e", "id": "7"}),
        ("de", {"source_sentence": "o", "target_sentence": "e"}),
        ("en-de", {"source": "e", "target": "o", "domain": "d"}),
        ("en-id", {"ind_Latn": "o", "eng_Latn": "e", "id": 7}),
    ],
)
def test_which_column_is_english(config, row, tmp_path):
    lines(tmp_path, f"{config}/train.jsonl", [row])
    table(tmp_path, f"{config}/test/0000.parquet", [row, row])
    tables = named_tables(f"hub:{tmp_path}")
    code = "id" if "id" in config else "de"
    assert named_pairs(tables, [code]) == {code: (["e", "e"], ["o", "o"])}
    assert named_pairs(tables, (), "train") == {code: (["e"], ["o"])}


def test_rows_that_are_no_sentences(tmp_path):
    for row, message in [
        ({"sentence1": ["a", "b"], "sentence2": "e"}, r"row 2: sentence1 is \['a', 'b'\], which is not a sentence"),
        ({"translation": None}, "row 2 has the columns translation; expected a pair: sentence1, sentence2;"),
        ({"sentence1": "a"}, "test of de-en of .*, row 2 has the columns sentence1; expected a pair"),
    ]:
        lines(tmp_path, "de-en/test.jsonl", [{"sentence1": "o", "sentence2": "e"}, row])
        with pytest.raises(ValueError, match=message):
            named_pairs(named_tables(f"hub:{tmp_path}"), ())
    lines(tmp_path, "de-en/test.jsonl", [])
    with pytest.raises(ValueError, match="test of de-en of .* has no rows"):
        named_pairs(named_tables(f"hub:{tmp_path}"), ())
    lines(tmp_path, "en-de/test.jsonl", [{"sentence1": "e", "sentence2": "o"}])
    with pytest.raises(ValueError, match="de-en and en-de of .* are the same pair of languages"):
        named_pairs(named_tables(f"hub:{tmp_path}"), ["de"])


def test_prepared_pairs_say_which_side_is_english(tmp_path, bitext_of_two):
    from lsar_jax.corpora.builders import Parallel

    prepare(Parallel(bitext_of_two), tmp_path / "prepared")
    expected = read_bitext(bitext_of_two, (), "--data")
    assert read_bitext(f"tfds:{tmp_path}/prepared/parallel", (), "--data") == expected
    assert read_bitext(f"tfds:{tmp_path}/prepared/parallel/en-{{}}", (), "--data") == expected


@pytest.fixture
def bitext_of_two(tmp_path):
    (tmp_path / "bitext").mkdir()
    for code, other in (("de", OTHER["deu"]), ("fr", OTHER["fra"])):
        rows = [f"d\t{english}\t{theirs}\n" for english, theirs in zip(ENGLISH, other, strict=True)]
        (tmp_path / "bitext" / f"en-{code}.tsv").write_text("".join(rows))
    return tmp_path / "bitext"


def test_pairs_that_are_wrong(tatoeba, tmp_path):
    hub = tatoeba / "hub"
    tables = named_tables(f"hub:{hub}")
    with pytest.raises(ValueError, match="language 'it' is not in .*hub; known languages are deu, fra"):
        named_pairs(tables, ["de", "it"])
    with pytest.raises(ValueError, match="no split 'dev' in configuration 'deu-eng' of .*, which has the splits test"):
        named_pairs(tables, ["de"], "dev")
    lines(hub, "kzj-eng/test.jsonl", [])
    lines(hub, "dtp-eng/test.jsonl", [{"sentence1": "o"}])
    tables = named_tables(f"hub:{hub}")
    with pytest.raises(ValueError, match="'dtp' and 'kzj' of .*hub are both 'dtp'; name one of them"):
        named_pairs(tables, ())
    with pytest.raises(ValueError, match="test of dtp-eng of .*, row 1 has the columns sentence1; expected a pair: "):
        named_pairs(tables, ["dtp"])
    lines(hub, "ita-eng/test.jsonl", [{"sentence1": "uno", "sentence2": "one"}, {"sentence1": " ", "sentence2": "two"}])
    with pytest.raises(ValueError, match="hub, it of it, line 2 is blank"):
        read_pairs(f"hub:{hub}", ["it"])
    lines(hub, "ita-eng/train.jsonl", [])
    lines(hub, "spa-eng/train.jsonl", [])
    lines(hub, "spa-eng/dev.jsonl", [])
    with pytest.raises(ValueError, match="spa-eng of .*hub has the splits dev, train; choose one with --split"):
        read_pairs(f"hub:{hub}", ["es"])
    lines(tmp_path / "other", "ko-ko/test.jsonl", [])
    with pytest.raises(ValueError, match="other has no pairs with English; it has ko-ko"):
        named_pairs(named_tables(f"hub:{tmp_path / 'other'}"), ())
    with pytest.raises(FileNotFoundError, match="there is no prepared dataset nowhere/{}"):
        read_pairs("tfds:nowhere/{}", ["de"])


def test_a_missing_file_of_a_series_is_noticed(tmp_path):
    for end in ("jsonl", "jsonl.gz"):
        lines(tmp_path / end, f"de-en/test-00000-of-00002.{end}", [{"a": 1}])
        with pytest.raises(FileNotFoundError, match=f"test-00001-of-00002.{end} is missing"):
            list(hub_files(tmp_path / end).rows("de-en", "test"))


def test_json_lines_that_are_wrong(tmp_path):
    path = lines(tmp_path, "de-en/test.jsonl.gz", pair_rows("deu") * 999)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"de-en/test.jsonl.gz of .* cannot be read as JSON lines, line \d+"):
        list(hub_files(tmp_path).rows("de-en", "test"))
    path = lines(tmp_path, "fr-en/test.jsonl", [{"a": 1}])
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ValueError, match="fr-en/test.jsonl of .* cannot be read as JSON lines, line 2"):
        list(hub_files(tmp_path).rows("fr-en", "test"))
    path.write_text('{"a": 1}\n[1]\n')
    with pytest.raises(ValueError, match="line 2: the line is not a JSON object"):
        list(hub_files(tmp_path).rows("fr-en", "test"))
    with pytest.raises(ValueError, match="field 'b' is not in fr-en/test.jsonl of .*; it has a"):
        list(hub_files(tmp_path).rows("fr-en", "test", ["b"]))


def test_sts17_of_the_hub(tmp_path):
    rows = [{"sentence1": f"a {w}", "sentence2": f"b {w}", "score": n / 2} for n, w in enumerate("cdefg")]
    lines(tmp_path, "en-tr/test.jsonl.gz", rows)
    table(tmp_path, "es-es/test-00000-of-00001.parquet", rows)
    tracks = read_tracks(f"hub:{tmp_path}")
    assert {name: track.languages for name, track in tracks.items()} == {"en-tr": ("en", "tr"), "es-es": ("es", "es")}
    for track in tracks.values():
        assert track.pairs == ([f"a {w}" for w in "cdefg"], [f"b {w}" for w in "cdefg"])
        assert track.gold.tolist() == [0, 0.5, 1, 1.5, 2]
    for wrong in ({"score": 5.5}, {"score": "x"}, {"sentence2": " "}):
        lines(tmp_path, "en-tr/test.jsonl.gz", [*rows, {**rows[0], **wrong}])
        with pytest.raises(ValueError, match="track en-tr, row 6 is not two sentences with a score from 0 to 5"):
            read_tracks(f"hub:{tmp_path}")


def test_amazon_of_the_hub(tmp_path):
    for code in ("en", "ja"):
        for split in ("train", "test"):
            table(tmp_path, f"{code}/{split}-00000-of-00001.parquet", [{"text": f"{code} {split}\nb", "label": 3}] * 3)
    assert read_reviews(f"hub:{tmp_path}", "ja", "test") == (["ja test\nb"] * 3, ["3"] * 3)
    lines(tmp_path, "de/test.jsonl", [{"text": "a", "label": 0}, {"text": "", "label": 0}])
    with pytest.raises(ValueError, match="test of de, row 2 is not a label and a text"):
        read_reviews(f"hub:{tmp_path}", "de", "test")


def test_what_the_hub_lacks(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="lacks sentence breaks; copy xquad-r of"):
        read_xquad("hub:google-research-datasets/xquad_r")
    with pytest.raises(ValueError, match="has no sample split to tune on; use its gold pairs as a bitext"):
        read_split("hub:mteb/bucc-bitext-mining", "de", "sample")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with pytest.raises(
        FileNotFoundError,
        match="no prepared dataset at xquad_r nor at .*; write it with lsar_jax.corpora.builders.prepare",
    ):
        read_xquad("tfds:xquad_r")


def test_answers_that_were_prepared(tmp_path, monkeypatch):
    from lsar_jax.corpora.builders import XquadR

    paragraph = {
        "context": "One. Two.",
        "sentence_breaks": [[0, 4], [5, 9]],
        "qas": [{"id": "1", "question": "Which?", "answers": [{"answer_start": 5}]}],
    }
    (tmp_path / "files").mkdir()
    for code in ("de", "en"):
        (tmp_path / "files" / f"{code}.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    prepare(XquadR(tmp_path / "files"), tmp_path / "prepared")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "prepared"))
    assert read_xquad("tfds:xquad_r", ()) == read_xquad(tmp_path / "files", ())
