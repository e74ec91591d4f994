"""Named entities, as in WikiAnn and Universal NER; on features they are decoded by a conditional random field."""

from collections.abc import Sequence

from lsar_jax.corpora.labelled import TaggedSentence, read_tagged
from train.finetune.examples import Example
from train.finetune.heads import CRF, LINEAR
from train.finetune.scores import span_f1
from train.finetune.task import Labels, Predicted, Task, predicted_tags, tagging_examples

__all__ = ["NER"]


def _labels(sentences: Sequence[TaggedSentence]) -> Labels:
    kinds = sorted({tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"})
    return ("O", *(f"{part}-{kind}" for kind in kinds for part in "BI"))


def _score(
    sentences: Sequence[TaggedSentence], examples: Sequence[Example], predicted: Predicted, labels: Labels
) -> dict[str, float]:
    tags = predicted_tags(sentences, examples, predicted, labels, "O")
    return {"F1": span_f1([sentence.tags for sentence in sentences], tags)}


NER = Task("ner", "F1", read_tagged, _labels, tagging_examples, _score, LINEAR, 1e-4, head_on_features=CRF)
