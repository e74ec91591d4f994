"""Scores of predicted tags, labels and trees, in percent."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int

__all__ = ["NOT_SCORED", "accuracy", "attachment", "best_tree", "repaired", "span_f1", "spans"]

# Words with these parts of speech do not count in the attachment scores.
NOT_SCORED = ("PUNCT", "SYM")

# The type, the first word and the word after the last of a named entity.
Span = tuple[str, int, int]


def accuracy(right: Iterable[str], predicted: Iterable[str]) -> float:
    """Returns the share of equal labels."""
    equal = [label == guess for label, guess in zip(right, predicted, strict=True)]
    if not equal:
        raise ValueError("there are no labels to score")
    return 100 * sum(equal) / len(equal)


def repaired(tags: Sequence[str]) -> list[str]:
    """Returns the tags with ``B-`` in place of each ``I-`` that continues no entity of its type."""
    result: list[str] = []
    for tag in tags:
        continues = tag.startswith("I-") and result and result[-1] in (f"B-{tag[2:]}", tag)
        result.append(f"B-{tag[2:]}" if tag.startswith("I-") and not continues else tag)
    return result


def spans(tags: Sequence[str]) -> set[Span]:
    """Returns the named entities of a sentence; an ``I-`` that continues no entity of its type begins one."""
    found: set[Span] = set()
    start = 0
    fixed = [*repaired(tags), "O"]
    for at, tag in enumerate(fixed):
        if at and fixed[at - 1] != "O" and not tag.startswith("I-"):
            found.add((fixed[start][2:], start, at))
        if tag.startswith("B-"):
            start = at
    return found


def span_f1(right: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> float:
    """Returns the F1 of named entities over all sentences and types; 0 if there are none.

    An entity is found if its type, its first word and its last word are right.
    """
    counts = np.zeros(3, int)
    for tags, guesses in zip(right, predicted, strict=True):
        true, guessed = spans(tags), spans(guesses)
        counts += len(true), len(guessed), len(true & guessed)
    return 100 * 2 * counts[2] / counts[:2].sum() if counts[:2].sum() else 0.0


def attachment(
    heads: Sequence[int],
    relations: Sequence[str],
    tags: Sequence[str],
    predicted_heads: Sequence[int],
    predicted_relations: Sequence[str],
) -> tuple[int, int, int]:
    """Returns how many words of a sentence count, and of these, how many have the right head, and relation too.

    Words tagged as punctuation or symbols do not count.
    """
    counted = [word for word, tag in enumerate(tags) if tag not in NOT_SCORED]
    there = [word for word in counted if word < len(predicted_heads)]
    attached = [word for word in there if heads[word] == predicted_heads[word]]
    return len(counted), len(attached), sum(relations[word] == predicted_relations[word] for word in attached)


def best_tree(scores: Float[np.ndarray, "word word"]) -> Int[np.ndarray, " word"]:
    """Returns the head of each word in the maximum spanning tree (Chu and Liu, 1965; Edmonds, 1967).

    Several words may depend on the root, as in AllenNLP's parser, which the authors used.
    """
    import ufal.chu_liu_edmonds as decoder

    heads, _ = decoder.chu_liu_edmonds(np.asarray(scores, np.float64))
    return np.array(heads, np.int32)
