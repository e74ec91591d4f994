"""Universal parts of speech of Universal Dependencies."""

from collections.abc import Sequence
from itertools import chain

from lsar_jax.corpora.labelled import ParsedSentence, read_parsed
from train.finetune.examples import Example
from train.finetune.heads import LINEAR
from train.finetune.scores import accuracy
from train.finetune.task import Labels, Predicted, Task, predicted_tags, tagging_examples

__all__ = ["POS"]

# The universal parts of speech, and the one of words that have none.
_UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X", "_",
)  # fmt: skip


def _score(
    sentences: Sequence[ParsedSentence], examples: Sequence[Example], predicted: Predicted, labels: Labels
) -> dict[str, float]:
    tags = predicted_tags(sentences, examples, predicted, labels, "")
    right = chain.from_iterable(sentence.tags for sentence in sentences)
    return {"accuracy": accuracy(right, chain.from_iterable(tags))}


POS = Task("pos", "accuracy", read_parsed, lambda sentences: _UPOS, tagging_examples, _score, LINEAR)
