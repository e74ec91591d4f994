"""Made-up near misses: English sentences that differ from a given one in a number, a negation or a name.

Chen et al., "xSIM++: An Improved Proxy to Bitext Mining Performance for Low-Resource Languages", ACL 2023, add such
sentences to the candidates, so that a search that finds the topic alone fails. Theirs were made for FLORES with lists
and models; these are our own, by simple rules, so that error rates compare methods here, and not with the paper's.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import regex

__all__ = ["near_misses"]

_NUMBER = regex.compile(r"\d+")
_NAME = regex.compile(r"(?<=[a-z,;] )[A-Z][a-z]+\b")
_NUMBERS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_VERBS = "is|are|was|were|will|would|can|could|should|must|may|might|has|have|had|does|do|did"
_OPPOSITES = (
    "always never", "all no", "more less", "before after", "first last", "enable disable", "enabled disabled",
    "add remove", "added removed", "open close", "left right", "above below", "horizontal vertical", "with without",
    "increase decrease", "old new", "large small", "same different", "successfully unsuccessfully", "good bad",
)  # fmt: skip
_OTHER = {word: other for pair in map(str.split, _OPPOSITES) for word, other in (pair, pair[::-1])}
_SHORT = {"can't": "can", "cannot": "can", "won't": "will"}
_WORD = regex.compile(rf"\b(?:{'|'.join([*_SHORT, *_OTHER])}|{_NUMBERS}|(?:{_VERBS})(?:n't| not)?)\b", regex.IGNORECASE)


def near_misses(sentences: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Returns up to ``count`` near misses of each sentence, none of which is another of the sentences.

    Each changes one place: digits become as many others; the first auxiliary verb gets or loses ``not``; a word of a
    short list becomes its opposite, or another number; or a capitalised word within the sentence becomes one of another
    sentence. Sentences without such a place have none.

    Example:
      >>> from eval.scores.near_misses import near_misses
      >>> near_misses(["All lines are red."], 2)
      ['All lines are not red.', 'No lines are red.']
    """
    names = sorted({name for sentence in sentences for name in _NAME.findall(sentence)})
    given, found = set(sentences), dict[str, None]()
    for sentence in dict.fromkeys(sentences):
        draw = random.Random(f"{seed} {sentence}")
        changed = sorted({*_changed(sentence, names, draw)} - given - found.keys())
        found |= dict.fromkeys(draw.sample(changed, min(count, len(changed))))
    return list(found)


def _changed(sentence: str, names: Sequence[str], draw: random.Random) -> Iterator[str]:
    for place in _NUMBER.finditer(sentence):
        other = str(draw.randrange(10 ** len(place[0])))
        yield _put(sentence, place, other.zfill(len(place[0])))
    for place in _NAME.finditer(sentence):
        yield from (_put(sentence, place, other) for other in draw.sample(names, min(2, len(names))))
    negated = False
    for place in _WORD.finditer(sentence):
        low = place[0].lower()
        if low in _NUMBERS.split("|"):
            other = draw.choice(_NUMBERS.split("|"))
        elif low in _OTHER:
            other = _OTHER[low]
        elif negated:
            continue
        else:
            verb = _SHORT.get(low) or low.removesuffix("n't").removesuffix(" not")
            other, negated = f"{low} not" if verb == low else verb, True
        yield _put(sentence, place, other.capitalize() if place[0][0].isupper() else other)


def _put(sentence: str, place: Any, other: str) -> str:
    return sentence[: place.start()] + other + sentence[place.end() :]
