"""XNLI: does a premise entail a hypothesis, contradict it, or neither."""

from collections.abc import Sequence

import numpy as np

from lsar_jax.tokens.pair_tokens import tokenize_pairs
from lsar_jax.tokens.tokenizer import Tokenizer
from train.finetune.conllu_ner_xnli import LABELS, SentencePair, read_inference
from train.finetune.examples import TaskExample, of_sentence
from train.finetune.heads import LINEAR
from train.finetune.scores import accuracy
from train.finetune.task import Labels, Predicted, TransferTask

__all__ = ["XNLI"]


def _examples(
    tokenizer: Tokenizer, sentences: Sequence[SentencePair], language: str, room: int, labels: Labels, training: bool,
    last: bool,
) -> list[TaskExample]:  # fmt: skip
    pairs = tokenize_pairs(tokenizer, [pair[:2] for pair in sentences], room + sum(tokenizer.specials), language)
    zero, true = np.zeros(1, np.int32), np.ones(1, bool)
    slots = [np.array([of_sentence(tokens.ids, tokenizer.specials, last)], np.int32) for tokens in pairs]
    known = [labels.index(pair.label) if pair.label in labels else -1 for pair in sentences]
    return [
        TaskExample(tokens.ids, tokens.second, slot, np.array([label], np.int32), zero, true, number, zero)
        for number, (label, slot, tokens) in enumerate(zip(known, slots, pairs, strict=True))
    ]


def _score(
    sentences: Sequence[SentencePair], examples: Sequence[TaskExample], predicted: Predicted, labels: Labels
) -> dict[str, float]:
    return {"accuracy": accuracy([pair.label for pair in sentences], [labels[int(row[0][0])] for row in predicted])}


XNLI = TransferTask("xnli", "accuracy", read_inference, lambda sentences: LABELS, _examples, _score, LINEAR, 1e-4)
