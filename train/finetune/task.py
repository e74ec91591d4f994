"""A task of transfer: how its text is read and tokenized, what is trained on it, and how predictions are scored."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.corpora.tables import Data
from lsar_jax.languages import spaces_words
from lsar_jax.tokens.tokenizer import Tokenizer
from lsar_jax.tokens.word_tokens import tokenize_words
from train.finetune.examples import TaskExample, windows
from train.finetune.heads import TaskHead

__all__ = ["ExampleOptions", "Labels", "Predictions", "TransferTask", "accuracy", "tagging_examples"]

# The labels, in the order of the head's outputs.
Labels = tuple[str, ...]

# Longer than any sentence; what is longer than the model takes is cut into windows.
_ANY_LENGTH = 1 << 20


class ExampleOptions(NamedTuple):
    """How sentences of one language become examples.

    Attributes:
      tokenizer: the tokenizer of the encoder.
      language: code of the language.
      room: largest number of tokens of a sentence besides special tokens.
      labels: the labels.
      training: whether the examples are trained on, rather than tested.
      last: whether the last token of a word, or of a sentence, stands for it, as in a causal encoder.
    """

    tokenizer: Tokenizer
    language: str
    room: int
    labels: Labels
    training: bool = False
    last: bool = False


class Predictions(NamedTuple):
    """The outputs of a head for the examples of some sentences.

    Attributes:
      sentences: the sentences, with their true labels.
      examples: their examples.
      outputs: an entry for each example, as the head's ``predict`` returns it.
      labels: the labels, in the order of the head's outputs.
    """

    sentences: Sequence[Any]
    examples: Sequence[TaskExample]
    outputs: Sequence[tuple[Any, ...]]
    labels: Labels

    def tags(self) -> tuple[list[list[str]], list[list[str]]]:
        """Returns the right and the predicted tags of each sentence; words without tokens are left out."""
        right, predicted = ([list[str]() for _ in self.sentences] for _ in range(2))
        for example, row in zip(self.examples, self.outputs, strict=True):
            right[example.sentence] += [self.sentences[example.sentence].tags[word] for word in example.words]
            predicted[example.sentence] += [self.labels[int(label)] for label in row[0][: len(example.words)]]
        return right, predicted


class TransferTask(NamedTuple):
    """A task.

    Attributes:
      name: name of the task.
      metric: name of the score that chooses the best step.
      read: a file or a dataset, and train, dev or test of a dataset, to the sentences by language, which is empty if a
        file does not say it.
      labels: the sentences to train on to the labels.
      examples: sentences to tokenized examples.
      score: predictions to scores in percent, ``metric`` among them.
      head: the head that is trained on the encoder.
      rate_on_features: learning rate on a frozen encoder's features.
      head_on_features: the head that is trained on them, if not ``head``.
    """

    name: str
    metric: str
    read: Callable[[Data, str], dict[str, list[Any]]]
    labels: Callable[[Sequence[Any]], Labels]
    examples: Callable[[Sequence[Any], ExampleOptions], list[TaskExample]]
    score: Callable[[Predictions], dict[str, float]]
    head: TaskHead
    rate_on_features: float = 1e-3
    head_on_features: TaskHead | None = None


def tagging_examples(sentences: Sequence[Any], options: ExampleOptions) -> list[TaskExample]:
    """Tokenizes sentences whose words are tagged; long ones are cut into windows."""
    tokenizer, language, room, labels, _, last = options
    numbers = {label: number for number, label in enumerate(labels)}
    words = [sentence.words for sentence in sentences]
    tokenized = tokenize_words(tokenizer, words, _ANY_LENGTH, language, spaced=spaces_words(language), last=last)
    examples = []
    for number, (sentence, tokens) in enumerate(zip(sentences, tokenized, strict=True)):
        for ids, positions, new in windows(tokens, tokenizer.specials, room):
            tags = np.array([numbers.get(sentence.tags[word], -1) for word in new], np.int32)
            valid = np.ones(len(new), bool)
            examples.append(TaskExample(ids, len(ids), positions, tags, np.zeros_like(tags), valid, number, new))
    return examples


def accuracy(right: Iterable[str], predicted: Iterable[str]) -> float:
    """Returns the share of equal labels, in percent; 0 if there are none."""
    equal = [label == guess for label, guess in zip(right, predicted, strict=True)]
    return 100 * sum(equal) / max(len(equal), 1)
