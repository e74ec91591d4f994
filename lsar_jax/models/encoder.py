"""The transformer encoder: embeddings of tokens, blocks, and a final norm if there is one, in Flax NNX.

It is a plain pytree that can be passed through ``jax.jit``. What its parts are is in ``lsar_jax.models.architectures``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from lsar_jax.checks import whole_number
from lsar_jax.mesh import whole
from lsar_jax.models.attention import AttentionMask
from lsar_jax.models.dropout import Dropout, drop, independent
from lsar_jax.models.parts import LayerFactory
from lsar_jax.models.rotary import Rotary
from lsar_jax.models.segments import positions_of
from lsar_jax.shapes import Hidden, Lengths, SegmentLanguages, TokenIds

__all__ = ["Encoder", "EncoderConfig", "TokenEmbeddings", "check_heads", "check_sizes", "sinusoids"]

# The other sizes are those of arrays. A damaged config beyond these limits could run for hours before failing.
_MOST = {"vocabulary": 1 << 24, "blocks": 1 << 8, "positions": 1 << 20}


def check_sizes(config: Any) -> None:
    """Raises ValueError if a size of a config is not one that an encoder may have."""
    for name, size in vars(config).items():
        if isinstance(size, int) and not isinstance(size, bool):
            least = 0 if name in ("blocks", "token_types", "languages", "first_position") else 1
            whole_number(name, size, least, _MOST.get(name, 1 << 18), "the sizes of encoders")


def check_heads(heads: int, groups: int, width: int | float, multiple: int = 2) -> None:
    """Raises ValueError unless heads are shared evenly and have whole widths, even ones for rotary positions."""
    if heads % groups or width % multiple:
        raise ValueError(f"{heads} heads of width {width:g} do not fit; expected multiples of {groups} and {multiple}")


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes and options of a transformer encoder; an architecture may add its own.

    Attributes:
      vocabulary: rows of the word embeddings.
      hidden: width of a hidden state.
      blocks: number of blocks to build, which may be fewer than the checkpoint has.
      heads: number of attention heads.
      intermediate: width of the feed-forward layer.
      positions: rows of the position embeddings, or the maximum number of tokens where there are none.
      token_types: rows of the segment embeddings.
      languages: rows of the language embeddings, which some of XLM's models have.
      first_position: position row of the first token; in XLM-R, one past its padding id.
      groups: number of key and value heads; by default as many as ``heads``.
      width: width of a head; by default, together the heads are as wide as a hidden state.
      rotary: rotary positions, if any.
      epsilon: constant added to the variance in a norm.
      activation: activation of the feed-forward layer, one of ``ACTIVATIONS``.
      causal: whether a token attends to itself and those before it alone.
    """

    vocabulary: int
    hidden: int
    blocks: int
    heads: int
    intermediate: int
    positions: int
    _: KW_ONLY
    token_types: int = 0
    languages: int = 0
    first_position: int = 0
    groups: int | None = None
    width: int | None = None
    rotary: Rotary | None = None
    epsilon: float = 1e-12
    activation: str = "gelu"
    causal: bool = False

    def __post_init__(self) -> None:
        check_sizes(self)
        width = self.hidden / self.heads if self.width is None else self.width
        check_heads(self.heads, self.groups or 1, width, 2 if self.rotary else 1)
        whole_number("first_position", self.first_position, 0, self.positions - 1, "the rows of the positions")

    @property
    def longest(self) -> int:
        """The maximum number of tokens in a sentence, including special tokens."""
        return self.positions - self.first_position

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of layers 0, 1, ..."""
        return (self.hidden,) * (self.blocks + 1)


class Encoder(nnx.Module):
    """Maps token ids to the hidden states of every block.

    Args:
      config: sizes of the encoder.
      embeddings: layer 0.
      blocks: each maps ``(x, mask, dropout)`` to the next hidden states.
      norm: norm of the last hidden states, if any.
      inputs: given layer 0 and the number of blocks before a block, returns what the block takes besides, if anything.

    Attributes:
      norm_inner: whether the other layers are normalised by ``norm`` too when they are returned.
    """

    def __init__(
        self, config: EncoderConfig, embeddings: "TokenEmbeddings", blocks: Sequence[nnx.Module], norm: Any = None, *,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        self.config = config
        self.dtype = embeddings.dtype
        self.embeddings = embeddings
        self.blocks = nnx.List(blocks)
        self.norm = norm
        self.inputs = inputs
        self.norm_inner = False

    @property
    def causal(self) -> bool:
        """Whether a token attends to itself and those before it alone."""
        blocks: Iterable[Any] = self.blocks
        return any(block.attention.config.causal for block in blocks)

    def hidden_states(
        self,
        ids: TokenIds,
        lengths: Lengths,
        languages: SegmentLanguages | None = None,
        *,
        types: TokenIds | None = None,
        words: Hidden | None = None,
        dropout: Dropout | None = None,
        remat: bool = False,
    ) -> Iterator[Hidden]:
        """Yields layer 0 (the embedding output), then the outputs of blocks 1, 2, ...

        Callers should pool each layer as it is yielded, so that only one ``[batch, length, dim]`` state is alive at a
        time. Padding has states too, which mean nothing.

        Args:
          ids: token ids, ``[batch, length]``; padding does not affect other tokens.
          lengths: number of tokens of each sentence in a row, including special tokens, ``[batch, segment]``. They
            follow each other from the first position on, and do not see each other.
          languages: row of each sentence's language in the model's table, ``[batch, segment]``, if it has one.
          types: BERT's segment of each token, ``[batch, length]``; by default 0 for all. Ignored by models without.
          words: the word embedding of each token, ``[batch, length, dim]``, instead of the table, which then gets no
            gradient.
          dropout: what to zero at random, in training.
          remat: whether to compute the blocks again for the gradient rather than keep what is inside them, which
            takes less memory and runs each block forward twice.
        """
        first, *others = independent(dropout, len(self.blocks) + 1)
        mask = AttentionMask.of(lengths, ids.shape[1])
        x = layer_0 = whole(drop(self.embeddings(ids, mask, languages, types, words), first))
        yield self._returned(x, last=not self.blocks)
        run = jax.checkpoint(_run_block) if remat else _run_block
        for number, (block, zeros) in enumerate(zip(self.blocks, others, strict=True), 1):
            given = () if self.inputs is None else (self.inputs(layer_0, number - 1),)
            x = run(block, x, mask, zeros, *given)
            yield self._returned(x, last=number == len(self.blocks))

    def _returned(self, x: Hidden, last: bool) -> Hidden:
        return self.norm(x).astype(x.dtype) if self.norm is not None and (last or self.norm_inner) else x


class TokenEmbeddings(nnx.Module):
    """The sum of word, position, segment and language embeddings, as far as there are any, normalised.

    Args:
      factory: makes the tables.
      config: the sizes.
      positions: rows of the position embeddings.
      scale: factor of the word embeddings.
      norm: norm of the sum, if any.
    """

    def __init__(
        self, factory: LayerFactory, config: EncoderConfig, *, positions: int = 0, scale: float = 1.0, norm: Any = None
    ) -> None:
        self.dtype = factory.dtype
        self.first_position = config.first_position
        self.scale = scale
        self.word = factory.table(config.vocabulary, config.hidden)
        self.position = factory.table(positions, config.hidden) if positions else None
        self.token_type = factory.table(config.token_types, config.hidden) if config.token_types else None
        self.language = factory.table(config.languages, config.hidden) if config.languages else None
        self.norm = norm

    def __call__(
        self,
        ids: TokenIds,
        mask: AttentionMask,
        languages: SegmentLanguages | None,
        types: TokenIds | None,
        words: Hidden | None,
    ) -> Hidden:
        """Returns layer 0; arguments as of ``Encoder.hidden_states``."""
        # Rows are gathered before the cast: nnx.Embed would cast the whole table first.
        x = (self.word.embedding[...][ids] if words is None else words).astype(jnp.float32)
        if self.scale != 1:
            x *= self.scale
        if self.position is not None:
            positions = positions_of(mask.lengths, ids.shape[1])
            if self.first_position:
                # As in transformers, a padding token that a text spells out has the row of padding, and is not counted.
                padding = (ids == self.first_position - 1).astype(jnp.int32)
                before = jnp.cumsum(padding, axis=1, dtype=jnp.int32) - padding
                start = jnp.arange(ids.shape[1], dtype=jnp.int32)[None] - positions
                positions -= before - jnp.take_along_axis(before, start, 1)
                positions = jnp.where(padding > 0, -1, positions) + self.first_position
            x += self.position.embedding[...][positions].astype(jnp.float32)
        if self.token_type is not None:
            # Single sentences have tokens of type 0 only.
            table = self.token_type.embedding[...].astype(jnp.float32)
            x += table[None, :1] if types is None else table[types]
        if self.language is not None:
            assert languages is not None, "the model needs the language of each sentence"
            # Padding takes the language of the last place for a sentence.
            segments = jnp.minimum(mask.segments, languages.shape[1] - 1)
            x += self.language.embedding[...][jnp.take_along_axis(languages, segments, 1)].astype(jnp.float32)
        return (x if self.norm is None else self.norm(x)).astype(self.dtype)


@jax.jit
def _run_block(block: Any, x: Hidden, mask: AttentionMask, dropout: Dropout | None = None, *given: Any) -> Hidden:
    # Blocks of the same sizes are traced only once. XLA inlines the call, so the compiled program does not change.
    return block(x, mask, dropout, *given)


def sinusoids(positions: int, dim: int) -> np.ndarray:
    """Returns fixed position embeddings, ``[positions, dim]`` float32 (Vaswani et al., NIPS 2017, section 3.5)."""
    angles = np.arange(positions)[:, None] / 10_000.0 ** (2 * (np.arange(dim) // 2) / dim)[None, :]
    return np.where(np.arange(dim) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)
