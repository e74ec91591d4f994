"""Universal parts of speech of Universal Dependencies."""

from itertools import chain

from lsar_jax.corpora.tables import Data
from train.finetune.conllu_ner_xnli import ParsedSentence, read_parsed
from train.finetune.heads import LINEAR
from train.finetune.labelled_datasets import COLUMN_LABELS
from train.finetune.task import Predictions, TransferTask, accuracy, tagging_examples

__all__ = ["POS"]

# The universal parts of speech, and that of words that have none, which is in no text, but in heads that are saved.
_UPOS = tuple(sorted(COLUMN_LABELS["upos"]))


def _read(data: Data, part: str) -> dict[str, list[ParsedSentence]]:
    """Returns what ``read_parsed`` returns; raises ValueError for a word without a part of speech."""
    text = read_parsed(data, part)
    for number, sentence in enumerate(chain.from_iterable(text.values()), start=1):
        if "_" in sentence.tags:
            word = sentence.words[sentence.tags.index("_")]
            raise ValueError(f"{data}: {word!r} in sentence {number} has the UPOS _; tag it, or leave out the sentence")
    return text


def _score(found: Predictions) -> dict[str, float]:
    return {"accuracy": accuracy(*map(chain.from_iterable, found.tags()))}


POS = TransferTask("pos", "accuracy", _read, lambda sentences: _UPOS, tagging_examples, _score, LINEAR)
