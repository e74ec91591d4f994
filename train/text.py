"""Which pairs of parallel text are trained on, and which choose the best epoch; none of them is tested on."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsar_jax.corpora.parallel_text import Pair, held_out, read_bitext, text_key
from lsar_jax.corpora.tables import Data, check_split

__all__ = ["TextOptions", "TrainingPairs", "text_hash"]

# Of each language the pairs to train on and those to validate on.
TrainingPairs = dict[str, tuple[list[Pair], list[Pair]]]


@dataclass(frozen=True)
class TextOptions:
    """Which parallel text to train on, and which of it to leave out.

    Attributes:
      data: parallel text with English: a folder of en-xx.tsv or Moses files, or one that
        lsar_jax.corpora.builders.prepare wrote; or hub:ID or tfds:NAME.
      languages: codes; by default all that there are.
      split: of data with a name, hub:ID or tfds:NAME; by default its only one or test.
      held_out: pairs of each language that are not trained on.
      split_seed: of the choice of these pairs.
      validation: share of the other pairs that the best epoch is chosen by.
    """

    data: Data = Path("data/bitext")
    languages: tuple[str, ...] = ()
    split: str = ""
    held_out: int = 500
    split_seed: int = 0
    validation: float = 0.05

    def check(self) -> None:
        """Raises ValueError if a number is out of range."""
        if self.held_out < 1:
            raise ValueError(f"--held-out is {self.held_out}; at least 1 is needed")
        if not 0 < self.validation < 1:
            raise ValueError(f"--validation is {self.validation}; it is a share between 0 and 1")

    def pairs(self) -> TrainingPairs:
        """Returns the pairs of each language that are not held out.

        A pair is left out if one of its sides is held out with any language, and it is not trained on if its English
        is validated on with any language. Texts that differ only in case, digits and punctuation count as the same.

        Raises:
          FileNotFoundError: the data do not exist.
          ValueError: a language has too few pairs.
        """
        check_split(self.data, self.split)
        splits = {}
        for code, pairs in sorted(read_bitext(self.data, self.languages, "--data", split=self.split).items()):
            try:
                splits[code] = held_out(pairs, self.held_out, self.split_seed)
            except ValueError as error:
                raise ValueError(f"{self.data}, {code}: {error}") from error
        tested = {text_key(text) for _, pairs in splits.values() for pair in pairs for text in pair}
        rest = {
            code: [pair for pair in pairs if not any(text_key(text) in tested for text in pair)]
            for code, (pairs, _) in splits.items()
        }
        counts = {code: round(self.validation * len(pairs)) for code, pairs in rest.items()}
        for code, count in counts.items():
            if not 0 < count < len(rest[code]):
                raise ValueError(
                    f"{self.data}, {code}: {len(rest[code])} pairs leave {count} to validate on with --validation "
                    f"{self.validation}; hold fewer out, or leave {code} out"
                )
        chosen_by = {text_key(english) for code, pairs in rest.items() for english, _ in pairs[: counts[code]]}
        return {
            code: ([pair for pair in pairs if text_key(pair[0]) not in chosen_by], pairs[: counts[code]])
            for code, pairs in rest.items()
        }


def text_hash(pairs: Mapping[str, tuple[Sequence[Pair], Sequence[Pair]]]) -> str:
    """Returns a hash that tells these pairs, in this order, from others."""
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
