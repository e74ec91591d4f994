"""Static embeddings: potion-multilingual-128M, static-similarity-mrl-multilingual-v1, bekko-static-v1.

A sentence is the mean of the rows of its tokens, without special tokens; there is no context, hence no block. The
folders are written by sentence-transformers' module StaticEmbedding, which has no config, or by model2vec, whose
tokens may share rows (``mapping``) and have weights. Without a ``modules.json``, a folder is read as model2vec reads
it, which leaves unknown tokens out; with one, as sentence-transformers reads it, where they count.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from lsar_jax.models.architectures import base
from lsar_jax.models.encoder import Encoder, EncoderConfig, TokenEmbeddings
from lsar_jax.models.parts import LayerFactory
from lsar_jax.tokens.hugging_face import static_tokenizer

__all__ = ["STATIC"]

_SIZES = {"vocabulary": "vocab_size", "hidden": "hidden_size"}
# The model has no limit. The states of as many tokens take 0.5 GB of a device at a width of 1,024; what is beyond is
# truncated, counted and reported as elsewhere.
_POSITIONS = 1 << 17
_ROWS = "embedding.weight"


def _complete(config: dict[str, Any], tensors: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Adds the sizes to the config; makes one row for each token, if tokens share rows or have weights."""
    name = _ROWS if _ROWS in tensors else "embeddings"
    others = dict(tensors)
    rows, mapping, weights = (others.pop(each, None) for each in (name, "mapping", "weights"))
    if rows is None or len(rows.shape) != 2:
        raise ValueError(f"there is no matrix {_ROWS} or embeddings; the tensors are {', '.join(tensors) or 'none'}")
    size = (mapping or rows).shape[:1]
    for each, tensor, kinds in (("mapping", mapping, "IU"), ("weights", weights, "IUFB")):
        if tensor is not None and (tensor.shape != size or tensor.kind[0] not in kinds):
            raise ValueError(f"{each} is {tensor.kind} of shape {list(tensor.shape)}; it needs a number for each token")

    @cache
    def shared() -> np.ndarray:
        return rows.rows(0, rows.shape[0])

    def read(start: int, stop: int) -> np.ndarray:
        if mapping is None:
            found = rows.rows(start, stop)
        else:
            places = mapping.rows(start, stop)
            if wrong := [place for place in places.tolist() if not 0 <= place < rows.shape[0]]:
                raise ValueError(f"mapping has {wrong[0]}; the rows of embeddings are 0 to {rows.shape[0] - 1}")
            found = shared()[places]
        found = found.astype(np.float32)
        return found if weights is None else found * weights.rows(start, stop).astype(np.float32)[:, None]

    shape = (*size, rows.shape[1])
    others[_ROWS] = rows._replace(shape=shape, rows=read, kind="F32")
    return {**config, "vocab_size": shape[0], "hidden_size": shape[1]}, others


def _read_sizes(config: Mapping[str, Any]) -> EncoderConfig:
    # There are no blocks to which the heads and the intermediate width would belong.
    return EncoderConfig(**base.whole_sizes(config, _SIZES), blocks=0, heads=1, intermediate=1, positions=_POSITIONS)


def _build(config: EncoderConfig, factory: LayerFactory) -> Encoder:
    return Encoder(config, TokenEmbeddings(factory, config), [])


STATIC = base.Architecture(
    "model2vec",
    _read_sizes,
    _build,
    {"embeddings.word.embedding": _ROWS},
    unused=r"",
    tokenizer=static_tokenizer,
    complete=_complete,
    module="StaticEmbedding",
    exported=("", "model2vec"),
)
