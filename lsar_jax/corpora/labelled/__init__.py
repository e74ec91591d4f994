"""Labelled text: parsed sentences, tagged sentences, and sentence pairs with a label."""

from lsar_jax.corpora.labelled.conllu import ParsedSentence, read_conllu
from lsar_jax.corpora.labelled.datasets import (
    dataset_language,
    inference_rows,
    is_dataset,
    parsed_rows,
    tagged_rows,
)
from lsar_jax.corpora.labelled.file_language import language_of_file
from lsar_jax.corpora.labelled.inference import LABELS, SentencePair, read_inference
from lsar_jax.corpora.labelled.tagged import TaggedSentence, read_tagged

__all__ = [
    "LABELS",
    "ParsedSentence",
    "SentencePair",
    "TaggedSentence",
    "dataset_language",
    "inference_rows",
    "is_dataset",
    "language_of_file",
    "parsed_rows",
    "read_conllu",
    "read_inference",
    "read_tagged",
    "tagged_rows",
]
