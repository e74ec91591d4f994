"""BUCC's mining task: two collections of sentences, and the pairs that translate each other.

Files: the shared task's, ``de-en.sample.de``, ``.en`` and ``.gold`` and ``de-en.training.*``, in one folder or in one
a pair (``de-en/``); lines are ``id<tab>sentence`` and ``id<tab>id``. XTREME's names, ``dev`` and ``test``, are read
too. The licences of the corpus forbid a copy here: comparable.limsi.fr/bucc2018 has it, and ``make-bucc`` makes files
of its form.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from lsar_jax.corpora.builders import Bucc as BuccFiles
from lsar_jax.corpora.builders import Comparable
from lsar_jax.corpora.tables import Data, folder_of

__all__ = ["Collection", "MiningSplit", "read_split"]

_NOT_ON_HUB = "BUCC of the Hub has no sample split to tune on; its gold pairs are a bitext: eval bitext --data"
_SOURCE = "get it from comparable.limsi.fr/bucc2018, or make files of its form with python -m eval make-bucc"


class Collection(NamedTuple):
    """One collection: distinct sentences, and the id of each; None for what the file holds twice."""

    sentences: list[str]
    ids: list[str | None]


class MiningSplit(NamedTuple):
    """Two collections and the pairs of ids that translate each other."""

    other: Collection
    english: Collection
    gold: set[tuple[str, str]]


def read_split(data: Data, code: str, split: str) -> MiningSplit:
    """Reads one split of a language and English, from BUCC's files or as prepared.

    Args:
      data: the folder of the files, of one folder a pair, or that ``prepare`` wrote; or ``tfds:NAME``.
      code: of the language.
      split: ``sample`` or ``training``.

    Raises:
      FileNotFoundError: no such folder or file.
      ValueError: a line that is not an id and a sentence, an id that comes twice, or gold of an id that is
        not there; file and line are named.
    """
    folder = folder_of(data, _NOT_ON_HUB)
    try:
        known = BuccFiles.known(folder)
        if f"{code}-en" not in known:
            raise FileNotFoundError(f"{folder} has {', '.join(known)}, but no {code}-en")
        read: Comparable = BuccFiles.load(folder, f"{code}-en", split)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {_SOURCE}") from error
    return MiningSplit(_collection(read.other), _collection(read.english), set(read.gold))


def _collection(sentences: Mapping[str, str]) -> Collection:
    """Returns the distinct sentences, and the ids of those that there are once."""
    counts = Counter(sentences.values())
    names = {text: name for name, text in sentences.items()}
    return Collection(list(names), [name if counts[text] == 1 else None for text, name in names.items()])
