"""Does the similarity of language means follow syntax? Syntactic distances from URIEL, and the correlation with them.

Xie et al. 2022 compare each language with English in two ways, and correlate the two over languages: the cosine between
the mean embeddings of the two languages, and their syntactic similarity in URIEL (Littell et al., EACL 2017), which is
1 - distance. There are two measures of distance, which disagree and are reported under separate names:

- *precomputed*: the distances that lang2vec's ``distance`` function reads from ``distances2.zip`` and
  ``distances_languages.txt`` in ``lang2vec/data`` of github.com/antonisa/lang2vec; they are not on PyPI.
- *cosine*: the cosine distance between the two languages' 103 syntactic features in the wheel ``lang2vec==1.1.2``, with
  gaps filled from nearest neighbours. From English to French it is 0.188; lang2vec's documentation gives 0.4569.
"""

import io
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
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

from lsar_jax.files import check_file, sha256
from lsar_jax.languages import language_code

__all__ = ["SyntaxCorrelation", "syntactic_distances", "syntax_correlation"]

_COSINE = "cosine of syntax_knn, lang2vec 1.1.2"
_INSTALL = "pip install lang2vec==1.1.2 --no-deps"
_FEATURES = "lang2vec/data/feature_predictions.npz"
_FEATURES_SHA256 = "sha256:0e8af1bdb29e1bd71343d495d4fd4e1cd523e934e6d5fa42b72262ca8d8151b8"
_MATRIX = "syntactic_upper_round2_sparse.npz"
_LANGUAGES = "distances_languages.txt"

# After LSAR at rank L - 1, the language means of the text that it was fitted on have cosines within 4e-7 of 1 in
# float32. On other text the cosines spread by 3e-3 (UDHR, bundled encoder, layer 8).
_LEAST_SPREAD = 1e-5


def syntactic_distances(languages: Iterable[str], *, precomputed: Path | None) -> tuple[dict[str, float], str]:
    """Returns the syntactic distance of each language from English, 0 to 1, and the name of the measure.

    Languages are looked up by ISO 639-3 code. A macrolanguage (``zho``, ``ara``) is tried before its main member
    (``cmn``, ``arb``), for which URIEL never has more features. The name has the digests of both files if the distances
    are ``precomputed``, read from ``distances2.zip`` with ``distances_languages.txt`` beside it.
    """
    codes = sorted({language_code(code) for code in languages} - {"en"})
    if precomputed is None:
        features = _features()
        names = _uriel_names(["en", *codes], features)
        row = cdist([features[names["en"]]], [features[names[code]] for code in codes], "cosine")[0]
        return dict(zip(codes, row.tolist(), strict=True)), _COSINE
    listed = precomputed.with_name(_LANGUAGES)
    for file in (precomputed, listed):
        check_file(file)
    known = listed.read_text(encoding="utf-8", errors="replace").strip().split(",")
    names = _uriel_names(["en", *codes], known)
    row = _matrix_row(precomputed, names["en"], known)
    found = {code: row[names[code]] for code in codes}
    # The matrix is sparse: a missing pair reads as 0.
    if wrong := [f"{code} {value}" for code, value in found.items() if not 0 < value <= 1]:
        raise ValueError(f"{precomputed}: distances from English must be in (0, 1]; got {', '.join(wrong)}")
    digests = f"{sha256([precomputed])}, languages {sha256([listed])}"
    return found, f"precomputed {_MATRIX.removesuffix('_sparse.npz')}, {digests}"


class SyntaxCorrelation(NamedTuple):
    """Pearson's r, the number of languages, and by language its syntactic similarity and cosine with English."""

    r: float
    n: int
    points: dict[str, tuple[float, float]]


def syntax_correlation(
    vectors: Mapping[str, Float[np.ndarray, " dim"]], distances: Mapping[str, float]
) -> SyntaxCorrelation:
    """Correlates the cosine with English's vector and the syntactic similarity to English over languages."""
    units = {code: vector / (np.linalg.norm(vector) or 1.0) for code, vector in vectors.items()}
    codes = sorted((vectors.keys() & distances.keys()) - {"en"})
    points = {code: (1 - distances[code], float(units[code] @ units["en"])) for code in codes}
    near, like = np.array(list(points.values())).reshape(-1, 2).T
    spreads = [float(np.ptp(values)) if len(codes) > 2 else 0.0 for values in (near, like)]
    if spreads[0] == 0 or spreads[1] < _LEAST_SPREAD:
        raise ValueError(
            f"a correlation needs at least 3 languages that differ; the distances of {', '.join(codes) or 'none'} have "
            f"a range of {spreads[0]:.6g} and the similarities of {spreads[1]:.1e}, of which {_LEAST_SPREAD} may be "
            "rounding, as after LSAR at rank L - 1 on its own text; use other text, or a lower rank"
        )
    return SyntaxCorrelation(float(pearsonr(like, near).statistic), len(codes), points)


def _features() -> dict[str, Float[np.ndarray, " feature"]]:
    """Reads syntactic features by ISO 639-3 code without importing lang2vec, which needs pkg_resources."""
    try:
        path = Path(str(metadata.distribution("lang2vec").locate_file(_FEATURES)))
    except metadata.PackageNotFoundError as error:
        raise ImportError(f"URIEL's features are not installed: {_INSTALL}") from error
    if (digest := sha256([path])) != _FEATURES_SHA256:
        raise ValueError(f"{path} has digest {digest}, not {_FEATURES_SHA256}: {_INSTALL}")
    with np.load(path, allow_pickle=False) as arrays:
        syntactic = np.char.startswith(arrays["feats"], "S_")
        return dict(zip(arrays["langs"].tolist(), arrays["data"][:, syntactic, 0].astype(np.float64), strict=True))


def _matrix_row(path: Path, name: str, known: list[str]) -> dict[str, float]:
    """Reads a language's row of a symmetric matrix from a file that contains only its upper triangle."""
    index = known.index(name)
    try:
        with zipfile.ZipFile(path) as archive:
            upper = load_npz(io.BytesIO(archive.read(_MATRIX))).tocsr()  # refuses pickles
        above, right = upper[:index, [index]].toarray()[:, 0], upper[[index], index:].toarray()[0]
        return dict(zip(known, np.concatenate([above, right]).astype(np.float64).tolist(), strict=True))
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"{path} is not lang2vec's distances2.zip, as {_LANGUAGES} lists it: {error}") from error


def _uriel_names(codes: Sequence[str], known: Collection[str]) -> dict[str, str]:
    """The ISO 639-3 code under which URIEL has each language."""
    tried = {code: _iso_639_3(code) for code in codes}
    found = {code: next((name for name in tried[code] if name in known), "") for code in codes}
    if missing := [f"{code} ({', '.join(tried[code]) or 'no ISO 639-3 code'})" for code in codes if not found[code]]:
        raise ValueError(f"URIEL's list of {len(known)} languages lacks {', '.join(missing)}; omit these languages")
    return found


def _iso_639_3(code: str) -> list[str]:
    """A language's own ISO 639-3 code, then its members' codes if CLDR treats it as a macrolanguage."""
    subtag = code.split("-")[0]
    if subtag == "x":
        return []
    alpha3 = langcodes.Language.get(subtag, normalize=False).to_alpha3()
    return [alpha3, *sorted(part for part, macro in NORMALIZED_MACROLANGUAGES.items() if macro == subtag)]
