"""Text of a user's is read from files per language, pairs and files that are not aligned."""

import numpy as np
import pytest

from lsar_jax.options import user_text
from lsar_jax.options.user_text import finds_lines, read_user_text
from tests.report.planted_text import CODES, LINES, planted, write


def test_aligned_files_keep_their_lines_together(tmp_path):
    folder = write(tmp_path / "text", [*LINES, "", LINES[0].upper(), "last line"])
    text = read_user_text([str(folder)], (), 1000, "auto", 0)
    assert text.aligned
    # The blank line and the one that repeats another are left out in all languages.
    assert text.sentences["de"] == [f"de {line}" for line in (*LINES, "last line")]
    few = read_user_text([str(folder)], (), 21, "yes", 1)
    assert [line.split(" ", 1)[1] for line in few.sentences["en"]] == [s.split(" ", 1)[1] for s in few.sentences["fr"]]
    folds = few.folds(4, 0)
    assert all((folds[code] == folds["de"]).all() for code in CODES)
    assert np.bincount(folds["de"]).tolist() == [6, 5, 5, 5]


def test_other_files_are_not_aligned(tmp_path):
    folder = write(tmp_path / "text", LINES)
    with (folder / "fr.txt").open("a") as file:
        file.write("fr one more\n")
    text = read_user_text([str(folder)], (), 1000, "auto", 0)
    assert not text.aligned
    assert len(np.unique(np.concatenate(list(text.units.values())))) == sum(map(len, text.sentences.values())) == 76
    assert not read_user_text([str(write(tmp_path / "same", LINES))], (), 1000, "no", 0).aligned
    with pytest.raises(ValueError, match="--aligned yes needs as many lines in the file of every language, unlike "):
        read_user_text([str(folder)], (), 1000, "yes", 0)


def test_pairs_share_their_english_sentences(tmp_path):
    for code in ("de", "fr"):
        rows = [f"en {line}\t{code} {line}\n" for line in LINES[:22]]
        (tmp_path / f"en-{code}.tsv").write_text("".join(rows[: 22 if code == "de" else 20]))
    text = read_user_text([str(tmp_path)], (), 1000, "auto", 0)
    assert {code: len(sentences) for code, sentences in text.sentences.items()} == {"en": 22, "de": 22, "fr": 20}
    for code, (english, other) in text.pairs.items():
        for e, o in zip(english, other, strict=True):
            assert text.sentences["en"][e].split(" ", 1)[1] == text.sentences[code][o].split(" ", 1)[1]
            assert text.units["en"][e] == text.units[code][o]
    # Each language has as many pairs in every fold, and an English sentence is in that of its translations.
    folds = text.folds(4, 0)
    assert np.bincount(folds["fr"]).tolist() == [5, 5, 5, 5]
    assert sorted(np.bincount(folds["de"])) == [5, 5, 6, 6]
    for code, (english, other) in text.pairs.items():
        assert (folds["en"][english] == folds[code][other]).all()
    with pytest.raises(ValueError, match="--languages names only English"):
        read_user_text([str(tmp_path)], ("en",), 1000, "auto", 0)
    (tmp_path / "es.txt").write_text("uno\n")
    with pytest.raises(ValueError, match="has both a file per language and parallel text .en-de.; give"):
        read_user_text([str(tmp_path)], (), 1000, "auto", 0)


@pytest.mark.parametrize(
    ("lines", "codes", "message"),
    [
        (LINES[:19], CODES, r"has \{'de': 19, 'en': 19, 'fr': 19\} different sentences; .*--aligned no"),
        (LINES, ("de",), "different sentences; give two languages or more"),
        ([], (), "text has nothing; give a file's language, such as de="),
    ],
)
def test_too_little_text(tmp_path, lines, codes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_user_text([str(write(tmp_path / "text", lines, codes))], (), 1000, "auto", 0)


def test_files_that_are_not_aligned_are_found_out(rng):
    x = planted(rng, lines=100)
    assert finds_lines(x)
    assert not any(finds_lines(x | {code: rng.permutation(x[code])}) for code in CODES)


@pytest.mark.parametrize("code", ["", "german"])
def test_rows_without_a_language_are_named(code, tmp_path):
    rows = [f"{code} {line},{code}\n" for code in CODES for line in LINES]
    (tmp_path / "a.csv").write_text("".join(["text,language\n", *rows[:6], f"a,{code}\n", *rows[6:]]))
    with pytest.raises(ValueError, match=f"a.csv: row 7: '{code}' is not a language code"):
        read_user_text([str(tmp_path / "a.csv")], (), 1000, "auto", 0)


@pytest.mark.parametrize(
    ("names", "message"),
    [(["de.txt", "en.txt"], "is text, which has no column 'content'"), (["en-de.tsv"], "must be left out: --columns")],
    ids=["text", "pairs"],
)
def test_a_column_of_text_needs_tables(tmp_path, names, message):
    for name in names:
        (tmp_path / name).write_text("".join(f"{line}\t{line}!\n" for line in LINES))
    with pytest.raises(ValueError, match=message):
        read_user_text([str(tmp_path)], (), 1000, "auto", 0, column="content")


@pytest.mark.parametrize(("languages", "count"), [(2, 1000), (4, 1000), (15, 266), (60, 100)])
def test_sentences_are_shared_by_the_languages(languages, count, capsys):
    assert user_text._drawn(languages, count) == count
    assert not capsys.readouterr().out
    assert user_text._drawn(languages, count + 1) == count
    assert f"reading {count} sentences of each language" in capsys.readouterr().out
