"""The BUCC mining task: two collections of sentences, and the pairs that are translations.

The files of the shared task are ``de-en.sample.de``, ``de-en.sample.en``, ``de-en.sample.gold`` and the same for
``de-en.training``, in one folder or in one folder per pair (``de-en/``). Lines are ``id<tab>sentence``, or
``id<tab>id`` in the gold files. XTREME's names of the splits, ``dev`` and ``test``, also work. The licences of the
corpus forbid including a copy here: download it from comparable.limsi.fr/bucc2018, or create files in the same format
with ``make-bucc``.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from lsar_jax.corpora import builders
from lsar_jax.corpora.by_language import folder_at
from lsar_jax.corpora.tables import Data, folder_of

__all__ = ["NOT_ON_HUB", "MiningSplit", "read_split"]

NOT_ON_HUB = "BUCC on the Hub has no sample split to tune on; use its gold pairs with python -m eval bitext --data"
_SOURCE = "get it from comparable.limsi.fr/bucc2018, or create files in its format with python -m eval make-bucc"


class MiningSplit(NamedTuple):
    """The ids of two collections of distinct sentences, None of one that occurs repeatedly, and pairs of them.

    Attributes:
      other: ids by sentence.
      english: ids by sentence.
      gold: pairs of ids of translations, with the English id second.
    """

    other: dict[str, str | None]
    english: dict[str, str | None]
    gold: set[tuple[str, str]]


def read_split(data: Data, code: str, split: str) -> MiningSplit:
    """Reads one split of a language paired with English, from BUCC's files or a prepared dataset."""
    folder, pair = folder_at(folder_of(data, NOT_ON_HUB), _SOURCE), f"{code}-en"
    if pair not in (known := builders.Bucc.known(folder)):
        raise FileNotFoundError(f"{folder} has no {pair}; it has {', '.join(known)}; {_SOURCE}")
    read = builders.Bucc.load(folder, pair, split)
    return MiningSplit(_ids(read.other), _ids(read.english), set(read.gold))


def _ids(sentences: Mapping[str, str]) -> dict[str, str | None]:
    counts = Counter(sentences.values())
    return {text: name if counts[text] == 1 else None for name, text in sentences.items()}
