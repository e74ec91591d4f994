"""Our TensorFlow datasets: text and bitext of local files, LAReQA's questions, BUCC's mining task.

    folders = builders.prepare(builders.Monolingual("text"), "datasets")    # once
    sentences = builders.Monolingual.read(folders["de"])                    # or prepared(folders["de"])

Each source reads files that are there, says what is wrong with them by file and line, and reads
back what was prepared as plain Python, equal to the files.
"""

from lsar_jax.corpora.builders.base import DatasetFiles, prepare
from lsar_jax.corpora.builders.bucc import Bucc, Comparable
from lsar_jax.corpora.builders.monolingual import Monolingual
from lsar_jax.corpora.builders.parallel import Bitext, Parallel
from lsar_jax.corpora.builders.xquad_r import Questions, XquadR

__all__ = ["Bitext", "Bucc", "Comparable", "DatasetFiles", "Monolingual", "Parallel", "Questions", "XquadR", "prepare"]
