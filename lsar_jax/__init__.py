"""Language-agnostic multilingual sentence embeddings in JAX.

text -> tokens -> hidden states -> embeddings -> transform -> scores
"""

from lsar_jax import corpora, languages, mesh, retrieval, transforms
from lsar_jax.encoders import load_encoder
from lsar_jax.moments import Moments
from lsar_jax.sentence_encoder import EncodeReport, SentenceEncoder
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform

__version__ = "0.1.0"

__all__ = [
    "EncodeReport",
    "EncoderSpec",
    "Moments",
    "SentenceEncoder",
    "Transform",
    "corpora",
    "languages",
    "load_encoder",
    "mesh",
    "retrieval",
    "transforms",
]
