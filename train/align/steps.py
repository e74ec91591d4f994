"""One step of an encoder's alignment: embeddings of the chunks, the loss of the batch, gradients, and Adam.

The loss needs the embeddings of the whole batch at once, because each is contrasted with all others, but the encoder
does not. Each chunk is encoded, the gradient of the loss with respect to the embeddings is computed, and each chunk's
part of it is backpropagated through the encoder (Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory
Limited Setup", RepL4NLP 2021), which gives the gradient of the whole batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from lsar_jax.mesh import placed, replicated, split
from lsar_jax.models.dropout import Dropout
from lsar_jax.models.pooling import pool
from lsar_jax.objectives import align
from lsar_jax.objectives.align import Projector
from lsar_jax.objectives.language_penalty import LanguageMeans, language_penalty
from lsar_jax.tokens.tokenizer import Specials
from train.adam import updated
from train.align.batches import Chunk, PairBatch
from train.align.exchange import cut, joined
from train.align.links_loss import EncoderObjective, links_loss
from train.align.options import AlignOptions
from train.defaults import known
from train.encoder_parameters import WORDS, ApartEncoder, Parameters

__all__ = ["AlignmentState", "EncoderObjective", "EncoderSteps", "StepOptions", "Terms"]

Terms = dict[str, Float[Array, ""]]

# The gradients of word embeddings are padded to multiples of this many positions, divided by the devices, on each.
_POSITIONS = 4096


class AlignmentState(NamedTuple):
    """The parameters and statistics that a step changes.

    The projector serves the contrastive losses of words, and the means the penalty on the subspace of the languages;
    None without them.
    """

    encoder: Parameters
    projector: Projector | None
    optimizer: Any
    means: LanguageMeans | None


@dataclass(frozen=True)
class StepOptions:
    """The objective and its options, and the layer, pooling and special tokens of the encoder.

    Attributes:
      options: the options, complete.
      projected: width of the projections of the contrastive losses of words.
      prompt: number of tokens at the beginning of each sentence that are not pooled.
      languages, dim: number of languages, with English, and width of the embeddings, for the penalty on languages.
    """

    objective: EncoderObjective
    layer: int
    pooling: str
    specials: Specials
    options: AlignOptions
    projected: int = 128
    prompt: int = 0
    languages: int = 0
    dim: int = 0


class EncoderSteps:
    """The programs of a step; ``whole`` is the step of a batch of one chunk, as one program."""

    def __init__(self, encoder: ApartEncoder, options: StepOptions, schedule: optax.Schedule, mesh: Mesh) -> None:
        self._skeleton, trained, frozen = encoder
        self.objective, self._options, self._mesh, self._adam = options.objective, options, mesh, optax.adam(schedule)
        self._frozen = placed(frozen, replicated(mesh))
        self._stay_close = known(options.options.stay_close)
        self._start: Parameters = placed(trained, replicated(mesh)) if self._stay_close else {}
        self._init = jax.jit(self.unplaced)
        self._encode = jax.jit(self._chunk)
        self._encode_kept = jax.jit(self._vjp)
        self._back = jax.jit(_back, donate_argnums=0)
        self._scatter = jax.jit(_scatter)
        self._compare = jax.jit(jax.value_and_grad(self._losses, has_aux=True))
        self._loss = jax.jit(partial(links_loss, options.objective, mesh))
        self._update = jax.jit(self._updated, donate_argnums=0)
        # One program for a batch of one chunk. Several are driven from the host, with programs for each shape of a
        # chunk, and for each number of embeddings, links and positions, which are rounded up so that they are few.
        self.whole = jax.jit(self._take, donate_argnums=0)

    def init(self, trained: Parameters, key: Array) -> AlignmentState:
        """Returns the state before the first step, on the devices; the parameters are copied."""
        return self.everywhere(self._init(trained, key))

    def unplaced(self, trained: Parameters, key: Array) -> AlignmentState:
        """Returns the state before the first step, wherever its parameters are."""
        encoder = jax.tree.map(jnp.copy, trained)
        projector = None
        if self._options.objective in ("weak", "strong"):
            width = (trained | self._frozen)[WORDS].shape[1]
            projector = align.init_projector(key, width, self._options.projected)
        options = self._options
        means = LanguageMeans.start(options.languages, options.dim) if options.options.language_penalty else None
        return AlignmentState(encoder, projector, self._adam.init((encoder, projector)), means)

    def step(self, state: AlignmentState, batch: PairBatch, key: Array) -> tuple[AlignmentState, Terms]:
        """Takes one step; returns the new state and the loss terms. The buffers of the state are donated."""
        take = self.whole if len(batch.chunks) == 1 else self._take
        with jax.numpy_dtype_promotion("standard"):  # in bfloat16, jax's attention mixes dtypes on its way back too
            return take(state, self.place(batch), key, self._frozen, self._start)

    def loss(self, state: AlignmentState, batch: PairBatch) -> Float[Array, ""]:
        """Returns the loss of a batch, without dropout and without what keeps the encoder close to its start."""
        placed = self.place(batch)
        outputs = [self._encode(state.encoder, state.projector, self._frozen, chunk, None) for chunk in placed.chunks]
        embeddings = joined(outputs, self._mesh.size, len(batch.filler))
        return self._loss(embeddings, placed.source, placed.target, placed.valid)

    def everywhere(self, arrays: Any) -> Any:
        """Returns a tree of arrays on all devices."""
        return placed(arrays, replicated(self._mesh))

    def place(self, batch: PairBatch) -> PairBatch:
        """Returns the batch with its chunks split over the devices, and its links on all of them."""
        chunks, language = placed((batch.chunks, batch.language), split(self._mesh))
        source, target, valid = placed((batch.source, batch.target, batch.valid), replicated(self._mesh))
        return batch._replace(chunks=chunks, source=source, target=target, valid=valid, language=language)

    def _take(
        self, state: AlignmentState, batch: PairBatch, key: Array, frozen: Parameters, start: Parameters
    ) -> tuple[AlignmentState, Terms]:
        encoded = [
            self._encode_kept(state.encoder, state.projector, frozen, chunk, jax.random.fold_in(key, number))
            for number, chunk in enumerate(batch.chunks)
        ]
        devices = self._mesh.size
        embeddings = joined([embedded for embedded, _ in encoded], devices, len(batch.filler))
        links = batch.source, batch.target, batch.valid
        (_, (losses, means)), gradients = self._compare(embeddings, links, batch.language, state.means)
        total = jax.tree.map(jnp.zeros_like, (_without_words(state.encoder), state.projector))
        first, looked_up = 0, []
        # Each chunk's part of the gradient goes back through the encoder on its own.
        for embedded, back in encoded:
            total, words = self._back(total, cut(gradients, devices, len(embedded), first), back)
            first += len(embedded) // devices
            looked_up.append(words)
        encoder, projector = total
        if WORDS in state.encoder:
            # The ids and the gradients of all tokens, with zeros up to one of a few lengths.
            on_each = sum(chunk.ids.size for chunk in batch.chunks) // devices
            filler = -on_each % -(-_POSITIONS // devices)
            ids = [jnp.asarray(chunk.ids).reshape(-1) for chunk in batch.chunks]
            encoder[WORDS] = self._scatter(
                state.encoder[WORDS], joined(ids, devices, filler), joined(looked_up, devices, filler)
            )
        new, drift = self._update(state._replace(means=means), (encoder, projector), start)
        return new, losses | ({"parameter_drift": drift} if self._stay_close else {})

    def _chunk(
        self, trained: Parameters, projector: Projector | None, frozen: Parameters, chunk: Chunk, key: Array | None,
        words: Float[Array, "batch length dim"] | None = None,
    ) -> Float[Array, "embedding dim"]:  # fmt: skip
        """Returns the vectors by which a chunk is compared."""
        options, share = self._options, known(self._options.options.dropout)
        dropout = Dropout(key, share, share) if key is not None and share else None
        model, projection = self._skeleton.filled({**trained, **frozen})
        with jax.default_matmul_precision("float32" if model.dtype == jnp.float32 else None):
            states = model.hidden_states(
                jnp.asarray(chunk.ids), chunk.lengths, words=words, dropout=dropout, remat=options.options.remat
            )
            hidden = next(islice(states, options.layer, None))
        if options.objective == "sentence":
            vectors = pool(options.pooling, hidden, chunk.lengths, options.specials, options.prompt)
            embeddings = vectors.reshape(-1, vectors.shape[2])
            if projection is not None:
                embeddings = projection(embeddings)
        else:
            embeddings = chunk.picked(hidden).astype(jnp.float32)
            if projector is not None:
                embeddings = align.project(projector, embeddings)
        if self._mesh.size > 1:  # each device keeps its own
            embeddings = jax.lax.with_sharding_constraint(embeddings, split(self._mesh))
        return embeddings

    def _vjp(
        self, trained: Parameters, projector: Projector | None, frozen: Parameters, chunk: Chunk, key: Array
    ) -> tuple[Array, Callable[..., Any]]:
        """Returns the result of ``_chunk``, and its way back to parameters, projector and the words looked up."""
        others = _without_words(trained)
        # The rows of this chunk alone: the gradient of the whole table would be written for each chunk.
        table = {name: value for name, value in trained.items() if name not in others}
        words = table[WORDS][chunk.ids] if table else None

        def encode(others: Parameters, projector: Projector | None, words: Array | None) -> Array:
            return self._chunk({**others, **table}, projector, frozen, chunk, key, words)

        return jax.vjp(encode, others, projector, words)

    def _losses(
        self, embeddings: Array, links: tuple[Array, Array, Array], language: Array, means: LanguageMeans | None
    ) -> tuple[Float[Array, ""], tuple[Terms, LanguageMeans | None]]:
        """Returns the loss of a batch with the penalty on languages, both apart, and the means with this batch."""
        terms: Terms = {self._options.objective: self._loss(embeddings, *links)}
        if means is not None:
            means = means.update(embeddings, language)
            penalty = language_penalty(embeddings, means, language)
            terms["language_penalty"] = known(self._options.options.language_penalty) * penalty
        return sum(terms.values(), jnp.zeros((), jnp.float32)), (terms, means)

    def _updated(
        self, state: AlignmentState, gradients: tuple[Parameters, Projector | None], start: Parameters
    ) -> tuple[AlignmentState, Float[Array, ""]]:
        drift = jnp.zeros((), jnp.float32)
        of_encoder, of_projector = gradients
        if self._stay_close:
            measure = partial(align.parameter_drift, start=start)
            drift, pull = jax.value_and_grad(lambda encoder: self._stay_close * measure(encoder))(state.encoder)
            of_encoder = jax.tree.map(jnp.add, of_encoder, pull)
        values = (state.encoder, state.projector)
        (encoder, projector), optimizer = updated(self._adam, (of_encoder, of_projector), state.optimizer, values)
        new = AlignmentState(encoder, projector, optimizer, state.means)
        if self._mesh.size > 1:
            new = jax.lax.with_sharding_constraint(new, replicated(self._mesh))
        return new, drift


def _without_words(parameters: Parameters) -> Parameters:
    return {name: value for name, value in parameters.items() if name != WORDS}


def _back(total: Any, gradient: Any, back: Callable[..., Any]) -> tuple[Any, Array | None]:
    others, projector, words = back(gradient)
    # Token by token, as the table takes them; reshaped on the host, they would be copied.
    words = None if words is None else words.reshape(-1, words.shape[-1])
    return jax.tree.map(jnp.add, total, (others, projector)), words


def _scatter(
    table: Float[Array, "word dim"], ids: Int[Array, " position"], rows: Float[Array, "position dim"]
) -> Float[Array, "word dim"]:
    return jnp.zeros_like(table).at[ids].add(rows)
