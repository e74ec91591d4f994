"""The text of a task: English sentences to train on and to choose the best step by, and tests in other languages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from lsar_jax import SentenceEncoder
from lsar_jax.checks import at_least
from lsar_jax.console.output import console
from lsar_jax.corpora.tables import Data, pin
from lsar_jax.files import sha256
from lsar_jax.languages import language_code
from lsar_jax.models.encoder import Encoder
from train.finetune.conllu_ner_xnli import is_dataset, language_of
from train.finetune.examples import TaskExample
from train.finetune.ner import chinese_words
from train.finetune.task import ExampleOptions, Labels, Predictions, TransferTask

__all__ = ["LabelledText", "TaskText", "Tests", "TextChoice", "english", "labelled_tests", "tokenized"]

# Name of a test -> its language and its sentences.
Tests = dict[str, tuple[str, list[Any]]]


@dataclass(frozen=True)
class TextChoice:
    """The text of a task.

    Attributes:
      train: English text to train on: a file, hub:ID#CONFIG or tfds:NAME#CONFIG.
      test: text to test on; the language is part of a file's name, as in de_pud-ud-test.conllu or dev-de.tsv, and of a
        configuration's, as in hub:unimelb-nlp/wikiann@main#de.
      dev: English text that chooses the best step; by default held out from the training text.
      languages: codes of the languages to test; by default, all that the text has.
      chinese_words: join the characters of Chinese test text, into which WikiAnn is split, to words; for ner.
      most: largest number of training sentences, the first of the text; by default all.
      most_dev: largest number of development sentences, the first of the text; by default all.
      most_tested: largest number of sentences of each test language; by default all.
      held_out: number of training sentences held out if there is no --dev.
    """

    train: Data
    test: tuple[Data, ...]
    dev: Data | None = None
    languages: tuple[str, ...] = ()
    chinese_words: bool = False
    most: int | None = None
    most_dev: int | None = None
    most_tested: int | None = None
    held_out: int = 1000

    def pinned(self) -> Self:
        """Returns the choice with datasets of the Hub pinned to their current commits, after checking its numbers."""
        at_least(1, most=self.most, most_dev=self.most_dev, most_tested=self.most_tested, held_out=self.held_out)
        dev = None if self.dev is None else pin(self.dev)
        return replace(self, train=pin(self.train), dev=dev, test=tuple(map(pin, self.test)))

    def digests(self) -> dict[str, str]:
        """Returns the SHA-256 of each file; a dataset is its own name, with its commit."""
        texts = (self.train, *([] if self.dev is None else [self.dev]), *self.test)
        return {str(data): str(data) if is_dataset(data) else sha256([Path(data)]) for data in texts}

    def read(self, task: TransferTask) -> tuple[list[Any], list[Any], Tests]:
        """Returns the English sentences to train on, those that choose the best step, and the tests."""
        training = english(task, self.train, "train")
        if self.dev is None:
            if len(training) <= self.held_out:
                raise ValueError(
                    f"{self.train} has {len(training)} sentences, of which --held-out takes {self.held_out}; give --dev"
                )
            # From the end, so that --most takes the same sentences with --dev and without.
            training, development = training[: -self.held_out], training[-self.held_out :]
        else:
            development = english(task, self.dev, "dev")
        tests = labelled_tests(task, self.test, self.languages)
        if self.chinese_words and task.name == "ner":
            tests = {name: (code, chinese_words(s) if code == "zh" else s) for name, (code, s) in tests.items()}
        codes = {code for code, _ in tests.values()}
        if absent := [code for code in self.languages if language_code(code) not in codes]:
            raise ValueError(f"--languages has {absent[0]}, but --test has only {', '.join(sorted(codes)) or 'others'}")
        tests = {name: (code, sentences[: self.most_tested]) for name, (code, sentences) in tests.items()}
        return training[: self.most], development[: self.most_dev], tests


def english(task: TransferTask, data: Data, part: str) -> list[Any]:
    """Returns the English sentences; a file that does not say its language is taken to be English."""
    found = task.read(data, part)
    if (sentences := found.get("en", found.get(""))) is None:
        raise ValueError(f"{data} has no text in en; it has {', '.join(found)}")
    return sentences


def labelled_tests(task: TransferTask, texts: Sequence[Data], languages: Sequence[str] = ()) -> Tests:
    """Returns the language and the sentences of each test, by a name that is a file's or a configuration's."""
    codes = {language_code(code) for code in languages}
    configurations = [str(data).rpartition("#")[2] for data in texts if is_dataset(data)]
    tests: Tests = {}
    for data in texts:
        found = {code: s for code, s in task.read(data, "test").items() if not codes or code in ("", *codes)}
        for code, sentences in found.items():
            if is_dataset(data):
                name = str(data).rpartition("#")[2]
                name = name if configurations.count(name) == 1 else str(data)
            else:
                # A table of several languages is a test in each.
                name = Path(data).stem if list(found) == [language_of(data)] else f"{Path(data).stem}.{code}"
            if not code:
                raise ValueError(f"{data} is not named after its language, as in dev-de.tsv; rename it")
            if name in tests:
                raise ValueError(f"{data}: there is another test named {name}; rename one, or give it once")
            tests[name] = (code, sentences)
    return tests


class LabelledText(NamedTuple):
    """Text to score predictions on: its language, its sentences, and their examples."""

    language: str
    sentences: Sequence[Any]
    examples: Sequence[TaskExample]


@dataclass(frozen=True)
class TaskText:
    """A task, its labels in the order of the head's outputs, and its English text to train on and to choose by."""

    task: TransferTask
    labels: Labels
    training: Sequence[TaskExample]
    development: LabelledText

    def score(self, text: LabelledText, outputs: Sequence[tuple[Any, ...]]) -> dict[str, float]:
        """Returns the scores of the head's outputs for the examples of a text, in percent."""
        return self.task.score(Predictions(text.sentences, text.examples, outputs, self.labels))


def tokenized(
    text: TextChoice, task: TransferTask, encoder: SentenceEncoder, room: int, read: tuple[list[Any], list[Any], Tests]
) -> tuple[TaskText, dict[str, LabelledText]]:
    """Tokenizes the text to train on and the tests, to at most ``room`` tokens a sentence.

    Raises:
      ValueError: the training text has fewer than two labels.
    """
    training, development, tests = read
    labels = task.labels(training)

    def examples(sentences: list[Any], language: str, training: bool = False) -> list[TaskExample]:
        last = cast(Encoder, encoder.model).causal
        return task.examples(sentences, ExampleOptions(encoder.tokenizer, language, room, labels, training, last))

    trained = examples(training, "en", True)
    if len(there := sorted({*_counted(trained)} - {-1})) < 2:
        names = ", ".join(labels[number] for number in there)
        raise ValueError(f"{text.train}: the labels to train on are {names or 'none'}; there must be at least two")
    chosen_by = str(text.dev or text.train)
    texts = {chosen_by: ("en", development), **tests}
    tested = {name: LabelledText(code, s, examples(s, code)) for name, (code, s) in texts.items()}
    for name, test in tested.items():
        unknown = [label < 0 for label in _counted(test.examples)]
        if any(unknown):
            share = 100 * np.mean(unknown)
            console.print(f"{name}: {share:.1f}% of the labels are not in the training text; they count as wrong")
    return TaskText(task, labels, trained, tested.pop(chosen_by)), tested


def _counted(examples: Sequence[TaskExample]) -> list[int]:
    """Returns the number of each label that counts, -1 for unknown ones."""
    return [label for example in examples for label in example.labels[example.counted].tolist()]
