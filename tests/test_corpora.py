"""The bundled declaration, and text files."""

import pytest

from lsar_jax import corpora


def test_udhr_is_aligned_and_complete():
    every = corpora.udhr()
    assert len(every) == 40
    assert list(every) == sorted(every)
    assert {len(paragraphs) for paragraphs in every.values()} == {50}
    assert all(text == " ".join(text.split()) and text for texts in every.values() for text in texts)
    assert every["en"][0].startswith("All human beings are born free and equal in dignity and rights.")
    assert every["de"][0].startswith("Alle Menschen sind frei und gleich an Würde und Rechten geboren.")
    assert every["en"][-1].startswith("Nothing in this Declaration may be interpreted")
    assert every["fr"][-1].startswith("Aucune disposition de la présente Déclaration")


def test_udhr_parts_interleave():
    whole, fit, test = (corpora.udhr(part, ["eng"])["en"] for part in ("all", "fit", "test"))
    assert [text for pair in zip(fit, test, strict=True) for text in pair] == whole


def test_udhr_refuses():
    with pytest.raises(ValueError, match="part 'dev' is not one of all, fit, test"):
        corpora.udhr("dev")
    with pytest.raises(ValueError, match="language 'la' is not in the UDHR; known are af, ar"):
        corpora.udhr(languages=["la"])


def test_lines_keep_alignment(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("\ufeffone\r\n\ntwo\u2028still two\x0c\nthree".encode())
    assert corpora.lines(path) == ["one", "", "two\u2028still two\x0c", "three"]
    path.write_bytes(b"one\ntwo\n")
    assert corpora.lines(path) == ["one", "two"]


def test_lines_refuse(tmp_path):
    path = tmp_path / "text"
    with pytest.raises(FileNotFoundError, match="no text file at"):
        corpora.lines(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        corpora.lines(path)
    path.write_bytes(b"fine\nbad \xff\n")
    with pytest.raises(ValueError, match="line 2 is not UTF-8"):
        corpora.lines(path)
