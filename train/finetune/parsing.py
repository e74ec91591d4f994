"""Dependency parses of Universal Dependencies; the tags say which words are punctuation, which is not scored."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from lsar_jax.languages import spaces_words
from lsar_jax.tokens.word_tokens import tokenize_words
from train.finetune.conllu_ner_xnli import ParsedSentence, read_parsed
from train.finetune.examples import TaskExample, of_sentence
from train.finetune.heads import BIAFFINE
from train.finetune.task import ExampleOptions, Labels, Predictions, TransferTask

__all__ = ["PARSING", "attachment", "best_tree"]


def _labels(sentences: Sequence[ParsedSentence]) -> Labels:
    return tuple(sorted({relation for sentence in sentences for relation in sentence.relations}))


def _examples(sentences: Sequence[ParsedSentence], options: ExampleOptions) -> list[TaskExample]:
    tokenizer, language, room, labels, training, last = options
    numbers = {label: number for number, label in enumerate(labels)}
    # To test, as many words as there may be tokens in training, if the model takes their tokens.
    most = room + sum(tokenizer.specials) if training else tokenizer.max_length
    words = [sentence.words if training else sentence.words[:room] for sentence in sentences]
    tokenized = tokenize_words(tokenizer, words, most, language, spaced=spaces_words(language), last=last)
    examples = []
    for number, (sentence, tokens) in enumerate(zip(sentences, tokenized, strict=True)):
        # A word without tokens stands where the word before it does, and does not count; those at the end were cut off.
        count = 1 + max(np.flatnonzero(tokens.starts >= 0), default=-1)
        positions = np.maximum.accumulate(np.concatenate([[0], tokens.stands[:count]])).astype(np.int32)
        positions[0] = of_sentence(tokens.ids, tokenizer.specials, last)
        heads = np.array([0, *sentence.heads[:count]], np.int32)
        relations = np.array([-1, *(numbers.get(name, -1) for name in sentence.relations[:count])], np.int32)
        slots = np.append(-1, np.where(tokens.starts[:count] < 0, -1, np.arange(count))).astype(np.int32)
        counted = (heads <= count) & (slots >= 0)
        heads = np.where(counted, heads, 0)
        examples.append(TaskExample(tokens.ids, len(tokens.ids), positions, relations, heads, counted, number, slots))
    return examples


def _score(found: Predictions) -> dict[str, float]:
    total = np.zeros(3, int)
    for example, (scores, best) in zip(found.examples, found.outputs, strict=True):
        sentence, count = found.sentences[example.sentence], len(example.positions)
        # As in the authors' code, the best tree is that of the sum of probabilities, not of their logarithms.
        heads = best_tree(np.exp(np.asarray(scores, np.float64)[:count, :count])).tolist()
        labels = [found.labels[int(best[slot, head])] for slot, head in enumerate(heads)]
        arcs = zip(example.words.tolist(), heads, labels, strict=True)
        total += attachment(sentence, {word: (head, label) for word, head, label in arcs if word >= 0})
    return {"LAS": 100 * total[2] / max(total[0], 1), "UAS": 100 * total[1] / max(total[0], 1)}


def attachment(right: ParsedSentence, arcs: Mapping[int, tuple[int, str]]) -> tuple[int, int, int]:
    """Returns how many words count, how many of them have the right head, and how many the right relation too.

    Punctuation and symbols do not count. ``arcs`` has the predicted head and relation of each word that may count.
    """
    pairs = [
        ((right.heads[word], right.relations[word]), arc)
        for word, arc in arcs.items()
        if right.tags[word] not in ("PUNCT", "SYM")
    ]
    return len(pairs), sum(one[0] == other[0] for one, other in pairs), sum(one == other for one, other in pairs)


def best_tree(scores: Float[np.ndarray, "word word"]) -> Int[np.ndarray, " word"]:
    """Returns the head of each word in the maximum spanning tree (Chu and Liu, 1965; Edmonds, 1967).

    Heads are on the last axis, and position 0 is the root, whose own head is -1. Several words may depend on it, as in
    AllenNLP's parser, which the authors used.
    """
    import ufal.chu_liu_edmonds as decoder

    heads, _ = decoder.chu_liu_edmonds(np.asarray(scores, np.float64))
    return np.array(heads, np.int32)


PARSING = TransferTask("parsing", "LAS", read_parsed, _labels, _examples, _score, BIAFFINE)
