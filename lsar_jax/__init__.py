"""Language-agnostic multilingual sentence embeddings in JAX.

text -> tokens -> hidden states -> embeddings -> transform -> scores
"""

from lsar_jax import corpora, geometry, languages, mesh, mining, objectives, preference, retrieval, transforms
from lsar_jax.encoders import load_encoder
from lsar_jax.moments import Moments, PooledMoments, pool_moments
from lsar_jax.moments_file import load_moments, merge_moments, save_moments
from lsar_jax.report import EncodeReport
from lsar_jax.sentence_encoder import SentenceEncoder
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform

__version__ = "0.1.0"

__all__ = [
    "EncodeReport",
    "EncoderSpec",
    "Moments",
    "PooledMoments",
    "SentenceEncoder",
    "Transform",
    "corpora",
    "geometry",
    "languages",
    "load_encoder",
    "load_moments",
    "merge_moments",
    "mesh",
    "mining",
    "objectives",
    "pool_moments",
    "preference",
    "retrieval",
    "save_moments",
    "transforms",
]
