"""XNLI: does a premise entail a hypothesis, contradict it, or neither."""

from collections.abc import Sequence

import numpy as np

from lsar_jax.tokens.pair_tokens import tokenize_pairs
from train.finetune.conllu_ner_xnli import LABELS, SentencePair, read_inference
from train.finetune.examples import TaskExample, of_sentence
from train.finetune.heads import LINEAR
from train.finetune.task import ExampleOptions, Predictions, TransferTask, accuracy

__all__ = ["XNLI"]


def _examples(sentences: Sequence[SentencePair], options: ExampleOptions) -> list[TaskExample]:
    tokenizer, language, room, labels, _, last = options
    pairs = tokenize_pairs(tokenizer, [pair[:2] for pair in sentences], room + sum(tokenizer.specials), language)
    zero, true = np.zeros(1, np.int32), np.ones(1, bool)
    slots = [np.array([of_sentence(tokens.ids, tokenizer.specials, last)], np.int32) for tokens in pairs]
    known = [labels.index(pair.label) if pair.label in labels else -1 for pair in sentences]
    return [
        TaskExample(tokens.ids, tokens.second, slot, np.array([label], np.int32), zero, true, number, zero)
        for number, (label, slot, tokens) in enumerate(zip(known, slots, pairs, strict=True))
    ]


def _score(found: Predictions) -> dict[str, float]:
    predicted = [found.labels[int(row[0][0])] for row in found.outputs]
    return {"accuracy": accuracy([pair.label for pair in found.sentences], predicted)}


XNLI = TransferTask("xnli", "accuracy", read_inference, lambda sentences: LABELS, _examples, _score, LINEAR, 1e-4)
