"""TensorFlow datasets built from local files: text, bitext, LAReQA's questions and BUCC's mining task.

Prepare a dataset once, then read it::

    folders = builders.prepare(builders.Monolingual("text"), "datasets")    # once
    sentences = builders.Monolingual.read(folders["de"])                    # or prepared(folders["de"])

Each source reads existing files, reports errors by file and line, and reads prepared datasets back as
plain Python values equal to the contents of the files.
"""

from lsar_jax.corpora.builders.base import DatasetFiles, prepare
from lsar_jax.corpora.builders.bucc import Bucc, Comparable
from lsar_jax.corpora.builders.monolingual import Monolingual
from lsar_jax.corpora.builders.parallel import Parallel, ParallelText
from lsar_jax.corpora.builders.xquad_r import Questions, XquadR

__all__ = [
    "Bucc",
    "Comparable",
    "DatasetFiles",
    "Monolingual",
    "Parallel",
    "ParallelText",
    "Questions",
    "XquadR",
    "prepare",
]
