"""URIEL's distances from a small file of its format and from the wheel, and correlations by hand."""

import io
import zipfile
from importlib import metadata
from unittest.mock import Mock

import numpy as np
import pytest
from scipy import sparse

from eval.data import typology
from eval.data.tatoeba import XTREME_36
from eval.data.typology import uriel_correlation, uriel_distances
from tests.optional import need

NAMES = ["fra", "eng", "zho", "cmn", "pes", "tgl", "deu"]
MATRIX = "syntactic_upper_round2_sparse.npz"
# English is second: French is above the diagonal in its column, the others in its row.
TO_ENGLISH = {"de": 0.42, "fa": 0.61, "fr": 0.46, "tl": 0.53, "zh": 0.57}


@pytest.fixture
def wheel():
    need("lang2vec")


def upper():
    matrix = np.zeros((7, 7))
    matrix[0, 1], matrix[1, 2:] = 0.46, [0.57, 0.58, 0.61, 0.53, 0.42]
    matrix[0, 6] = 0.5
    matrix[1, 1], matrix[6, 1] = 0.99, 0.99  # neither is read
    return matrix


def packed(matrix):
    buffer = io.BytesIO()
    sparse.save_npz(buffer, matrix)
    return buffer.getvalue()


def syntactic_distances(languages, precomputed):
    return uriel_distances(languages, precomputed=precomputed)["syntax"]


def write(folder, content=None, member=MATRIX, names=NAMES, **others):
    path = folder / "distances2.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, packed(sparse.csr_matrix(upper())) if content is None else content)
        for kind, matrix in others.items():
            archive.writestr(f"{kind}_upper_round1_sparse.npz", packed(sparse.csr_matrix(matrix)))
    (folder / "distances_languages.txt").write_text(",".join(names) + "\n")
    return path


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix])
def test_precomputed_distances_are_read_from_the_upper_triangles(tmp_path, kind):
    near = upper() / 2
    near[1, 6] = 0  # a missing pair
    path = write(tmp_path, packed(kind(upper())), phonological=near, genetic=upper())
    signals = uriel_distances(["deu", "en", "zh", "fr", "tl", "fa", "de"], precomputed=path)
    assert list(signals) == ["syntax", "phonology", "genetic"]
    assert signals["syntax"] == (TO_ENGLISH, "precomputed syntactic distances of URIEL")
    halves = {code: value / 2 for code, value in TO_ENGLISH.items() if code != "de"}
    assert signals["phonology"] == (halves, "precomputed phonological distances of URIEL")


def test_macro_language_comes_before_its_member(tmp_path):
    languages = ["zh-Hant", "cmn", "pes"]
    assert syntactic_distances(languages, precomputed=write(tmp_path))[0] == {"fa": 0.61, "zh": 0.57, "zh-Hant": 0.57}
    without = write(tmp_path, names=["xxx" if name == "zho" else name for name in NAMES])
    assert syntactic_distances(["zh"], precomputed=without)[0] == {"zh": 0.58}


def test_unknown_languages_are_refused(tmp_path):
    for languages, names, message in (
        (["fr", "et", "ja"], NAMES, r"list of 7 languages lacks et \(est, ekk\), ja \(jpn\); omit these"),
        (["fr", "x-law"], NAMES, r"lacks x-law \(no ISO 639-3 code\)"),
        (["fr"], ["fra", *NAMES[2:]], r"lacks en \(eng\)"),
    ):
        with pytest.raises(ValueError, match=message):
            syntactic_distances(languages, precomputed=write(tmp_path, names=names))


@pytest.mark.parametrize("value", [0, 1.5, np.nan])
def test_impossible_and_missing_distances_are_refused(tmp_path, value):
    matrix = upper()
    matrix[1, 6] = value
    path = write(tmp_path, packed(sparse.csr_matrix(matrix)))
    assert syntactic_distances(["fr"], precomputed=path)[0] == {"fr": 0.46}
    with pytest.raises(ValueError, match=rf"must be in \(0, 1\]; got de {float(value)}"):
        syntactic_distances(["fr", "de"], precomputed=path)


def test_damaged_and_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no distances2.zip in"):
        syntactic_distances(["fr"], precomputed=tmp_path / "distances2.zip")
    wide = packed(sparse.csr_matrix(np.ones((7, 8))))
    with pytest.raises(ValueError, match="as distances_languages.txt lists it: zip.* argument 2 is longer"):
        syntactic_distances(["fr"], precomputed=write(tmp_path, wide))
    for content, member, message in ((b"no array", MATRIX, "pickle"), (None, "SYNTACTIC.csv", MATRIX)):
        with pytest.raises(ValueError, match=f"not lang2vec's distances2.zip, .*{message}"):
            syntactic_distances(["fr"], precomputed=write(tmp_path, content, member))
    (tmp_path / "distances_languages.txt").unlink()
    with pytest.raises(FileNotFoundError, match="there is no distances_languages.txt in"):
        syntactic_distances(["fr"], precomputed=tmp_path / "distances2.zip")


def test_cosine_from_the_wheel(wheel):
    signals = uriel_distances(["fr", "en", "de"], precomputed=None)
    assert signals["syntax"][0]["fr"] == pytest.approx(0.188, abs=5e-4)
    known, features = typology._features()
    shapes = {kind: of.shape for kind, of in features.items()}
    assert shapes == {"syntax": (7970, 103), "phonology": (7970, 28), "inventory": (7970, 158)}
    for kind, (found, measure) in signals.items():
        assert measure == f"cosine of {kind}_knn, lang2vec 1.1.2"
        english, german = (features[kind][known.index(name)] for name in ("eng", "deu"))
        # Features are 0 or 1: the product counts those that both have.
        both = (english * german).sum()
        assert found["de"] == pytest.approx(1 - both / np.sqrt(english.sum() * german.sum()))
    # Tagalog, not Filipino; the macro-languages, not Mandarin or Iranian Persian.
    names = typology._uriel_names(["tl", "zh", "fa", "ar", "et", "sw", "id", "ms"], known)
    assert list(names.values()) == ["tgl", "zho", "fas", "ara", "est", "swa", "ind", "msa"]
    every, _ = syntactic_distances(XTREME_36, precomputed=None)
    assert all(0 < every[code] < 0.6 for code in XTREME_36)


def test_another_wheel_or_none(wheel, monkeypatch):
    monkeypatch.setattr(typology, "_FEATURES_SHA256", "sha256:0")
    with pytest.raises(ValueError, match=r"has digest sha256:0e8a\w+, not sha256:0: pip install lang2vec==1.1.2"):
        syntactic_distances(["fr"], precomputed=None)

    monkeypatch.setattr(metadata, "distribution", Mock(side_effect=metadata.PackageNotFoundError("lang2vec")))
    with pytest.raises(ImportError, match="pip install lang2vec==1.1.2 --no-deps"):
        syntactic_distances(["fr"], precomputed=None)


def test_correlation_by_hand():
    # Cosines 1, 2, 4 (/10) about their mean: -4, -1, 5 (/30). Nearness .5, .8, .5: -1, 2, -1 (/10).
    # r = (4 - 2 - 5) / sqrt(42 * 6) = -3 / sqrt(252).
    likeness = {"de": 0.1, "fr": 0.2, "es": 0.4, "ja": 0.9}
    r, points = uriel_correlation(likeness, {"de": 0.5, "fr": 0.2, "es": 0.5, "zh": 0.7})
    assert r == pytest.approx(-3 / np.sqrt(252))
    assert points == {"de": (0.5, 0.1), "es": (0.5, 0.4), "fr": (0.8, 0.2)}
    with pytest.raises(ValueError, match="3 languages that differ; the distances of de, fr have a range of 0"):
        uriel_correlation({"fr": 0.1, "de": 0.2}, TO_ENGLISH)
    with pytest.raises(ValueError, match="the distances of de, es, fr have a range of 0"):
        uriel_correlation(likeness, dict.fromkeys(("de", "es", "fr"), 0.4))
    # LSAR at rank L - 1 on the text that it was fitted on leaves nothing but rounding.
    with pytest.raises(ValueError, match="may be rounding, as after LSAR at rank L - 1 .*use other text"):
        uriel_correlation(dict.fromkeys(TO_ENGLISH, 0.99), TO_ENGLISH)
