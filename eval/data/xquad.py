"""XQuAD-R: questions and candidate sentences in eleven languages, from its files or as prepared.

``lsar_jax.corpora.builders.XquadR`` says what is in the files, and which sentence answers a question.
"""

from collections.abc import Sequence

from lsar_jax.corpora.builders import XquadR
from lsar_jax.corpora.builders.xquad_r import Questions
from lsar_jax.corpora.tables import Data, folder_of
from lsar_jax.languages import language_code

__all__ = ["XQUAD_R", "Questions", "question_languages", "read_xquad"]

_NOT_ON_HUB = "the Hub's XQuAD-R lacks the sentence breaks; copy xquad-r of google-research-datasets/lareqa"
_SOURCE = (
    "copy the folder xquad-r of github.com/google-research-datasets/lareqa there, or for MLQA-R mlqa-r of its commit "
    "354d67d1cd066854cdfbf5ad0e6105528976141d"
)
XQUAD_R = ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh")


def question_languages(data: Data, languages: Sequence[str] = ()) -> list[str]:
    """Returns the languages that there are, or those of ``languages``, in alphabetical order.

    Args:
      data: a folder of files, or one that ``lsar_jax.corpora.builders.prepare`` wrote, or ``tfds:NAME`` of that.
      languages: codes.

    Raises:
      FileNotFoundError: no such folder, or none of a language.
      ValueError: data of the Hub.
    """
    folder = folder_of(data, _NOT_ON_HUB)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; {_SOURCE}, or say --data")
    try:
        there = XquadR.known(folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {_SOURCE}, or say --data") from error
    wanted = {language_code(code) for code in languages} or set(there)
    if missing := sorted(wanted - set(there)):
        raise FileNotFoundError(f"{folder} has no file of {', '.join(missing)}; it has {', '.join(there)}; {_SOURCE}")
    return sorted(wanted)


def read_xquad(data: Data, languages: Sequence[str] = XQUAD_R) -> dict[str, Questions]:
    """Reads each language's questions and candidates.

    Args:
      data: as of ``question_languages``.
      languages: codes; all that there are where it is empty.

    Raises:
      FileNotFoundError: no such folder or file.
      ValueError: a file that is not of that form, or an answer in no sentence.
    """
    folder = folder_of(data, _NOT_ON_HUB)
    return {code: XquadR.load(folder, code, "test") for code in question_languages(folder, languages)}
