"""The bundled declaration, and text files."""

from unicodedata import is_normalized

import pytest

from lsar_jax import corpora


def test_udhr_is_aligned_and_complete():
    every = corpora.udhr()
    assert len(every) == 40
    assert list(every) == sorted(every)
    assert {len(paragraphs) for paragraphs in every.values()} == {50}
    assert all(text == " ".join(text.split()) and text for texts in every.values() for text in texts)
    assert all(is_normalized("NFC", text) for texts in every.values() for text in texts)
    assert every["de"][0].startswith("Alle Menschen sind frei und gleich an Würde und Rechten geboren.")
    assert every["en"][-1].startswith("Nothing in this Declaration may be interpreted")
    fit, test = (corpora.udhr(part, ["eng"])["en"] for part in ("fit", "test"))
    assert [text for pair in zip(fit, test, strict=True) for text in pair] == every["en"]


def test_udhr_refuses():
    with pytest.raises(ValueError, match="part 'dev' is not one of all, fit, test"):
        corpora.udhr("dev")
    with pytest.raises(ValueError, match="language 'la' is not in the UDHR; known languages are af, ar"):
        corpora.udhr(languages=["la"])


def test_lines_keep_alignment(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffone\r\n\ntwo\u2028still two\x0c\nthree".encode())
    assert corpora.lines(path) == ["one", "", "two\u2028still two\x0c", "three"]
    path.write_bytes(b"one\ntwo\n")
    assert corpora.lines(path) == ["one", "two"]
    # What a tar archive has at this place is part of words.
    path.write_text(f"{'a' * 255} gustar mucho\n")
    assert corpora.lines(path) == [f"{'a' * 255} gustar mucho"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deu.txt").write_bytes(b"\xef\xbb\xbfeins\r\n\n \nzwei \ndrei")
    (tmp_path / "zh_TW.txt").write_text("一\n二\n")
    (tmp_path / "en.txt").write_text("".join(f"{n}\n" for n in range(12_000)))
    (tmp_path / "en.json").write_text("is not text")
    return tmp_path


def test_text_folder(folder):
    found = corpora.text_folder(folder)
    assert list(found) == ["de", "en", "zh-Hant"]
    assert found["de"] == ["eins", "zwei ", "drei"]
    assert found["en"] == [str(n) for n in range(10_000)]
    assert corpora.text_folder(folder, ["zh-Hant", "ger"], 1) == {"de": ["eins"], "zh-Hant": ["一"]}
    assert len(corpora.text_folder(folder, ["eng"], None)["en"]) == 12_000
    # Of a file that is bad further down, no more is read than is wanted.
    (folder / "fr.txt").write_bytes(b"bien\n\xff\n")
    assert corpora.text_folder(folder, ["fr"], 1) == {"fr": ["bien"]}
    with pytest.raises(ValueError, match="fr.txt, line 2 is not UTF-8"):
        corpora.text_folder(folder, ["fr"])


def test_text_folder_refuses(folder):
    # Each file is written, and stays for the next.
    for name, text, languages, error, message in (
        ("it.txt", "uno", ["de", "jpn", "fra"], FileNotFoundError, "no ja.txt, fr.txt; it has de, en, it, zh-Hant"),
        ("it.txt", "uno", [], FileNotFoundError, "has no LANGUAGE.txt; it has"),
        ("it.txt", "uno", "de", ValueError, "'d' is not a language code"),
        ("fr.txt", " \n\n", ["fr"], ValueError, "fr.txt has no sentence"),
        ("fr.txt", "", ["fr"], ValueError, "fr.txt is empty"),
        ("README.txt", "text", None, ValueError, "README.txt is not named after a language; rename it, or"),
        ("de.txt", "text", ["de"], ValueError, r"de.txt and .*deu.txt are both for 'de'; keep only one"),
    ):
        (folder / name).write_text(text)
        with pytest.raises(error, match=message):
            corpora.text_folder(folder, languages)
    assert list(corpora.text_folder(folder, ["en"])) == ["en"]
    with pytest.raises(ValueError, match="count is 0; it must be at least 1"):
        corpora.text_folder(folder, ["en"], count=0)
