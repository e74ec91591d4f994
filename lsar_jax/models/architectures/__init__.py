"""The supported architectures, a file for each kind, and the table ``ARCHITECTURES`` of all of them."""

from pathlib import Path
from typing import Any

from lsar_jax.checks import check_choice
from lsar_jax.files import read_json
from lsar_jax.models.architectures.base import Architecture, Config
from lsar_jax.models.architectures.bert import BERT
from lsar_jax.models.architectures.decoders.embedding_gemma2 import EMBEDDING_GEMMA2, EMBEDDING_GEMMA2_TEXT
from lsar_jax.models.architectures.decoders.gemma2 import GEMMA2
from lsar_jax.models.architectures.decoders.gemma3 import GEMMA3, GEMMA3_TEXT
from lsar_jax.models.architectures.decoders.llama import EUROBERT, LLAMA, MINISTRAL3, OF_CODE, QWEN2, QWEN3
from lsar_jax.models.architectures.distilbert import DISTILBERT
from lsar_jax.models.architectures.gte import GTE, NEW
from lsar_jax.models.architectures.jina_embeddings_v3 import JINA_V3
from lsar_jax.models.architectures.laser import LASER
from lsar_jax.models.architectures.m2m_100 import M2M_100
from lsar_jax.models.architectures.modernbert import MODERNBERT
from lsar_jax.models.architectures.nomic_bert import NOMIC_BERT
from lsar_jax.models.architectures.static import STATIC
from lsar_jax.models.architectures.xlm import XLM
from lsar_jax.models.architectures.xlm_roberta import CAMEMBERT, ROBERTA, XLM_R

__all__ = ["ARCHITECTURES", "Architecture", "Config", "read_config"]

# fmt: off
_EVERY = (
    BERT, XLM_R, XLM, LASER, LLAMA, QWEN2, QWEN3, MINISTRAL3, EUROBERT, ROBERTA, CAMEMBERT, DISTILBERT, GEMMA2,
    MODERNBERT, GEMMA3_TEXT, GEMMA3, EMBEDDING_GEMMA2_TEXT, EMBEDDING_GEMMA2, GTE, NEW, NOMIC_BERT, JINA_V3, STATIC,
    M2M_100,
)
# The classes of checkpoints that came with code before transformers had it; those of OF_CODE it has otherwise.
_CODE = ("EuroBertModel", "GteModel", "NewModel", "NomicBertModel", "XLMRobertaLoRA", "JinaEmbeddingsV5Model", *OF_CODE)
# fmt: on
ARCHITECTURES = {each.model_type: each for each in _EVERY}
ARCHITECTURES = {**ARCHITECTURES, **{each.model_type: each for each in OF_CODE.values()}, **ARCHITECTURES}


def read_config(path: Path, module: str = "Transformer") -> tuple[dict[str, Any], Architecture]:
    """Reads a ``config.json``; returns it, and the architecture that it names, or raises ValueError if unknown.

    The sentence-transformers ``module`` StaticEmbedding needs no config.
    """
    if module == STATIC.module:
        return {}, STATIC
    config = read_json(path, dict)
    code = config.get("auto_map")
    written = str(code.get("AutoModel", "")).rsplit(".", 1)[-1] if isinstance(code, dict) else ""
    if written and written not in _CODE:
        raise ValueError(
            f"{path}: auto_map says that {written} computes the checkpoint, which is code of its own and is not run; "
            f"known classes are {', '.join(_CODE)}"
        )
    # The first checkpoints of XLM do not name it.
    name = config.get("model_type", "xlm" if "emb_dim" in config else None)
    # jina-embeddings-v3 and -v5, of which the small one has decoder blocks.
    if name == XLM_R.model_type and config.get("position_embedding_type") == "rotary":
        name = JINA_V3.model_type
    elif name == "jina_embeddings_v5":
        name = (EUROBERT if config.get("is_decoder") is False else QWEN3).model_type
    check_choice(f"{path}: model_type", name, ARCHITECTURES)
    return config, OF_CODE.get(written, ARCHITECTURES[name])
