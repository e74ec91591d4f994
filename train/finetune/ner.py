"""Named entities, as in WikiAnn and Universal NER; on features they are decoded by a conditional random field."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from train.finetune.conllu_ner_xnli import TaggedSentence, read_tagged
from train.finetune.heads import CRF, LINEAR
from train.finetune.task import Labels, Predictions, TransferTask, tagging_examples
from train.word_pairs.word_splitter import word_splitter

__all__ = ["NER", "chinese_words", "span_f1", "spans"]

# The type, the first word and the word after the last of a named entity.
Span = tuple[str, int, int]


def _labels(sentences: Sequence[TaggedSentence]) -> Labels:
    kinds = sorted({tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"})
    return ("O", *(f"{part}-{kind}" for kind in kinds for part in "BI"))


def _score(found: Predictions) -> dict[str, float]:
    return {"F1": span_f1(*found.tags())}


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
    """Returns the F1 of named entities over all sentences and types, in percent; 0 if there are none.

    An entity is found if its type, its first word and its last word are right.
    """
    counts = np.zeros(3, int)
    for tags, guesses in zip(right, predicted, strict=True):
        true, guessed = spans(tags), spans(guesses)
        counts += len(true), len(guessed), len(true & guessed)
    return 100 * 2 * counts[2] / counts[:2].sum() if counts[:2].sum() else 0.0


def chinese_words(sentences: Sequence[TaggedSentence]) -> list[TaggedSentence]:
    """Joins the characters of Chinese sentences to words, which end where an entity begins or ends.

    Wu and Dredze (EMNLP 2020) test on words too; by which segmenter, and what they do where a word and an entity
    overlap, is not in their code. Here every entity stays, and a word has the tag of its first character.
    """
    split, result = word_splitter("zh"), []
    for sentence in sentences:
        # Without what the splitter drops, so that positions are those in the text: spaces, and bars that separate.
        texts = ["".join(word.split()).replace("|", "/") for word in sentence.words]
        starts = {0, *accumulate(map(len, split("".join(texts))))}
        words: list[str] = []
        tags: list[str] = []
        position, before = 0, ""
        for text, word, tag in zip(texts, *sentence, strict=True):
            inside = tag == before or tag == f"I-{before[2:]}"
            if words and position not in starts and inside and not tag.startswith("B"):
                words[-1] += word
            else:
                words.append(word)
                tags.append(tag)
            position, before = position + len(text), tag
        result.append(TaggedSentence(tuple(words), tuple(tags)))
    return result


NER = TransferTask("ner", "F1", read_tagged, _labels, tagging_examples, _score, LINEAR, 1e-4, head_on_features=CRF)
