"""Does the similarity of language means follow syntax? Syntactic distances from URIEL, and the correlation with them.

Xie et al. 2022 compare each language with English in two ways, and correlate the two over languages: the cosine between
the mean embeddings of the two languages, and their syntactic similarity in URIEL (Littell et al., EACL 2017), which is
1 - distance. There are two measures of distance, which disagree and are reported under separate names:

- *precomputed*: the distances that lang2vec's ``distance`` function reads from ``distances2.zip`` and
  ``distances_languages.txt``. These files are in ``lang2vec/data`` of github.com/antonisa/lang2vec, but not on PyPI.
- *cosine*: the cosine distance between the two languages' 103 syntactic features in the wheel ``lang2vec==1.1.2``, with
  gaps filled from nearest neighbours. From English to French it is 0.188; lang2vec's documentation gives 0.4569.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import langcodes
import numpy as np
from jaxtyping import Float
from langcodes.data_dicts import NORMALIZED_MACROLANGUAGES
from scipy.sparse import load_npz
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr

from lsar_jax.files import sha256
from lsar_jax.languages import canonical_keys, language_code

__all__ = ["SyntaxCorrelation", "syntactic_distances", "syntax_correlation", "typology_correlation"]

_COSINE = "cosine of syntax_knn, lang2vec 1.1.2"
_FEATURES = "lang2vec/data/feature_predictions.npz"
_FEATURES_SHA256 = "sha256:0e8af1bdb29e1bd71343d495d4fd4e1cd523e934e6d5fa42b72262ca8d8151b8"
_MATRIX = "syntactic_upper_round2_sparse.npz"
_LANGUAGES = "distances_languages.txt"

# After LSAR at rank L - 1, the language means of the text that it was fitted on have cosines within 4e-7 of 1 in
# float32, even if 1/300 of their length remains. On other text the cosines spread by 3e-3 (UDHR, bundled encoder,
# layer 8).
_LEAST_SPREAD = 1e-5


def syntactic_distances(
    languages: Iterable[str], english: str = "en", *, precomputed: Path | None
) -> tuple[dict[str, float], str]:
    """Returns the syntactic distance of each language from English, according to URIEL.

    Languages are looked up by ISO 639-3 code. A macrolanguage (``zho``, ``ara``) is tried before its main member
    (``cmn``, ``arb``), for which URIEL never has more features.

    Args:
      languages: language codes; English is skipped.
      english: the language to measure from.
      precomputed: path of ``distances2.zip``, with ``distances_languages.txt`` beside it; None for the cosine of
        the features.

    Returns:
      BCP 47 code -> distance, 0 to 1, in alphabetical order; and the name of the measure, which includes the
      digests of both files if the distances are precomputed.

    Raises:
      ValueError: URIEL lacks a language, or a file is damaged or not the expected one.
      FileNotFoundError: ``precomputed`` or the list of languages beside it does not exist.
      ImportError: ``precomputed`` is None and the wheel is not installed.
    """
    if isinstance(languages, str):
        raise ValueError(f"languages is {languages!r}; give a list of codes")
    origin = language_code(english)
    wanted = sorted({language_code(code) for code in languages} - {origin})
    if precomputed is None:
        names, features = _features()
        index = _positions([origin, *wanted], names)
        row = cdist(features[[index[origin]]], features, "cosine")[0]
        return {code: float(row[index[code]]) for code in wanted}, _COSINE
    path, listed = Path(precomputed), Path(precomputed).with_name(_LANGUAGES)
    for file in (path, listed):
        if not file.is_file():
            raise FileNotFoundError(
                f"{file} does not exist; copy it from lang2vec/data of github.com/antonisa/lang2vec"
            )
    names = listed.read_text(encoding="utf-8", errors="replace").strip().split(",")
    index = _positions([origin, *wanted], names)
    row = _matrix_row(path, index[origin], len(names))
    found = {code: float(row[index[code]]) for code in wanted}
    # The matrix is sparse: a missing pair reads as 0.
    wrong = [f"{code} {value}" for code, value in found.items() if not 0 < value <= 1]
    if wrong:
        limits = f"distances from {origin} must be above 0 and at most 1 (0 means a missing pair)"
        raise ValueError(f"{path}: {limits}; got {', '.join(wrong)}")
    return found, f"precomputed {_MATRIX.removesuffix('_sparse.npz')}, {sha256([path])}, languages {sha256([listed])}"


def typology_correlation(
    similarity: Mapping[str, float], distances: Mapping[str, float], english: str = "en"
) -> tuple[float, int]:
    """Returns Pearson's r between similarity and 1 - distance, and the number of languages used.

    Args:
      similarity: language -> cosine of its mean embedding with English's.
      distances: language -> its distance from English.
      english: code of English, which is skipped, as are languages that only one of the mappings has.

    Raises:
      ValueError: there are fewer than three languages, a value is not finite, or the values do not vary.
    """
    x, y = canonical_keys(similarity), canonical_keys(distances)
    codes = sorted((x.keys() & y.keys()) - {language_code(english)})
    if len(codes) < 3:
        raise ValueError(f"a correlation needs at least 3 shared languages; there are {', '.join(codes) or 'none'}")
    like = np.array([x[code] for code in codes], np.float64)
    near = 1 - np.array([y[code] for code in codes], np.float64)
    for name, values in (("similarity", like), ("distances", near)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} of {codes[int(np.argmin(np.isfinite(values)))]} is not finite")
    if np.ptp(like) < _LEAST_SPREAD:
        raise ValueError(
            f"the similarities of {len(codes)} languages differ by only {np.ptp(like):.1e}, which is within rounding "
            f"error (limit {_LEAST_SPREAD}): LSAR at rank L - 1 makes the means of the text that it was fitted on "
            "equal; use the means of other text, or a lower rank"
        )
    if np.ptp(near) < _LEAST_SPREAD:
        raise ValueError(f"the distances of {', '.join(codes)} are all {1 - near[0]:.6g}; they must vary")
    return float(pearsonr(like, near).statistic), len(codes)


class SyntaxCorrelation(NamedTuple):
    """The correlation of two comparisons with English.

    Attributes:
      r: Pearson's r.
      n: number of languages.
      points: language -> (syntactic similarity to English, cosine with English's vector).
    """

    r: float
    n: int
    points: dict[str, tuple[float, float]]


def syntax_correlation(
    vectors: Mapping[str, Float[np.ndarray, " dim"]], distances: Mapping[str, float]
) -> SyntaxCorrelation:
    """Correlates the cosine with English's vector and the syntactic similarity to English over languages.

    Args:
      vectors: language -> its mean embedding or a part of it; English is among them.
      distances: language -> its syntactic distance from English.

    Raises:
      ValueError: as for ``typology_correlation``.
    """
    units = {code: vector / (np.linalg.norm(vector) or 1.0) for code, vector in vectors.items()}
    cosines = {code: float(unit @ units["en"]) for code, unit in units.items() if code != "en"}
    points = {code: (1 - distances[code], cosine) for code, cosine in cosines.items() if code in distances}
    return SyntaxCorrelation(*typology_correlation(cosines, distances), points)


def _features() -> tuple[list[str], Float[np.ndarray, "language feature"]]:
    """Reads ISO 639-3 codes and syntactic features without importing lang2vec, which needs pkg_resources."""
    install = "pip install lang2vec==1.1.2 --no-deps"
    try:
        path = Path(str(metadata.distribution("lang2vec").locate_file(_FEATURES)))
    except metadata.PackageNotFoundError as error:
        raise ImportError(f"URIEL's features are not installed: {install}") from error
    if not path.is_file():
        raise ImportError(f"{path} does not exist: {install}")
    digest = sha256([path])
    if digest != _FEATURES_SHA256:
        raise ValueError(f"{path} has digest {digest}, not {_FEATURES_SHA256}: {install}")
    with np.load(path, allow_pickle=False) as arrays:
        syntactic = np.char.startswith(arrays["feats"], "S_")
        return arrays["langs"].tolist(), arrays["data"][:, syntactic, 0].astype(np.float64)


def _matrix_row(path: Path, index: int, languages: int) -> Float[np.ndarray, " language"]:
    """Reads row ``index`` of a symmetric matrix from a file that contains only its upper triangle."""
    try:
        with zipfile.ZipFile(path) as archive:
            if _MATRIX not in archive.namelist():
                raise ValueError(f"it has no member {_MATRIX}, only {', '.join(archive.namelist()) or 'none'}")
            upper = load_npz(io.BytesIO(archive.read(_MATRIX)))  # refuses pickles
        if upper.format not in ("csr", "csc") or upper.dtype.kind != "f":
            raise ValueError(f"{_MATRIX} is {upper.format} with {upper.dtype}; it must be csr or csc with floats")
        if upper.shape != (languages, languages):
            raise ValueError(f"{_MATRIX} has shape {upper.shape}, but {_LANGUAGES} lists {languages} languages")
        upper.check_format(full_check=True)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"{path} is not lang2vec's distances2.zip: {error}") from error
    above, right = upper[:index, [index]].toarray()[:, 0], upper[[index], index:].toarray()[0]
    return np.concatenate([above, right]).astype(np.float64)


def _positions(codes: Sequence[str], names: list[str]) -> dict[str, int]:
    """Returns the index of each language in URIEL's list of ISO 639-3 codes."""
    tried = {code: _iso_639_3(code) for code in codes}
    found = {code: [name for name in tried[code] if name in names] for code in codes}
    missing = [f"{code} ({', '.join(tried[code]) or 'no ISO 639-3 code'})" for code in codes if not found[code]]
    if missing:
        raise ValueError(f"URIEL's list of {len(names)} languages lacks {', '.join(missing)}; omit these languages")
    twice = [found[code][0] for code in codes if names.count(found[code][0]) > 1]
    if twice:
        raise ValueError(f"the list of {len(names)} languages has {', '.join(twice)} more than once")
    return {code: names.index(found[code][0]) for code in codes}


def _iso_639_3(code: str) -> list[str]:
    """Returns a language's own ISO 639-3 code, then those of its members if CLDR treats it as a macrolanguage."""
    subtag = code.split("-")[0]
    if subtag == "x":
        return []
    own = langcodes.Language.get(subtag, normalize=False).to_alpha3()
    return [own, *sorted(part for part, macro in NORMALIZED_MACROLANGUAGES.items() if macro == subtag)]
