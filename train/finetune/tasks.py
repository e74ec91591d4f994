"""The tasks of Wu and Dredze (EMNLP 2020): what their examples are, what is trained on them, and how they are scored.

Every task scores the slots of an example: inference the first token of a pair of sentences, entities and parts of
speech the words, parsing the arcs between words.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.corpora.labelled import (
    LABELS,
    ParsedSentence,
    SentencePair,
    TaggedSentence,
    dataset_language,
    inference_rows,
    is_dataset,
    parsed_rows,
    read_conllu,
    read_inference,
    read_tagged,
    tagged_rows,
)
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import spaces_words
from lsar_jax.objectives.parsing import best_arcs, biaffine_scores, init_biaffine, parse_loss
from lsar_jax.objectives.tagging import crf_loss, crf_tags, init_transitions, tag_loss
from lsar_jax.tokens.pair_tokens import tokenize_pairs
from lsar_jax.tokens.tokenizer import Tokenizer
from lsar_jax.tokens.word_tokens import tokenize_words
from train.finetune.examples import Example, TaskBatch, windows
from train.finetune.scores import accuracy, attachment, best_tree, span_f1

__all__ = ["TASKS", "TransferTask", "task_named"]

# The universal parts of speech, and the one of words that have none.
_UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM",
    "VERB", "X", "_",
)  # fmt: skip
# Longer than any sentence; what is longer than the model takes is cut into windows.
_ANY_LENGTH = 1 << 20

Slots = Float[Array, "batch slot dim"]


class TransferTask(ABC):
    """A task: its data, its loss and its scores.

    Attributes:
      name: name of the task.
      metric: name of the score that chooses the best step.
      labels: the labels, in the order of the head's outputs.
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    labels: tuple[str, ...] = ()

    def read(self, data: Data, part: str) -> dict[str, list[Any]]:
        """Returns the sentences of a file or a dataset by language; the language is empty if a file does not say it.

        Args:
          data: a file, or ``hub:ID#CONFIG`` or ``tfds:NAME#CONFIG``.
          part: train, dev or test.
        """
        if is_dataset(data):
            return {dataset_language(str(data)): self.read_rows(str(data), part)}
        return self.read_file(Path(data))

    @abstractmethod
    def read_file(self, path: Path) -> dict[str, list[Any]]:
        """Returns the sentences of a file by language; the language is empty if the file does not say it."""

    @abstractmethod
    def read_rows(self, data: str, part: str) -> list[Any]:
        """Returns the sentences of a dataset."""

    @abstractmethod
    def prepare(self, sentences: Sequence[Any]) -> None:
        """Takes the labels from the sentences to train on."""

    @abstractmethod
    def examples(
        self, tokenizer: Tokenizer, sentences: Sequence[Any], language: str, room: int, *, training: bool
    ) -> list[Example]:
        """Tokenizes sentences.

        Args:
          tokenizer: a tokenizer.
          sentences: the sentences.
          language: their language.
          room: most tokens of a sentence, besides special tokens.
          training: whether they are trained on; the rules for what is cut differ.
        """

    @abstractmethod
    def init(self, key: Array, dim: int) -> Any:
        """Returns the parameters of the head."""

    @abstractmethod
    def loss(self, head: Any, slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
        """Returns the loss of a batch from the hidden states of its slots."""

    @abstractmethod
    def predict(self, head: Any, slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
        """Returns what ``score`` needs, each with the axes batch and slot first."""

    @abstractmethod
    def score(
        self, sentences: Sequence[Any], examples: Sequence[Example], predicted: Sequence[tuple[Any, ...]]
    ) -> dict[str, float]:
        """Returns the scores of the sentences, in percent, ``metric`` among them.

        Args:
          sentences: the sentences.
          examples: their examples.
          predicted: for each example, what ``predict`` returned for its row.
        """


class _Labelling(TransferTask):
    """A task that labels each slot on its own, by a linear layer."""

    def init(self, key: Array, dim: int) -> dict[str, Array]:
        # As transformers initializes a new head.
        kernel = 0.02 * jax.random.normal(key, (dim, len(self.labels)))
        return {"kernel": kernel, "bias": jnp.zeros(len(self.labels))}

    def loss(self, head: dict[str, Array], slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
        return tag_loss(self._scores(head, slots), jnp.asarray(batch.labels), jnp.asarray(batch.counted))

    def predict(self, head: dict[str, Array], slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
        return (self._scores(head, slots).argmax(axis=-1).astype(jnp.int32),)

    def _scores(self, head: dict[str, Array], slots: Slots) -> Float[Array, "batch slot label"]:
        return jnp.matmul(slots, head["kernel"], precision=jax.lax.Precision.HIGHEST) + head["bias"]

    def _index(self, label: str) -> int:
        return self.labels.index(label) if label in self.labels else -1


class Inference(_Labelling):
    """XNLI: does a premise entail a hypothesis, contradict it, or neither."""

    name = "xnli"
    metric = "accuracy"
    labels = LABELS

    def read_file(self, path: Path) -> dict[str, list[SentencePair]]:
        return read_inference(path)

    def read_rows(self, data: str, part: str) -> list[SentencePair]:
        return inference_rows(data, part)

    def prepare(self, sentences: Sequence[SentencePair]) -> None:
        return None

    def examples(
        self, tokenizer: Tokenizer, sentences: Sequence[SentencePair], language: str, room: int, *, training: bool
    ) -> list[Example]:
        pairs = tokenize_pairs(tokenizer, [one[:2] for one in sentences], room + sum(tokenizer.specials), language)
        zero, true = np.zeros(1, np.int32), np.ones(1, bool)
        return [
            Example(pair.ids, pair.second, zero, np.array([self._index(one.label)], np.int32), zero, true, number, zero)
            for number, (one, pair) in enumerate(zip(sentences, pairs, strict=True))
        ]

    def score(
        self, sentences: Sequence[SentencePair], examples: Sequence[Example], predicted: Sequence[tuple[Any, ...]]
    ) -> dict[str, float]:
        labels = [self.labels[int(row[0][0])] for row in predicted]
        return {self.metric: accuracy([one.label for one in sentences], labels)}


class _Tagging(_Labelling):
    """A task that labels each word."""

    def examples(
        self, tokenizer: Tokenizer, sentences: Sequence[Any], language: str, room: int, *, training: bool
    ) -> list[Example]:
        words = [one.words for one in sentences]
        tokenized = tokenize_words(tokenizer, words, _ANY_LENGTH, language, spaced=spaces_words(language))
        examples = []
        for number, (one, tokens) in enumerate(zip(sentences, tokenized, strict=True)):
            for ids, positions, own in windows(tokens, tokenizer.specials, room):
                labels = np.array([self._index(one.tags[word]) for word in own], np.int32)
                there = np.ones(len(own), bool)
                examples.append(Example(ids, len(ids), positions, labels, np.zeros_like(labels), there, number, own))
        return examples

    def _tagged(
        self, sentences: Sequence[Any], examples: Sequence[Example], predicted: Sequence[tuple[Any, ...]], none: str
    ) -> list[list[str]]:
        """Returns the predicted tags of each sentence; ``none`` for words without tokens."""
        tags = [[none] * len(one.words) for one in sentences]
        for example, row in zip(examples, predicted, strict=True):
            for word, label in zip(example.words, row[0], strict=False):
                tags[example.sentence][word] = self.labels[int(label)]
        return tags


class PartsOfSpeech(_Tagging):
    """Universal parts of speech of Universal Dependencies."""

    name = "pos"
    metric = "accuracy"
    labels = _UPOS

    def read_file(self, path: Path) -> dict[str, list[ParsedSentence]]:
        return {"": _with_tags(path)}

    def read_rows(self, data: str, part: str) -> list[ParsedSentence]:
        return parsed_rows(data, part)

    def prepare(self, sentences: Sequence[ParsedSentence]) -> None:
        return None

    def score(
        self, sentences: Sequence[ParsedSentence], examples: Sequence[Example], predicted: Sequence[tuple[Any, ...]]
    ) -> dict[str, float]:
        tags = self._tagged(sentences, examples, predicted, "")
        flat = ([tag for one in several for tag in one] for several in ([one.tags for one in sentences], tags))
        return {self.metric: accuracy(*flat)}


class Entities(_Tagging):
    """Named entities, as in WikiAnn and Universal NER.

    Args:
      crf: whether to decode them by a conditional random field.
    """

    name = "ner"
    metric = "F1"

    def __init__(self, crf: bool = False) -> None:
        self._crf = crf

    def read_file(self, path: Path) -> dict[str, list[TaggedSentence]]:
        return {"": read_tagged(path)}

    def read_rows(self, data: str, part: str) -> list[TaggedSentence]:
        return tagged_rows(data, part)

    def prepare(self, sentences: Sequence[TaggedSentence]) -> None:
        kinds = sorted({tag[2:] for one in sentences for tag in one.tags if tag != "O"})
        self.labels = ("O", *(f"{part}-{kind}" for kind in kinds for part in "BI"))

    def init(self, key: Array, dim: int) -> dict[str, Any]:
        head: dict[str, Any] = super().init(key, dim)
        if self._crf:
            head["transitions"] = init_transitions(jax.random.fold_in(key, 1), len(self.labels))
        return head

    def loss(self, head: dict[str, Any], slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
        if not self._crf:
            return super().loss(head, slots, batch, key)
        counts = jnp.asarray(batch.there).sum(axis=1).astype(jnp.int32)
        return crf_loss(self._scores(head, slots), head["transitions"], jnp.asarray(batch.labels), counts)

    def predict(self, head: dict[str, Any], slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
        if not self._crf:
            return super().predict(head, slots, batch)
        counts = jnp.asarray(batch.there).sum(axis=1).astype(jnp.int32)
        return (crf_tags(self._scores(head, slots), head["transitions"], counts),)

    def score(
        self, sentences: Sequence[TaggedSentence], examples: Sequence[Example], predicted: Sequence[tuple[Any, ...]]
    ) -> dict[str, float]:
        return {
            self.metric: span_f1([one.tags for one in sentences], self._tagged(sentences, examples, predicted, "O"))
        }


class Parsing(TransferTask):
    """Dependency parses of Universal Dependencies."""

    name = "parsing"
    metric = "LAS"

    def read_file(self, path: Path) -> dict[str, list[ParsedSentence]]:
        # The tags say which words are punctuation, which is not scored.
        return {"": _with_tags(path)}

    def read_rows(self, data: str, part: str) -> list[ParsedSentence]:
        return parsed_rows(data, part)

    def prepare(self, sentences: Sequence[ParsedSentence]) -> None:
        self.labels = tuple(sorted({relation for one in sentences for relation in one.relations}))

    def examples(
        self, tokenizer: Tokenizer, sentences: Sequence[ParsedSentence], language: str, room: int, *, training: bool
    ) -> list[Example]:
        specials = sum(tokenizer.specials)
        # To test, as many words as there may be tokens in training, if the model takes their tokens.
        most = room + specials if training else tokenizer.max_length
        words = [one.words if training else one.words[:room] for one in sentences]
        tokenized = tokenize_words(tokenizer, words, most, language, spaced=spaces_words(language))
        examples = []
        for number, (one, tokens) in enumerate(zip(sentences, tokenized, strict=True)):
            # A word without tokens stands where the word before it does; those at the end were cut off.
            last = max(np.flatnonzero(tokens.starts >= 0), default=-1)
            starts = tokens.starts[: last + 1]
            positions = np.maximum.accumulate(np.concatenate([[0], starts])).astype(np.int32)
            heads = np.array([0, *one.heads[: last + 1]], np.int32)
            labels = np.array([-1, *(self._label(relation) for relation in one.relations[: last + 1])], np.int32)
            counted = (heads <= last + 1) & (np.arange(last + 2) > 0)
            slots = np.arange(-1, last + 1, dtype=np.int32)
            heads = np.where(counted, heads, 0)
            examples.append(Example(tokens.ids, len(tokens.ids), positions, labels, heads, counted, number, slots))
        return examples

    def init(self, key: Array, dim: int) -> Any:
        return init_biaffine(key, dim, len(self.labels))

    def loss(self, head: Any, slots: Slots, batch: TaskBatch, key: Array) -> Float[Array, ""]:
        scores = biaffine_scores(head, slots, jnp.asarray(batch.there), key)
        return parse_loss(head, scores, *map(jnp.asarray, (batch.heads, batch.labels, batch.counted)))

    def predict(self, head: Any, slots: Slots, batch: TaskBatch) -> tuple[Array, ...]:
        return best_arcs(head, biaffine_scores(head, slots, jnp.asarray(batch.there)))

    def score(
        self, sentences: Sequence[ParsedSentence], examples: Sequence[Example], predicted: Sequence[tuple[Any, ...]]
    ) -> dict[str, float]:
        total = np.zeros(3, int)
        for example, (scores, labels) in zip(examples, predicted, strict=True):
            one, count = sentences[example.sentence], len(example.positions)
            # As in the authors' code, the best tree is that of the sum of probabilities, not of their logarithms.
            heads = best_tree(np.exp(np.asarray(scores, np.float64)[:count, :count]))[1:]
            relations = [self.labels[int(labels[word, head])] for word, head in enumerate(heads, start=1)]
            total += attachment(one.heads, one.relations, one.tags, heads.tolist(), relations)
        return {self.metric: 100 * total[2] / max(total[0], 1), "UAS": 100 * total[1] / max(total[0], 1)}

    def _label(self, relation: str) -> int:
        return self.labels.index(relation) if relation in self.labels else -1


def _with_tags(path: Path) -> list[ParsedSentence]:
    """Reads sentences; raises ValueError if no word has a part of speech."""
    sentences = read_conllu(path)
    if all(tag == "_" for one in sentences for tag in one.tags):
        raise ValueError(f"{path} has no parts of speech (its fourth column is _ for all words)")
    return sentences


TASKS: dict[str, type[TransferTask]] = {kind.name: kind for kind in (Inference, Entities, PartsOfSpeech, Parsing)}


def task_named(name: str, *, crf: bool = False) -> TransferTask:
    """Returns a new task, without labels where they come from the text.

    Args:
      name: one of ``TASKS``.
      crf: whether named entities are decoded by a conditional random field.
    """
    return Entities(crf) if name == Entities.name else TASKS[name]()
