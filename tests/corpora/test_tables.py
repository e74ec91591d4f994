"""Data by name: what the Hub's and TFDS's sets give equals the files that they are made of."""

import math
import tracemalloc
from typing import ClassVar

import numpy as np
import pytest

from eval.data.reviews import read_reviews
from eval.data.sts17 import read_tracks
from eval.data.tatoeba import read_pairs
from eval.data.xquad import read_xquad
from eval.tasks.benchmarks.tatoeba import COMMAND
from lsar_jax.corpora.builders import DatasetFiles, Parallel, XquadR, prepare
from lsar_jax.corpora.hub_datasets import PINNED, hub_files
from lsar_jax.corpora.parallel_text import read_bitext, shuffled
from lsar_jax.corpora.tables import named_pairs, named_tables, pin
from tests.corpora.test_excel import SQUAD
from tests.dataset_hub import COMMIT, point, serve
from tests.dataset_hub import write_rows as lines
from tests.eval.test_tasks import write_pairs
from train.text import TextOptions

ENGLISH = ["a cat", "the dog barks", "no", "we see b", "go a"]
OTHER = {"deu": ["eine katze", "der hund bellt", "nein", "wir sehen b", "geh a"], "fra": ["c", "d", "e", "f", "g h"]}


@pytest.fixture
def tatoeba(tmp_path):
    """The same pairs as LASER's files, and as on the Hub in either form."""
    for (code, other), end in zip(OTHER.items(), (".jsonl.gz", "-00000-of-00001.parquet"), strict=True):
        write_pairs(tmp_path / "files", code, "\n".join(ENGLISH) + "\n", "\n".join(other) + "\n")
        rows = [{"sentence1": theirs, "sentence2": english} for english, theirs in zip(ENGLISH, other, strict=True)]
        lines(tmp_path / "hub", f"{code}-eng/test{end}", rows)
    (tmp_path / "hub" / "README.md").write_text("a card")
    return tmp_path


class TatoebaOfTfds(DatasetFiles):
    """The names of TFDS's builder, which leaves the line breaks in the sentences."""

    name: ClassVar = "tatoeba"
    fields: ClassVar = {"source_sentence": "text", "target_sentence": "text"}
    configs: ClassVar = ("tatoeba_de", "tatoeba_fr")

    def splits(self, config):
        return ("train",)

    def rows(self, config, split):
        code = config.removeprefix("tatoeba_")
        for english, other in zip(ENGLISH, OTHER[{"de": "deu", "fr": "fra"}[code]], strict=True):
            yield {"source_sentence": f"{other}\n", "target_sentence": f"{english}\n"}


def test_tatoeba_is_the_same_from_everywhere(tatoeba, monkeypatch):
    expected = read_pairs(tatoeba / "files", ["fr", "de"])
    assert expected == {"fr": (ENGLISH, OTHER["fra"]), "de": (ENGLISH, OTHER["deu"])}
    assert read_pairs(f"hub:{tatoeba / 'hub'}", ["fr", "deu"]) == expected
    prepare(TatoebaOfTfds(), tatoeba / "prepared")
    assert read_pairs(f"tfds:{tatoeba}/prepared/tatoeba/tatoeba_{{}}", ["fr", "de"]) == expected
    monkeypatch.setenv("TFDS_DATA_DIR", str(tatoeba / "prepared"))
    assert read_pairs("tfds:tatoeba/tatoeba_{}", ["fr", "de"]) == expected


def test_tatoeba_of_a_hub_that_answers(tatoeba, tmp_path, monkeypatch):
    name = "mteb/tatoeba-bitext-mining"
    pinned = f"hub:{name}@{COMMIT}"
    with serve(tatoeba / "hub", name) as web, point(monkeypatch, tatoeba / "cache") as to:
        to(web.server_address[1])
        assert read_pairs(f"hub:{name}", ["fr", "de"]) == read_pairs(tatoeba / "files", ["fr", "de"])
        assert web.asked[0].endswith(f"/revision/{PINNED[name]}")
        assert not any("README" in path for path in web.asked)
        # A branch is recorded as the commit that it is.
        assert COMMAND(data=f"hub:{name}", out=tmp_path).pinned().data == pin(f"hub:{name}@main") == pinned
        assert pin(f"hub:{name}@main#de") == f"{pinned}#de"
        assert web.asked[-1].endswith(f"{name}/revision/main")
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
    lines(tmp_path, f"{config}/test/0000.parquet", [row, row])
    tables = named_tables(f"hub:{tmp_path}")
    code = "id" if "id" in config else "de"
    assert list(named_pairs(tables, [code])[code]) == [("e", "o")] * 2
    assert list(named_pairs(tables, (), "train")[code]) == [("e", "o")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"sentence1": ["a", "b"], "sentence2": "e"}], "row 1 has text in sentence2; expected a pair of columns"),
        ([{"translation": None}], "row 1 has text in translation; expected a pair of columns: sentence1, sentence2;"),
        ([{"sentence1": "o", "sentence2": "e"}, {"sentence1": "a"}], "test of de-en of .*, row 2 has text in senten"),
        ([], "test of de-en of .* has no rows"),
    ],
)
def test_rows_that_are_no_sentences(rows, message, tmp_path):
    lines(tmp_path, "de-en/test.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        list(named_pairs(named_tables(f"hub:{tmp_path}"), ())["de"])


def test_prepared_pairs_say_which_side_is_english(tmp_path):
    for code, other in (("de", OTHER["deu"]), ("fr", OTHER["fra"])):
        lines(tmp_path, f"bitext/en-{code}.tsv", list(zip("ddddd", ENGLISH, other, strict=True)))
    prepare(Parallel(tmp_path / "bitext"), tmp_path / "prepared")
    expected = read_bitext(tmp_path / "bitext", (), "--data")
    for data in ("parallel", "tfds:parallel"):
        assert read_bitext(data.replace("parallel", f"{tmp_path}/prepared/parallel"), (), "--data") == expected


def test_a_sample_of_pairs_depends_on_the_seed_alone(rng, tmp_path):
    """Not on the order of the text; and no more than the sample is in memory."""
    words = ["".join("abcdefghij"[int(digit)] for digit in f"{number:05}") for number in range(6_000)]
    for folder, order in (("a", words), ("b", rng.permutation(words))):
        lines(tmp_path, f"{folder}/en-de.tsv", [f"{word}{'x' * 200}\t{word}" for word in order])
    tracemalloc.start()
    drawn, other = (read_bitext(tmp_path / folder, (), "--data", sample=50)["de"] for folder in "ab")
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
    assert drawn == other == shuffled(read_bitext(tmp_path / "a", (), "--data")["de"])[:50]
    assert abs(np.mean([words.index(word) for _, word in drawn]) - 3_000) < 3 * 6_000 / np.sqrt(12 * 50)
    train, validation = TextOptions(tmp_path / "b", sample=50, split_seed=1, held_out=5, validation=0.2).pairs()["de"]
    assert (len(train), len(validation)) == (36, 9)
    assert not {*train, *validation} & {*drawn}


def test_pairs_that_are_wrong(tatoeba, tmp_path):
    hub = tatoeba / "hub"
    for name, rows in {
        "kzj-eng/test": [],
        "dtp-eng/test": [{"sentence1": "o"}],
        "ita-eng/test": [{"sentence1": "uno", "sentence2": "one"}, {"sentence1": " ", "sentence2": "two"}],
        "spa-eng/train": [],
        "spa-eng/dev": [],
        "eng-spa/train": [],
    }.items():
        lines(hub, f"{name}.jsonl", rows)
    lines(tmp_path / "other", "ko-ko/test.jsonl", [])
    for data, languages, message in (
        (hub, ["de", "nl"], "hub has no pairs of English and nl; it has de, dtp, es, fr, it"),
        (hub, ["dtp", "kzj"], "dtp-eng and kzj-eng of .*hub are the same pair"),
        (hub, ["es"], "eng-spa and spa-eng of .* are the same pair of languages"),
        (hub, ["it"], "hub, it of it, line 2 is blank"),
        (tmp_path / "other", [], "other has no pairs of English and LANGUAGE; it has none"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            read_pairs(f"hub:{data}", languages)
    (hub / "eng-spa" / "train.jsonl").unlink()
    with pytest.raises(ValueError, match="spa-eng of .*hub has the splits dev, train; choose one with --split"):
        read_pairs(f"hub:{hub}", ["es"])
    with pytest.raises(ValueError, match="no split 'dev' in configuration 'deu-eng' of .*: it has test"):
        list(named_pairs(named_tables(f"hub:{hub}"), ["de"], "dev")["de"])
    with pytest.raises(FileNotFoundError, match="has no dataset nowhere/LANGUAGE"):
        read_pairs("tfds:nowhere/{}", ["de"])


def test_json_lines_that_are_wrong(tmp_path):
    path = lines(tmp_path, "de-en/test.jsonl.gz", [{"sentence1": "o", "sentence2": "e"}] * 9999)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"de-en/test.jsonl.gz of .* is damaged after line \d+"):
        list(hub_files(tmp_path).rows("de-en", "test"))
    lines(tmp_path, "fr-en/test.jsonl", [{"a": 1}])
    with pytest.raises(ValueError, match="field 'b' is not in fr-en/test.jsonl of .*; it has a"):
        list(hub_files(tmp_path).rows("fr-en", "test", ["b"]))


def test_sts17_of_the_hub(tmp_path):
    rows = [{"sentence1": f"a {w}", "sentence2": f"b {w}", "score": n / 2} for n, w in enumerate("cdefg")]
    lines(tmp_path, "en-tr/test.jsonl.gz", rows)
    lines(tmp_path, "es-es/test-00000-of-00001.parquet", rows)
    tracks = read_tracks(f"hub:{tmp_path}")
    assert {name: track.languages for name, track in tracks.items()} == {"en-tr": ("en", "tr"), "es-es": ("es", "es")}
    for track in tracks.values():
        assert track.pairs == ([f"a {w}" for w in "cdefg"], [f"b {w}" for w in "cdefg"])
        assert track.gold.tolist() == [0, 0.5, 1, 1.5, 2]
    for missing in (None, math.nan):
        lines(tmp_path, "en-tr/test.jsonl.gz", [*rows, rows[0] | {"sentence1": missing}])
        with pytest.raises(ValueError, match="row 6 has no text in the column sentence1"):
            read_tracks(f"hub:{tmp_path}")


def test_amazon_of_the_hub(tmp_path):
    for code in ("en", "ja"):
        for split in ("train", "test"):
            lines(tmp_path, f"{code}/{split}-00000-of-00001.parquet", [{"text": f"{code} {split}\nb", "label": 3}] * 3)
    assert read_reviews(f"hub:{tmp_path}", "ja", "test") == (["ja test\nb"] * 3, ["3"] * 3)


def test_a_prepared_dataset_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no prepared dataset at xquad_r nor at .* with lsar_jax.corpora"):
        read_xquad("tfds:xquad_r")


def test_answers_that_were_prepared(tmp_path, monkeypatch):
    for code in ("de", "en"):
        lines(tmp_path, f"files/{code}.json", [{"data": [{"paragraphs": [SQUAD]}]}])
    prepare(XquadR(tmp_path / "files"), tmp_path / "prepared")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "prepared"))
    assert read_xquad("tfds:xquad_r", ()) == read_xquad(tmp_path / "files", ())
