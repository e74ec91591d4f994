"""Graph-based dependency parsing: biaffine scores of arcs and labels, and their loss.

Dozat and Manning, "Deep Biaffine Attention for Neural Dependency Parsing", ICLR 2017, with the sizes of Wu and Dredze
(EMNLP 2020): arcs of width 512 and labels of width 128, ELU, and dropout of 0.33 with one mask for all words of a
sentence. Position 0 stands for the root, for which the state of the first token is taken; it has no head itself. The
tree is found outside of ``jit``, as a maximum spanning arborescence of the exponentials of ``best_arcs``.

All functions are pure, for ``jit``, ``vmap`` and ``grad``. Scores are float32.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

__all__ = ["ArcScores", "Biaffine", "Layer", "best_arcs", "biaffine_scores", "init_biaffine", "parse_loss"]

States = Float[Array, "batch word dim"]

_product = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
# The score of what is no head; its exponential is 0.
_EXCLUDED = -1e9


class Layer(NamedTuple):
    """A dense layer, ``x W + b``.

    Attributes:
      kernel: W, ``[in, out]``.
      bias: b, ``[out]``.
    """

    kernel: Float[Array, "inner outer"]
    bias: Float[Array, " outer"]


class Biaffine(NamedTuple):
    """The parameters of the scorer.

    Attributes:
      arc_head, arc_dependent: layers that turn a state into what it is as the head, or the dependent, of an arc.
      label_head, label_dependent: the same for labels.
      arc: bilinear form of a dependent and a head, each with a 1 appended, ``[arc + 1, arc + 1]``.
      label: bilinear form of a head and a dependent for each label, ``[label, width, width]``.
      label_bias: a score of each label, ``[label]``.
    """

    arc_head: Layer
    arc_dependent: Layer
    label_head: Layer
    label_dependent: Layer
    arc: Float[Array, "arc arc"]
    label: Float[Array, "label width width"]
    label_bias: Float[Array, " label"]


class ArcScores(NamedTuple):
    """Scores of a sentence, position 0 being the root.

    Attributes:
      arcs: score of each head (last axis) of each word, ``[batch, word, word]``; very low where there is no word.
      head, dependent: what the label of an arc is scored from, ``[batch, word, width]``.
    """

    arcs: Float[Array, "batch word word"]
    head: Float[Array, "batch word width"]
    dependent: Float[Array, "batch word width"]


def init_biaffine(key: Array, dim: int, labels: int, arc: int = 512, width: int = 128) -> Biaffine:
    """Returns random parameters for states of width ``dim``; arcs are scored from width ``arc``, labels from ``width``.

    Kernels follow Glorot and Bengio's (AISTATS 2010) uniform distribution; biases are zero.
    """
    keys = iter(jax.random.split(key, 6))

    def uniform(shape: tuple[int, ...], inner: int, outer: int) -> Array:
        bound = (6 / (inner + outer)) ** 0.5
        return jax.random.uniform(next(keys), shape, jnp.float32, -bound, bound)

    layers = [Layer(uniform((dim, out), dim, out), jnp.zeros(out, jnp.float32)) for out in (arc, arc, width, width)]
    bilinear = uniform((arc + 1, arc + 1), arc + 1, arc + 1)
    label = uniform((labels, width, width), width, width)
    return Biaffine(layers[0], layers[1], layers[2], layers[3], bilinear, label, jnp.zeros(labels, jnp.float32))


def biaffine_scores(
    parameters: Biaffine,
    states: States,
    words: Bool[Array, "batch word"],
    key: Array | None = None,
    dropout: float = 0.33,
) -> ArcScores:
    """Returns the scores of all arcs, and what labels are scored from.

    Args:
      parameters: the scorer.
      states: hidden state of the root, at position 0, and of each word, ``[batch, word, dim]``.
      words: whether there is a word, ``[batch, word]``; True at position 0.
      key: random key of the dropout; None for none.
      dropout: share of the dimensions to zero, from 0 to 1, the same for all words of a sentence.
    """
    keys = [None] * 4 if key is None else list(jax.random.split(key, 4))

    def output(layer: Layer, key: Array | None) -> States:
        x = jax.nn.elu(_product("bwd,de->bwe", states.astype(jnp.float32), layer.kernel) + layer.bias[None, None])
        if key is None or not dropout:
            return x
        mask = jax.random.bernoulli(key, 1 - dropout, (x.shape[0], 1, x.shape[2]))
        return jnp.where(mask, x / (1 - dropout), 0)

    head, dependent, label_head, label_dependent = map(output, parameters[:4], keys)
    ones = jnp.ones((*head.shape[:2], 1), head.dtype)
    head, dependent = (jnp.concatenate([side, ones], axis=-1) for side in (head, dependent))
    arcs = _product("bie,ef,bjf->bij", dependent, parameters.arc, head)
    allowed = words[:, None, :] & ~jnp.eye(arcs.shape[1], dtype=bool)[None]
    return ArcScores(jnp.where(allowed, arcs, _EXCLUDED), label_head, label_dependent)


def parse_loss(
    parameters: Biaffine,
    scores: ArcScores,
    heads: Int[Array, "batch word"],
    labels: Int[Array, "batch word"],
    words: Bool[Array, "batch word"],
) -> Float[Array, ""]:
    """Returns the cross-entropies of heads and of the right arcs' labels, summed; each is a mean over words in nats.

    Args:
      parameters: the scorer.
      scores: what ``biaffine_scores`` returned.
      heads: position of the head of each word, ``[batch, word]``; 0 is the root.
      labels: label of each word, ``[batch, word]``.
      words: whether a word counts, ``[batch, word]``; False at position 0, and for words whose head was cut off.
    """
    arc = jax.nn.log_softmax(scores.arcs, axis=-1)
    of_arc = jnp.take_along_axis(arc, heads[..., None], axis=-1)[..., 0]
    head = jnp.take_along_axis(scores.head, heads[..., None], axis=1)
    label = _product("bie,lef,bif->bil", head, parameters.label, scores.dependent) + parameters.label_bias[None, None]
    of_label = jnp.take_along_axis(jax.nn.log_softmax(label, axis=-1), labels[..., None], axis=-1)[..., 0]
    return -jnp.where(words, of_arc + of_label, 0).sum() / jnp.maximum(words.sum(), 1).astype(of_arc.dtype)


def best_arcs(
    parameters: Biaffine, scores: ArcScores
) -> tuple[Float[Array, "batch word word"], Int[Array, "batch word word"]]:
    """Returns, for each word and head, the log-probability of the arc with its best label, and that label.

    Both are ``[batch, word, head]``, of what ``biaffine_scores`` returned.
    """
    arc = jax.nn.log_softmax(scores.arcs, axis=-1)

    def sentence(head: Float[Array, "word width"], dependent: Float[Array, "word width"]) -> tuple[Array, Array]:
        labels = _product("je,lef,if->ijl", head, parameters.label, dependent) + parameters.label_bias[None, None]
        labels = jax.nn.log_softmax(labels, axis=-1)
        return labels.max(axis=-1), labels.argmax(axis=-1).astype(jnp.int32)

    label, best = jax.lax.map(lambda sides: sentence(*sides), (scores.head, scores.dependent))
    return arc + label, best
