"""Sources of sentences: the UDHR, text files, TensorFlow Datasets and the Hugging Face Hub."""

from lsar_jax.corpora import builders
from lsar_jax.corpora.by_language import language_files
from lsar_jax.corpora.hub_datasets import hub
from lsar_jax.corpora.sentence_filters import not_blank, oscar_lines, wiki40b_pieces
from lsar_jax.corpora.text_files import lines, stream_lines, text_folder
from lsar_jax.corpora.tfds import prepared
from lsar_jax.corpora.udhr import UDHR_PARTS, udhr

__all__ = [
    "UDHR_PARTS",
    "builders",
    "hub",
    "language_files",
    "lines",
    "not_blank",
    "oscar_lines",
    "prepared",
    "stream_lines",
    "text_folder",
    "udhr",
    "wiki40b_pieces",
]
