"""Splits parallel text into pairs for training, validation and testing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from lsar_jax.checks import above_zero, at_least, below_one, check_option, errors_of
from lsar_jax.corpora.parallel_text import Pair, distinct, held_out, read_bitext, shuffled
from lsar_jax.corpora.tables import Data, pin
from lsar_jax.corpora.text_rules import text_key
from lsar_jax.files import text_sha256
from lsar_jax.languages import canonical_keys, language_code

__all__ = ["TextOptions", "TrainingPairs", "text_hash"]

# Language -> training pairs and validation pairs.
TrainingPairs = dict[str, tuple[list[Pair], list[Pair]]]


@dataclass(frozen=True)
class TextOptions:
    """Which parallel text to train on, and how much of it to hold out.

    Attributes:
      data: parallel text of English and other languages: a folder of en-xx.tsv or Moses files, a folder that
        lsar_jax.corpora.builders.prepare wrote, hub:ID or tfds:NAME.
      more: further parallel text, given as in --data.
      languages: language codes; by default, all available.
      split: split of a named dataset, hub:ID or tfds:NAME; by default, its only split, or else test.
      sample: number of pairs per language to draw at random from each text, before all else; by default, all.
      held_out: number of pairs per language to hold out for testing; below 1, the share of each language's pairs.
      columns: names of the columns of tables, such as domain en de: source and target, or codes, are the pair; by
        default, found out.
      split_seed: seed that chooses the sample and the held-out pairs.
      validation: share of the remaining pairs used for validation, which chooses the best epoch; with 0, the held-out
        pairs are, as in ORACLE's code, so that they are no longer unseen.
      share: share of the pairs left for training to train on; a smaller share is part of a larger one.
    """

    data: Data = Path("data/bitext")
    more: tuple[Data, ...] = ()
    languages: tuple[str, ...] = ()
    split: str = ""
    sample: int | None = None
    columns: tuple[str, ...] = ()
    held_out: int | float = 500
    split_seed: int = 0
    validation: float = 0.05
    share: float = 1.0

    def check(self) -> None:
        """Raises ValueError if a number is out of range."""
        at_least(1, sample=self.sample)
        above_zero(held_out=self.held_out, share=self.share)
        below_one(validation=self.validation)
        check_option(self.share <= 1, "at most 1", share=self.share)

    def pinned(self) -> Self:
        """Returns the options with Hub datasets pinned to their current commits."""
        return replace(self, data=pin(self.data), more=tuple(map(pin, self.more)))

    def pairs(self) -> TrainingPairs:
        """Returns the training and validation pairs of each language.

        A pair is dropped if either side is held out in any language, and is not trained on if its English side is used
        for validation in any language; case, digits and punctuation do not count. Pairs are held out of each text by
        itself, so that they are the same ones whatever other text there is.
        """
        pairs: dict[str, list[Pair]] = {}
        tests: dict[str, list[Pair]] = {}
        for data, split in ((self.data, self.split), *((data, "") for data in self.more)):
            languages = () if self.more else self.languages
            found = read_bitext(data, languages, "--data", split, self.sample, self.split_seed, self.columns)
            for code in canonical_keys(dict.fromkeys(self.languages or found)):
                if code not in found:
                    continue
                with errors_of(f"{data}, {code}"):
                    others, test = held_out(found[code], self.held_out, self.split_seed)
                pairs.setdefault(code, []).extend(others)
                tests.setdefault(code, []).extend(test)
        if absent := sorted({language_code(code) for code in self.languages} - set(pairs)):
            texts = ", ".join(map(str, (self.data, *self.more)))
            raise FileNotFoundError(f"{texts} have no text in {', '.join(absent)}")
        tested = {text_key(text) for test in tests.values() for pair in test for text in pair}
        split_pairs: TrainingPairs = {}
        for code in sorted(pairs):
            ordered = shuffled(distinct(pairs[code]), self.split_seed)
            untested = [pair for pair in ordered if not any(text_key(text) in tested for text in pair)]
            count = round(self.validation * len(untested))
            split_pairs[code] = untested[count:], untested[:count] if self.validation else tests[code]
        validated = {text_key(english) for _, validation in split_pairs.values() for english, _ in validation}
        # Pairs are in the order of a hash, so that the first ones are a random sample.
        return {
            code: self.of_language(
                f"{self.data}, {code}", [pair for pair in train if text_key(pair[0]) not in validated], validation
            )
            for code, (train, validation) in split_pairs.items()
        }

    def of_language(self, where: str, train: Sequence[Pair], validation: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        """Returns the share of the training pairs, in their order, and those for validation, of which none may be 0."""
        if not train or not validation:
            raise ValueError(
                f"{where}: {len(train)} pairs are left to train on and {len(validation)} to validate on; lower "
                "--held-out, change --validation, or omit the language"
            )
        return list(train[: max(1, round(self.share * len(train)))]), validation


def text_hash(pairs: Mapping[str, tuple[Sequence[Pair], Sequence[Pair]]]) -> str:
    """Returns a hash that identifies these pairs in this order."""
    return text_sha256(json.dumps(pairs))
