"""The text to align an encoder on: word pairs, sentences and their translations, or questions and answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lsar_jax import SentenceEncoder
from lsar_jax.corpora.question_answers import check_templates
from lsar_jax.corpora.tables import Data
from lsar_jax.encoders.options import check_length, check_prompt
from lsar_jax.models.encoder import Encoder
from train.align.examples import Examples, sentence_examples, word_examples
from train.align.options import AlignObjective
from train.align.questions import question_pairs
from train.text import TextOptions
from train.word_pairs.aligned_files import PARTS, read_aligned

__all__ = ["AlignText"]


@dataclass(frozen=True)
class AlignText(TextOptions):
    """The text of all objectives.

    Attributes:
      words: folder of word-aligned text, from python -m train.word_pairs, for all objectives but sentence.
      questions: for the objective sentence, folder of {language}.json files in SQuAD's format, instead of --data: a
        question and its answer, of one language, are a pair. All --languages are in each batch. --held-out counts
        questions, of whole paragraphs, for python -m eval lareqa.
      question_text: text of a question, with {question}; a prompt of that side goes before it.
      answer_text: text of an answer, with {answer} for its sentence and {paragraph} for its paragraph, which is cut
        at --max-length.
    """

    data: Data = Path("data/sentences")
    words: Path = Path("results/word-pairs")
    questions: Path | None = None
    question_text: str = "{question}"
    answer_text: str = "{answer} {paragraph}"

    def check(self) -> None:
        """Raises ValueError if a number is out of range, or a text of a side lacks its part."""
        super().check()
        check_templates(self.question_text, self.answer_text)

    def reads(self, objective: AlignObjective) -> tuple[str, tuple[str, ...]]:
        """Returns the text that an objective reads, in words, and the options of text that it does not read."""
        if objective != "sentence":
            return "word pairs (--words)", tuple(name for name in vars(self) if name not in ("words", "languages"))
        if self.questions is not None:
            return "questions (--questions)", ("words", "data", "more", "split", "sample")
        return "sentences (--data, --more)", ("words", "question_text", "answer_text")

    def places(self, objective: AlignObjective) -> list[Data]:
        """Returns where the text that an objective reads is."""
        if objective != "sentence":
            return [self.words]
        return [self.data, *self.more] if self.questions is None else [self.questions]

    def examples(
        self, encoder: SentenceEncoder, objective: AlignObjective, max_length: int
    ) -> tuple[Examples, Examples]:
        """Returns the tokenized pairs to train on, and those for validation."""
        tokenizer = encoder.tokenizer
        if objective == "sentence":
            check_prompt(encoder.prompt, tokenizer, check_length(max_length, tokenizer))
            pairs = self.pairs() if self.questions is None else question_pairs(
                self.questions, self, self.question_text, self.answer_text
            )  # fmt: skip
            parts = ({code: split[number] for code, split in pairs.items()} for number in (0, 1))
            english = self.questions is None
            training, validation = (
                sentence_examples(tokenizer, part, max_length, encoder.prompt, english) for part in parts
            )
        else:
            last = cast(Encoder, encoder.model).causal
            training, validation = (
                word_examples(tokenizer, read_aligned(self.words, part, self.languages), max_length, last)
                for part in PARTS
            )
        if training.codes != validation.codes:
            raise ValueError(
                f"{self.words} has training pairs of {', '.join(training.codes)}, but validation pairs of "
                f"{', '.join(validation.codes)}; give both for each language"
            )
        return training, validation
