"""Does the similarity of language means follow syntax? Distances of all kinds from URIEL, and correlations with them.

Xie et al. 2022 compare each language with English in two ways, and correlate the two over languages: the cosine between
the mean embeddings of the two languages, and their similarity in URIEL (Littell et al., EACL 2017), which is
1 - distance; of all kinds, syntax correlates most there. There are two measures of distance, which disagree and are
reported under separate names:

- *precomputed*: the distances that lang2vec's ``distance`` function reads from ``distances2.zip`` and
  ``distances_languages.txt`` in ``lang2vec/data`` of github.com/antonisa/lang2vec; they are not on PyPI. Of syntax and
  every other kind in the file, such as ``inventory_upper_round2_sparse.npz``.
- *cosine*: the cosine distance between the two languages' features in the wheel ``lang2vec==1.1.2``, with gaps filled
  from nearest neighbours: 103 of syntax, 28 of phonology and 158 of the inventory of sounds. In syntax it is 0.188 from
  English to French; lang2vec's documentation gives 0.4569.
"""

import io
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import langcodes
import numpy as np
from jaxtyping import Float
from langcodes.data_dicts import NORMALIZED_MACROLANGUAGES
from scipy.sparse import load_npz
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr

from lsar_jax.checks import errors_of
from lsar_jax.files import check_file, sha256
from lsar_jax.languages import language_code

__all__ = ["Signals", "english_cosines", "uriel_correlation", "uriel_distances"]

# Kind, syntax first -> the distance of each language from English, 0 to 1, and the name of the measure.
Signals = Mapping[str, tuple[Mapping[str, float], str]]

# The kinds in the wheel, and what their features begin with; and those that have another name in the distances.
_KINDS = {"syntax": "S_", "phonology": "P_", "inventory": "INV_"}
_RENAMED = {"syntactic": "syntax", "phonological": "phonology"}
_INSTALL = "pip install lang2vec==1.1.2 --no-deps"
_FEATURES = "lang2vec/data/feature_predictions.npz"
_FEATURES_SHA256 = "sha256:0e8af1bdb29e1bd71343d495d4fd4e1cd523e934e6d5fa42b72262ca8d8151b8"
_MATRIX = "syntactic_upper_round2_sparse.npz"
_LANGUAGES = "distances_languages.txt"

# After LSAR at rank L - 1, the language means of the text that it was fitted on have cosines within 4e-7 of 1 in
# float32. On other text the cosines spread by 3e-3 (UDHR, bundled encoder, layer 8).
_LEAST_SPREAD = 1e-5


def uriel_distances(languages: Iterable[str], *, precomputed: Path | None) -> Signals:
    """Returns the distance of each language from English, 0 to 1, and the name of the measure, by kind of signal.

    Languages are looked up by ISO 639-3 code. A macrolanguage (``zho``, ``ara``) is tried before its main member
    (``cmn``, ``arb``), for which URIEL never has more features. The distances are ``precomputed`` if they are read from
    ``distances2.zip`` with ``distances_languages.txt`` beside it.
    """
    codes = sorted({language_code(code) for code in languages} - {"en"})
    signals = {}
    if precomputed is None:
        known, kinds = _features()
        names = _uriel_names(["en", *codes], known)
        rows = [known.index(names[code]) for code in ("en", *codes)]
        for kind, features in kinds.items():
            near = cdist(features[rows[:1]], features[rows[1:]], "cosine")[0]
            signals[kind] = dict(zip(codes, near.tolist(), strict=True)), f"cosine of {kind}_knn, lang2vec 1.1.2"
        return signals
    listed = precomputed.with_name(_LANGUAGES)
    for file in (precomputed, listed):
        check_file(file)
    known = listed.read_text(encoding="utf-8-sig", errors="replace").strip().split(",")
    names = _uriel_names(["en", *codes], known)
    for member, row in _matrix_rows(precomputed, names["en"], known).items():
        # The matrices are sparse: a missing pair reads as 0, which only syntax must not have.
        found = {code: row[names[code]] for code in codes if row[names[code]] != 0 or member == _MATRIX}
        if wrong := [f"{code} {value}" for code, value in found.items() if not 0 < value <= 1]:
            raise ValueError(f"{precomputed}: {member} from English must be in (0, 1]; got {', '.join(wrong)}")
        kind = member.split("_upper")[0]
        signals[_RENAMED.get(kind, kind)] = found, f"precomputed {kind} distances of URIEL"
    return signals


def english_cosines(vectors: Mapping[str, Float[np.ndarray, " dim"]]) -> dict[str, float]:
    """The cosine of each language's vector and English's."""
    units = {code: vector / (np.linalg.norm(vector) or 1.0) for code, vector in vectors.items()}
    return {code: float(unit @ units["en"]) for code, unit in units.items() if code != "en"}


def uriel_correlation(
    likeness: Mapping[str, float], distances: Mapping[str, float]
) -> tuple[float, dict[str, tuple[float, float]]]:
    """Correlates the likeness to English, such as a cosine, and the similarity to English over languages.

    Returns Pearson's r, and by language its similarity and its likeness.
    """
    codes = sorted(likeness.keys() & distances.keys())
    points = {code: (1 - distances[code], likeness[code]) for code in codes}
    near, like = np.array(list(points.values())).reshape(-1, 2).T
    spreads = [float(np.ptp(values)) if len(codes) > 2 else 0.0 for values in (near, like)]
    if spreads[0] == 0 or spreads[1] < _LEAST_SPREAD:
        raise ValueError(
            f"a correlation needs at least 3 languages that differ; the distances of {', '.join(codes) or 'none'} have "
            f"a range of {spreads[0]:.6g} and the similarities of {spreads[1]:.1e}, of which {_LEAST_SPREAD} may be "
            "rounding, as after LSAR at rank L - 1 on its own text; use other text, or a lower rank"
        )
    return float(pearsonr(like, near).statistic), points


def _features() -> tuple[list[str], dict[str, Float[np.ndarray, "language feature"]]]:
    """Reads ISO 639-3 codes, and features by kind, without importing lang2vec, which needs pkg_resources."""
    try:
        path = Path(str(metadata.distribution("lang2vec").locate_file(_FEATURES)))
    except metadata.PackageNotFoundError as error:
        raise ImportError(f"URIEL's features are not installed: {_INSTALL}") from error
    if (digest := sha256([path])) != _FEATURES_SHA256:
        raise ValueError(f"{path} has digest {digest}, not {_FEATURES_SHA256}: {_INSTALL}")
    with np.load(path, allow_pickle=False) as arrays:
        feats, data = arrays["feats"], arrays["data"][:, :, 0].astype(np.float64)
        kinds = {kind: data[:, np.char.startswith(feats, start)] for kind, start in _KINDS.items()}
        return arrays["langs"].tolist(), kinds


def _matrix_rows(path: Path, name: str, known: list[str]) -> dict[str, dict[str, float]]:
    """Reads a language's row of each symmetric matrix in a file that contains only their upper triangles."""
    index, rows = known.index(name), {}
    why = f"{path} is not lang2vec's distances2.zip, as {_LANGUAGES} lists it"
    with errors_of(why, Exception), zipfile.ZipFile(path) as archive:  # a damaged file may raise anything
        for member in dict.fromkeys([_MATRIX, *(m for m in archive.namelist() if m.endswith("_sparse.npz"))]):
            upper = load_npz(io.BytesIO(archive.read(member))).tocsr()  # refuses pickles
            above, right = upper[:index, [index]].toarray()[:, 0], upper[[index], index:].toarray()[0]
            rows[member] = dict(zip(known, np.append(above, right).astype(float).tolist(), strict=True))
    return rows


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
