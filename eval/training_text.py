"""Which pairs of parallel text are trained on, which choose the best epoch, and that none of them is tested on."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from eval.named import Data, check_split
from eval.parallel_text import Pair, held_out, read_bitext, text_key

__all__ = ["TrainingPairs", "text_hash", "training_pairs"]

# Of each language the pairs to train on and those to validate on.
TrainingPairs = dict[str, tuple[list[Pair], list[Pair]]]


def training_pairs(
    data: Data, languages: Sequence[str], split: str, held: int, split_seed: int, validation: float
) -> TrainingPairs:
    """Returns the pairs of each language that are not held out.

    A pair is left out if one of its sides is held out with any language, and is not trained on if its English is
    validated on with any: but for case, digits and punctuation.

    Args:
      data: parallel text, as ``read_bitext`` takes it.
      languages: codes; by default all that there are.
      split: of data with a name.
      held: pairs of each language that are held out, as ``held_out`` chooses them.
      split_seed: of that choice.
      validation: share of the others that is validated on.

    Raises:
      FileNotFoundError: no such data.
      ValueError: a language has too few pairs.
    """
    check_split(data, split)
    every = read_bitext(data, languages, "--data", split=split)
    splits = {}
    for code, pairs in sorted(every.items()):
        try:
            splits[code] = held_out(pairs, held, split_seed)
        except ValueError as error:
            raise ValueError(f"{data}, {code}: {error}") from error
    tested = {text_key(text) for _, pairs in splits.values() for pair in pairs for text in pair}
    rest = {
        code: [pair for pair in pairs if not any(text_key(text) in tested for text in pair)]
        for code, (pairs, _) in splits.items()
    }
    counts = {code: round(validation * len(pairs)) for code, pairs in rest.items()}
    for code, count in counts.items():
        if not 0 < count < len(rest[code]):
            raise ValueError(
                f"{data}, {code}: {len(rest[code])} pairs leave {count} to validate on with --validation "
                f"{validation}; hold fewer out, or leave {code} out"
            )
    chosen_by = {text_key(english) for code, pairs in rest.items() for english, _ in pairs[: counts[code]]}
    return {
        code: ([pair for pair in pairs if text_key(pair[0]) not in chosen_by], pairs[: counts[code]])
        for code, pairs in rest.items()
    }


def text_hash(pairs: Mapping[str, tuple[Sequence[Pair], Sequence[Pair]]]) -> str:
    """Returns what tells the same pairs in the same order again."""
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
