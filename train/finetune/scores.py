"""Scores of predicted tags, labels and trees, in percent."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int

from train.finetune.conllu_ner_xnli import ParsedSentence

__all__ = ["accuracy", "attachment", "best_tree", "span_f1", "spans"]

# The type, the first word and the word after the last of a named entity.
Span = tuple[str, int, int]


def accuracy(right: Iterable[str], predicted: Iterable[str]) -> float:
    """Returns the share of equal labels."""
    equal = [label == guess for label, guess in zip(right, predicted, strict=True)]
    return 100 * sum(equal) / len(equal)


def spans(tags: Sequence[str]) -> set[Span]:
    """Returns the named entities of a sentence; an ``I-`` that continues no entity of its type begins one."""
    found: set[Span] = set()
    start = 0
    for at, tag in enumerate([*tags, "O"]):
        kind = tags[at - 1][2:] if at else ""
        if kind and tag != f"I-{kind}":
            found.add((kind, start, at))
        if tag.startswith("B-") or (tag.startswith("I-") and tag[2:] != kind):
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


def attachment(right: ParsedSentence, heads: Sequence[int], relations: Sequence[str]) -> tuple[int, int, int]:
    """Returns how many words count, how many of them have the right head, and how many the right relation too.

    Punctuation and symbols do not count; words beyond the number of predicted heads are wrong.
    """
    counted = [word for word, tag in enumerate(right.tags) if tag not in ("PUNCT", "SYM")]
    attached = [word for word in counted if word < len(heads) and right.heads[word] == heads[word]]
    return len(counted), len(attached), sum(right.relations[word] == relations[word] for word in attached)


def best_tree(scores: Float[np.ndarray, "word word"]) -> Int[np.ndarray, " word"]:
    """Returns the head of each word in the maximum spanning tree (Chu and Liu, 1965; Edmonds, 1967).

    Heads are on the last axis, and position 0 is the root, whose own head is -1. Several words may depend on it, as in
    AllenNLP's parser, which the authors used.
    """
    import ufal.chu_liu_edmonds as decoder

    heads, _ = decoder.chu_liu_edmonds(np.asarray(scores, np.float64))
    return np.array(heads, np.int32)
