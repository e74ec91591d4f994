"""Language-agnostic multilingual sentence embeddings in JAX.

text -> tokens -> hidden states -> embeddings -> transform -> scores
"""

from lsar_jax import corpora, geometry, languages, mesh, mining, objectives, retrieval, transforms
from lsar_jax.encoders import EncodeReport, SentenceEncoder, load_encoder
from lsar_jax.moments import Moments, PooledMoments, load_moments, merge_moments, pool_moments, save_moments
from lsar_jax.retrieval import preference
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
