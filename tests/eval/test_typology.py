"""URIEL's distances from a small file of its format and from the wheel, and correlations by hand."""

import io
import zipfile
from hashlib import sha256
from importlib import metadata

import numpy as np
import pytest
from scipy import sparse

from eval.data import typology
from eval.data.tatoeba import XTREME_36
from eval.data.typology import syntactic_distances, typology_correlation
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


def packed(matrix, save=sparse.save_npz):
    buffer = io.BytesIO()
    save(buffer, matrix)
    return buffer.getvalue()


def write(folder, content=None, member=MATRIX, names=NAMES):
    path = folder / "distances2.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, packed(sparse.csr_matrix(upper())) if content is None else content)
    (folder / "distances_languages.txt").write_text(",".join(names) + "\n")
    return path


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_precomputed_distances_are_read_from_the_upper_triangle(tmp_path, kind):
    path = write(tmp_path, packed(kind(upper())))
    found, measure = syntactic_distances(["deu", "en", "zh", "fr", "tl", "fa", "de"], precomputed=path)
    assert found == TO_ENGLISH
    assert list(found) == sorted(found)
    digest, listed = (
        sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("distances2.zip", "distances_languages.txt")
    )
    assert measure == f"precomputed syntactic_upper_round2, sha256:{digest}, languages sha256:{listed}"


@pytest.mark.parametrize(("origin", "expected"), [("fr", {"de": 0.5, "en": 0.46}), ("de", {"en": 0.42, "fr": 0.5})])
def test_precomputed_distances_from_the_ends_of_the_list(tmp_path, origin, expected):
    assert syntactic_distances(["de", "en", "fr"], origin, precomputed=write(tmp_path))[0] == expected


def test_macro_language_comes_before_its_member(tmp_path):
    languages = ["zh-Hant", "cmn", "pes"]
    assert syntactic_distances(languages, precomputed=write(tmp_path))[0] == {"fa": 0.61, "zh": 0.57, "zh-Hant": 0.57}
    without = write(tmp_path, names=["xxx" if name == "zho" else name for name in NAMES])
    assert syntactic_distances(["zh"], precomputed=without)[0] == {"zh": 0.58}


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (["fr", "et", "ja"], r"list of 7 languages lacks et \(est, ekk\), ja \(jpn\); omit these"),
        (["fr", "x-law"], r"lacks x-law \(no ISO 639-3 code\)"),
        (["fr", "qq"], "'qq' is not a language code"),
        ("fr", "languages is 'fr'; give a list"),
    ],
)
def test_unknown_languages_are_refused(tmp_path, languages, message):
    with pytest.raises(ValueError, match=message):
        syntactic_distances(languages, precomputed=write(tmp_path))


def test_english_must_be_there_too(tmp_path):
    with pytest.raises(ValueError, match=r"lacks ja \(jpn\)"):
        syntactic_distances(["fr"], "ja", precomputed=write(tmp_path))


def test_a_language_listed_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has fra more than once"):
        syntactic_distances(["fr"], precomputed=write(tmp_path, names=[*NAMES[:6], "fra"]))


def matrix_of(**changed):
    """The npz of the matrix with some of its arrays replaced."""
    right = sparse.csr_matrix(upper())
    arrays = {"format": b"csr", "shape": (7, 7), "data": right.data, "indices": right.indices, "indptr": right.indptr}
    return packed(arrays | changed, lambda file, values: np.savez(file, **values))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (matrix_of(indices=np.full(9, 7, np.int32)), "not lang2vec's distances2.zip: .*indices"),
        (matrix_of(data=np.array([{}] * 9)), "not lang2vec's distances2.zip: .*allow_pickle=False"),
        (matrix_of(format=b"xyz"), "Unknown format"),
        (matrix_of(shape=(7, 8)), r"has shape \(7, 8\), but distances_languages.txt lists 7 languages"),
        (matrix_of(data=np.ones(9, np.int64)), "is csr with int64; it must be csr or csc with floats"),
        (packed(sparse.coo_matrix(upper())), "is coo with float64"),
        (
            packed(sparse.csr_matrix(upper()[:6, :6])),
            r"has shape \(6, 6\), but distances_languages.txt lists 7 languages",
        ),
        (packed(upper(), np.save), "not lang2vec's distances2.zip"),
        (b"no array", "not lang2vec's distances2.zip: .*pickle"),
        (b"", "not lang2vec's distances2.zip"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        syntactic_distances(["fr"], precomputed=write(tmp_path, content))


def test_matrix_of_is_right(tmp_path):
    assert syntactic_distances(TO_ENGLISH, precomputed=write(tmp_path, matrix_of()))[0] == TO_ENGLISH


@pytest.mark.parametrize("value", [0, -0.1, 1.5, np.nan])
def test_impossible_and_missing_distances_are_refused(tmp_path, value):
    matrix = upper()
    matrix[1, 6] = value
    path = write(tmp_path, packed(sparse.csr_matrix(matrix)))
    assert syntactic_distances(["fr"], precomputed=path)[0] == {"fr": 0.46}
    with pytest.raises(ValueError, match=rf"at most 1 \(0 means a missing pair\); got de {float(value)}"):
        syntactic_distances(["fr", "de"], precomputed=path)


def test_damaged_zips_are_refused(tmp_path):
    path = write(tmp_path, member="SYNTACTIC.csv")
    with pytest.raises(ValueError, match=f"it has no member {MATRIX}, only SYNTACTIC.csv"):
        syntactic_distances(["fr"], precomputed=path)
    whole = write(tmp_path).read_bytes()
    for broken in (b"<html>", whole[:-30], whole[:100] + bytes(20) + whole[120:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="distances2.zip is not lang2vec's distances2.zip"):
            syntactic_distances(["fr"], precomputed=path)


def test_missing_files_say_where_they_are(tmp_path):
    with pytest.raises(FileNotFoundError, match="distances2.zip does not exist; copy it from lang2vec/data"):
        syntactic_distances(["fr"], precomputed=tmp_path / "distances2.zip")
    path = write(tmp_path)
    (tmp_path / "distances_languages.txt").unlink()
    with pytest.raises(FileNotFoundError, match="distances_languages.txt does not exist; copy it"):
        syntactic_distances(["fr"], precomputed=path)


def test_cosine_from_the_wheel(wheel):
    found, measure = syntactic_distances(["fr", "en", "de"], precomputed=None)
    assert measure == "cosine of syntax_knn, lang2vec 1.1.2"
    assert list(found) == ["de", "fr"]
    assert found["fr"] == pytest.approx(0.188, abs=5e-4)
    names, features = typology._features()
    assert features.shape == (7970, 103)
    english, german = (features[names.index(name)] for name in ("eng", "deu"))
    # Features are 0 or 1: the product counts those that both have.
    both = (english * german).sum()
    assert found["de"] == pytest.approx(1 - both / np.sqrt(english.sum() * german.sum()))


def test_all_of_xtreme_are_in_the_wheel(wheel):
    found, _ = syntactic_distances(XTREME_36, precomputed=None)
    assert tuple(found) == tuple(sorted(XTREME_36))
    assert all(0 < value < 0.6 for value in found.values())
    # Tagalog, not Filipino; the macro-languages, not Mandarin or Iranian Persian.
    names, _ = typology._features()
    where = typology._positions(["tl", "zh", "fa", "ar", "et", "sw", "id", "ms"], names)
    assert [names[index] for index in where.values()] == ["tgl", "zho", "fas", "ara", "est", "swa", "ind", "msa"]


def test_the_wheel_lacks_a_language(wheel):
    with pytest.raises(ValueError, match="list of 7970 languages lacks x-law"):
        syntactic_distances(["fr", "x-law"], precomputed=None)


def test_another_wheel_is_refused(wheel, monkeypatch):
    monkeypatch.setattr(typology, "_FEATURES_SHA256", "sha256:0")
    with pytest.raises(
        ValueError, match=r"has digest sha256:0e8a\w+, not sha256:0: pip install lang2vec==1.1.2 --no-deps"
    ):
        syntactic_distances(["fr"], precomputed=None)
    monkeypatch.setattr(typology, "_FEATURES", "lang2vec/data/none.npz")
    with pytest.raises(ImportError, match="none.npz does not exist: pip install lang2vec==1.1.2 --no-deps"):
        syntactic_distances(["fr"], precomputed=None)


def test_no_wheel(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(ImportError, match="pip install lang2vec==1.1.2 --no-deps"):
        syntactic_distances(["fr"], precomputed=None)


def test_correlation_by_hand():
    # Similarities 1, 2, 4 (/10) about their mean: -4, -1, 5 (/30). Nearness .5, .8, .5: -1, 2, -1 (/10).
    # r = (4 - 2 - 5) / sqrt(42 * 6) = -3 / sqrt(252).
    similarity = {"deu": 0.1, "fr": 0.2, "es": 0.4, "en": 1.0, "ja": 0.9}
    distances = {"de": 0.5, "fra": 0.2, "es": 0.5, "en": 0.0, "zh": 0.7}
    r, n = typology_correlation(similarity, distances)
    assert r == pytest.approx(-3 / np.sqrt(252))
    assert n == 3
    exact = {code: 1 - value for code, value in TO_ENGLISH.items()}
    assert typology_correlation(exact, TO_ENGLISH) == (pytest.approx(1), 5)


def test_correlation_leaves_out_the_language_measured_from():
    similarity = {"fr": 1.0, "de": 0.3, "en": 0.2, "es": 0.1}
    distances = {"fr": 0.0, "de": 0.7, "en": 0.8, "es": 0.9}
    assert typology_correlation(similarity, distances, "fr") == (pytest.approx(1), 3)


def test_equal_means_are_refused(rng):
    """LSAR at rank L - 1 on its own text leaves nothing but rounding."""
    shared = rng.standard_normal(64) * 4
    offsets = rng.standard_normal((6, 64))
    basis = np.linalg.svd(offsets - offsets.mean(axis=0), full_matrices=False)[2][:5]
    means = (shared + offsets - (shared + offsets) @ basis.T @ basis).astype(np.float32)
    cosine = means @ means[0] / np.linalg.norm(means, axis=1) / np.linalg.norm(means[0])
    codes = ["en", *TO_ENGLISH]
    with pytest.raises(ValueError, match="within .*LSAR at rank L - 1 .*use the means of other text"):
        typology_correlation(dict(zip(codes, cosine.tolist(), strict=True)), TO_ENGLISH)
    other = dict(zip(TO_ENGLISH, [1, 0.99998, 0.99996, 1, 1], strict=True))
    assert typology_correlation(other, TO_ENGLISH)[1] == 5


@pytest.mark.parametrize(
    ("similarity", "distances", "message"),
    [
        ({"fr": 0.1, "de": 0.2, "en": 1.0}, TO_ENGLISH, "needs at least 3 shared languages; there are de, fr"),
        ({"ja": 0.1}, TO_ENGLISH, "there are none"),
        ({"fr": 0.1, "de": np.nan, "zh": 0.2}, TO_ENGLISH, "similarity of de is not finite"),
        ({"fr": 0.1, "de": 0.3, "zh": 0.2}, {"fr": 0.1, "de": 0.2, "zh": np.inf}, "distances of zh is not finite"),
        ({"fr": 0.1, "de": 0.3, "zh": 0.2}, dict.fromkeys(("fr", "de", "zh"), 0.4), "of de, fr, zh are all 0.4"),
        ({"fr": 0.1, "fra": 0.3, "zh": 0.2}, TO_ENGLISH, "'fr' and 'fra' are the same language"),
    ],
)
def test_correlation_refuses(similarity, distances, message):
    with pytest.raises(ValueError, match=message):
        typology_correlation(similarity, distances)
