"""Tables of pairs as people have them: the pair is found among other columns, in either order, below names."""

import pytest

from lsar_jax import corpora
from lsar_jax.__main__ import main
from lsar_jax.corpora.parallel_text import read_bitext
from lsar_jax.corpora.row_files import file_rows
from lsar_jax.mining.pair_files import read_pairs

SHORT = [("Go.", "Geh."), ("Hi.", "Hallo!"), ("Hi.", "Grüß Gott!"), ("Help!", "Zu Hülf!"), ("I know.", "Ich weiß.")]
UDHR = corpora.udhr(languages=["de", "en", "zh"])
ENGLISH = UDHR["en"]  # in another order, a column that nothing tells from a side
LONG = list(zip(ENGLISH, UDHR["de"], strict=True))
LICENCE = "CC-BY 2.0 (France) Attribution: tatoeba.org"
ROWS = {
    "two": lambda n, en, de: (en, de),
    "turned": lambda n, en, de: (de, en),
    "domain": lambda n, en, de: ("gimp20", en, de),
    "licence": lambda n, en, de: (en, de, f"{LICENCE} #{n} (CM) & #{7 * n}"),
    "score, turned": lambda n, en, de: (f"1.{n}", de, en),
    "score behind": lambda n, en, de: (en, de, f"-{n}e-05"),
    "bitextor": lambda n, en, de: (f"https://a.b/{n}", f"http://a.b/de/{n}", en, de, f"0.{n}"),
    "Tatoeba's ids": lambda n, en, de: (str(n), en, str(7 * n), de),
    "names of files": lambda n, en, de: (en, de, f"{n}-v1.xml"),
    "flag and score": lambda n, en, de: (str(n), de, en, "train", f"{n / 7:.2f}", "True"),
    "quotation marks": lambda n, en, de: (f'"{en}"', f'"{de}"', str(n)),
    "named by --columns": lambda n, en, de: (ENGLISH[-n - 1], de, en),
}
HEADERS = {
    "two": [
        "English\tGerman", "en\tdeu", "source\ttarget", "English\tnon_english", "english\tgerman", "text.en\ttext.de",
        "ENGLISH (US)\tGERMAN (DE)", "English text\tGerman text", "src_sent\ttgt_sent", "Source text\tTarget text",
    ],
    "turned": ["de\ten", "deu_Latn\teng_Latn", "de_text\ten_text", "target_sentence\tsource_sentence"],
    "bitextor": ["src_url\ttrg_url\tsrc_text\ttrg_text\tbicleaner"],
    "score behind": ["Anglais\tAllemand\tnote"],
    "Tatoeba's ids": ["\tenglish\t\tgerman"],
}  # fmt: skip
CASES = [(form, header) for form in ROWS for header in ["", *HEADERS.get(form, [])]]


@pytest.mark.parametrize("pairs", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize(("form", "header"), CASES)
def test_the_pair_is_found(form, header, pairs, tmp_path, caplog):
    rows = [header, *("\t".join(ROWS[form](n, *pair)) for n, pair in enumerate(pairs))]
    (tmp_path / "en-de.tsv").write_text("".join(f"{row}\n" for row in rows if row))
    columns = ("x", "de", "en") if "--columns" in form else ()
    assert read_bitext(tmp_path, (), "--data", columns=columns) == {"de": pairs}
    # The first pair is shown where there was a choice.
    told = f"are the pair; the first is {pairs[0][0]!r} and {pairs[0][1]!r}"
    assert (told in caplog.text) == (header != "" or form not in ("two", "domain"))


def test_what_is_not_clear_is_asked_for(tmp_path, refused):
    path = tmp_path / "en-de.tsv"
    path.write_text("".join(f"{en}\t{de}\t{ENGLISH[-n - 1]}\n" for n, (en, de) in enumerate(LONG)))
    with pytest.raises(ValueError, match="of the 3 columns .All human.* are the pair is not clear; name"):
        read_bitext(tmp_path, (), "--data")
    for columns in (("en", "de"), ("en", "en", "de"), ("a", "b", "c")):
        with pytest.raises(ValueError, match=f"has 3 columns; --columns is {' '.join(columns)}; name source and"):
            read_bitext(tmp_path, (), "--data", columns=columns)
    words = ["mine", "--pairs", str(path), str(tmp_path / "out.tsv"), "--encoder", "bundled", "--layer", "0"]
    assert "not clear" in refused(main, words)
    assert main([*words, "--columns", "source", "target", "other", "--threshold", "9"]) == 0
    path.write_text("\n \n")
    with pytest.raises(ValueError, match="en-de.tsv is empty"):
        read_bitext(tmp_path, (), "--data")


@pytest.mark.parametrize("other", ["zh", "zh-Hant", "yue", "oc"])
def test_languages_of_other_scripts(other, tmp_path):
    rows = [f"0.{n}\t{zh}\t{en}\n" for n, (zh, en) in enumerate(zip(UDHR["zh"], ENGLISH, strict=True))]
    (tmp_path / f"en-{other}.tsv").write_text("".join(rows))
    turned = other != "oc"  # of Latin languages that the UDHR has not, the name of the file is taken at its word
    assert read_bitext(tmp_path, [other], "--data")[other][0] == (ENGLISH[0], UDHR["zh"][0])[:: 1 if turned else -1]


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        (['"He said ""no"", twice"\tb', "c\td"], 'He said "no", twice'),
        (['"one, two"\tb', 'c\t"d, e"'], "one, two"),
        (['"one, two"\tb', "c, d\te"], '"one, two"'),
        (['"Hi"\tb', "c\td"], '"Hi"'),
        (['"Hi," he said\tb', 'c\t"d, e"'], '"Hi," he said'),
        (['"He said ""no"""\tb', 'c\tnot "this"'], '"He said ""no"""'),
        (['"Hi"\t"b"', '"c"\t"d"'], "Hi"),
    ],
)
def test_quotation_marks_of_a_spreadsheet_go_and_those_of_a_text_stay(rows, first, tmp_path):
    for end in ("\n", "\r\n"):
        (tmp_path / "a.tsv").write_bytes("".join(f"{row}{end}" for row in rows).encode())
        assert next(read_pairs(tmp_path / "a.tsv")) == (first, "b")
        (tmp_path / "b.tsv").write_bytes("".join(f"{row}{end}" for row in ["text\tid", *rows]).encode())
        assert next(file_rows(tmp_path / "b.tsv"))[1]["text"] == first
