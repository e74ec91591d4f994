"""XQuAD-R: questions and candidate sentences in eleven languages, from its files or a prepared dataset.

``lsar_jax.corpora.builders.XquadR`` documents the files, and how a question's answer sentence is found.
"""

from collections.abc import Sequence

from lsar_jax.corpora.builders import Questions, XquadR
from lsar_jax.corpora.tables import Data, folder_of
from lsar_jax.languages import language_code

__all__ = ["NOT_ON_HUB", "XQUAD_R", "Questions", "read_xquad"]

NOT_ON_HUB = (
    "XQuAD-R on the Hub lacks sentence breaks; copy xquad-r of github.com/google-research-datasets/lareqa, and give "
    "the folder"
)
_SOURCE = (
    "copy the folder xquad-r of github.com/google-research-datasets/lareqa there (for MLQA-R, the folder mlqa-r at "
    "commit 354d67d1cd066854cdfbf5ad0e6105528976141d)"
)
XQUAD_R = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")


def read_xquad(data: Data, languages: Sequence[str] = ()) -> dict[str, Questions]:
    """Reads the questions and candidates of each language, by default of all, in alphabetical order of the codes."""
    folder = folder_of(data, NOT_ON_HUB)
    try:
        known = XquadR.known(folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {_SOURCE}, or set --data") from error
    codes = sorted({language_code(code) for code in languages} or known)
    if missing := [code for code in codes if code not in known]:
        raise FileNotFoundError(f"{folder} has no file for {', '.join(missing)}; it has {', '.join(known)}; {_SOURCE}")
    return {code: XquadR.load(folder, code, "test") for code in codes}
