"""Named entities, as in WikiAnn and Universal NER; on features they are decoded by a conditional random field."""

from collections.abc import Sequence
from itertools import accumulate

from train.finetune.conllu_ner_xnli import TaggedSentence, read_tagged
from train.finetune.heads import CRF, LINEAR
from train.finetune.scores import span_f1
from train.finetune.task import Labels, Predictions, TransferTask, tagging_examples
from train.word_pairs.word_splitter import word_splitter

__all__ = ["NER", "chinese_words"]


def _labels(sentences: Sequence[TaggedSentence]) -> Labels:
    kinds = sorted({tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"})
    return ("O", *(f"{part}-{kind}" for kind in kinds for part in "BI"))


def _score(found: Predictions) -> dict[str, float]:
    return {"F1": span_f1([sentence.tags for sentence in found.sentences], found.tags("O"))}


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
