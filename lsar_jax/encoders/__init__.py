"""Text in, embeddings out: ``load_encoder`` and ``SentenceEncoder``."""

from lsar_jax.checkpoints.presets import PRESETS, Preset
from lsar_jax.encoders.encode_batch import EncodeBatch
from lsar_jax.encoders.encode_report import EncodeReport
from lsar_jax.encoders.load import load_encoder
from lsar_jax.encoders.own_module import make_encoder
from lsar_jax.encoders.sentence_encoder import SentenceEncoder

__all__ = ["PRESETS", "EncodeBatch", "EncodeReport", "Preset", "SentenceEncoder", "load_encoder", "make_encoder"]
