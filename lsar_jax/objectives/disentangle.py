"""Losses of two heads that split embeddings into meaning and language: DREAM, MEAT and ORACLE.

A head is an affine map. From an embedding e of a sentence s or of its translation t, one head extracts the meaning m
and the other the language l. Embeddings are pulled together by CEL+ = mean(1 - cos), and pushed apart by
CEL- = mean(max(0, cos)).

- DREAM (Tiyajamorn, Kajiwara, Arase and Onizuka, EMNLP 2021) reconstructs e with the mean squared error, contrasts the
  meaning of a translation with others, pulls the language embeddings of a language together, and classifies them.
- MEAT (Kuroda, Kajiwara, Arase and Ninomiya, COLING 2022) reconstructs e by cosine, also across the two sides, and
  hides the language of a meaning embedding from a discriminator. The discriminator and the heads are trained in turns;
  no gradient is reversed.
- ORACLE (Ki, Park and Kim, "Mitigating Semantic Leakage in Cross-lingual Embeddings via Orthogonality Constraint",
  RepL4NLP 2024) clusters the language embeddings of a batch. It makes them orthogonal to the meaning embeddings
  (Eq. 6), or, in its released code, those of the two sides orthogonal to each other. The code's stand-alone
  objectives, without all terms of a base, are in ``ALONE``.

All functions are pure, for ``jit``, ``vmap`` and ``grad``; gradients are finite at zero vectors.

Example:
  >>> from lsar_jax.objectives import disentangle
  >>> x, y = jax.random.normal(jax.random.key(0), (2, 6, 4))  # six sentences and their translations
  >>> batch = disentangle.TranslationBatch(x, y, jnp.zeros(6, int), jnp.ones(6, int))  # in the languages 0 and 1
  >>> half = disentangle.Head(jnp.eye(4) / 2, jnp.zeros(4))
  >>> heads = disentangle.Heads(half, half)  # half of an embedding for its meaning, half for its language
  >>> probe = disentangle.Head(jnp.zeros((2, 4)), jnp.zeros(2))  # guesses the language
  >>> terms = disentangle.objective_terms(disentangle.Objective("meat"), heads, probe, batch)
  >>> list(terms)
  ['reconstruction', 'cross_reconstruction', 'language', 'adversarial', 'clustering', 'separation']
  >>> [abs(round(float(terms[name]), 2)) for name in ("reconstruction", "adversarial")]  # the latter is 2 log 2
  [0.0, 1.39]
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.objectives.cosine import apart, together
from lsar_jax.objectives.heads import Head, HeadOutputs, Heads, apply_head, apply_heads
from lsar_jax.objectives.objective import ALONE, Objective
from lsar_jax.objectives.oracle import clustering_loss, separation_loss

__all__ = [
    "ALONE", "BatchOutputs", "Head", "HeadOutputs", "Heads", "Objective", "TranslationBatch", "apply_head",
    "apply_heads", "clustering_loss", "discriminator_loss", "head_outputs", "objective_terms", "outputs_terms",
    "separation_loss",
]  # fmt: skip


class TranslationBatch(NamedTuple):
    """Embeddings of sentences and their translations ``[pair, dim]``, and the index of each one's language, from 0."""

    source: Float[Array, "pair dim"]
    target: Float[Array, "pair dim"]
    source_language: Int[Array, " pair"]
    target_language: Int[Array, " pair"]


class BatchOutputs(NamedTuple):
    """The outputs of both heads for a batch, and for the pairs that DREAM compares it with; None without them.

    The meanings of ``others`` are of pairs in any language, and their languages of pairs in the batch's languages.
    """

    source: HeadOutputs
    target: HeadOutputs
    others: tuple[HeadOutputs, ...] | None


def discriminator_loss(
    batch: TranslationBatch, source: HeadOutputs, target: HeadOutputs, discriminator: Head
) -> Float[Array, ""]:
    """Returns MEAT's loss for the discriminator, W ``[language, dim]``, in nats; the heads get no gradient of it."""
    meanings = jax.lax.stop_gradient((source.meaning, target.meaning))
    return _cross_entropy(apply_head(discriminator, meanings[0]), batch.source_language) + _cross_entropy(
        apply_head(discriminator, meanings[1]), batch.target_language
    )


def objective_terms(
    objective: Objective,
    heads: Heads,
    probe: Head,
    batch: TranslationBatch,
    random: TranslationBatch | None = None,
    same: TranslationBatch | None = None,
    *,
    weight: float | Float[Array, ""] = 1.0,
) -> dict[str, Float[Array, ""]]:
    """Returns every term of an objective by its name; their sum is the loss of the heads.

    Args:
      objective: selects the terms.
      heads: the heads of meaning and language.
      probe: DREAM's classifier or MEAT's discriminator, W ``[language, dim]``.
      batch: embeddings, ``[pair, dim]`` a side, and their languages.
      random: DREAM's other pairs of any language, as many as the batch has; not needed with ``halves``.
      same: DREAM's other pairs of the same languages, as many.
      weight: of the terms of ORACLE; the paper's is 1. It may be traced, as under ``vmap`` over several.

    Raises:
      ValueError: the base is DREAM without ``halves``, and ``random`` or ``same`` is missing.
    """
    return outputs_terms(objective, head_outputs(heads, batch, random, same), probe, batch, weight)


def head_outputs(
    heads: Heads, batch: TranslationBatch, random: TranslationBatch | None = None, same: TranslationBatch | None = None
) -> BatchOutputs:
    """Returns the outputs for both sides of a batch, and for other pairs if both kinds are given."""
    # One product per side: if the sides were concatenated, rows would move between the devices that share a batch.
    source, target = apply_heads(heads, batch.source), apply_heads(heads, batch.target)
    if random is None or same is None:
        return BatchOutputs(source, target, None)
    meanings = (apply_head(heads.meaning, side) for side in (random.source, random.target))
    languages = (apply_head(heads.language, side) for side in (same.source, same.target))
    return BatchOutputs(source, target, tuple(map(HeadOutputs, meanings, languages)))


def outputs_terms(
    objective: Objective, outputs: BatchOutputs, probe: Head, batch: TranslationBatch,
    weight: float | Float[Array, ""] = 1.0,
) -> dict[str, Float[Array, ""]]:  # fmt: skip
    """Returns the result of ``objective_terms`` for the outputs of the heads, each ``[pair, dim]``.

    Raises:
      ValueError: the base is DREAM without ``halves``, and there are no outputs for other pairs.
    """
    source, target, others = outputs
    terms: dict[str, Float[Array, ""]] = {}
    if objective.base == "dream":
        anchors = len(batch.source)
        if objective.halves:
            anchors //= 2
            others = tuple(HeadOutputs(*(x[anchors : 2 * anchors] for x in side)) for side in (source, target))
        if others is None:
            raise ValueError("DREAM compares a batch with other pairs, but random and same are missing")
        sides = [HeadOutputs(*(x[:anchors] for x in side)) for side in (source, target)]
        terms |= _dream_terms(TranslationBatch(*(x[:anchors] for x in batch)), sides, others, probe)
    elif objective.base == "meat":
        terms |= _meat_terms(batch, source, target, probe)
    if objective.oracle:
        oracle = {
            "clustering": clustering_loss(
                source.language, target.language, objective.clustering, batch.target_language, len(probe.offset)
            ),
            "separation": separation_loss(source, target, objective.separation),
            "agreement": together(source.meaning, target.meaning),
        }
        terms |= {name: weight * value for name, value in oracle.items()}
    return {name: terms[name] for name in objective.terms}


def _dream_terms(
    batch: TranslationBatch, sides: Sequence[HeadOutputs], others: Sequence[HeadOutputs], classifier: Head
) -> dict[str, Float[Array, ""]]:
    source, target = sides
    return {
        "meaning": together(source.meaning, target.meaning)
        + apart(source.meaning, others[0].meaning)
        + apart(target.meaning, others[1].meaning),
        "reconstruction": _mean_squares(source, batch.source) + _mean_squares(target, batch.target),
        "language": together(source.language, others[0].language) + together(target.language, others[1].language),
        "identification": _cross_entropy(apply_head(classifier, source.language), batch.source_language)
        + _cross_entropy(apply_head(classifier, target.language), batch.target_language),
    }


def _meat_terms(
    batch: TranslationBatch, source: HeadOutputs, target: HeadOutputs, discriminator: Head
) -> dict[str, Float[Array, ""]]:
    # The adversarial term trains the heads alone; at its minimum, 2 log(languages), the discriminator can only guess.
    fixed = jax.lax.stop_gradient(discriminator)
    return {
        "reconstruction": together(source.meaning + source.language, batch.source)
        + together(target.meaning + target.language, batch.target),
        "cross_reconstruction": together(source.meaning + target.language, batch.target)
        + together(target.meaning + source.language, batch.source),
        "language": apart(source.language, target.language),
        "adversarial": _uniform_cross_entropy(apply_head(fixed, source.meaning))
        + _uniform_cross_entropy(apply_head(fixed, target.meaning)),
    }


def _mean_squares(parts: HeadOutputs, x: Float[Array, "vector dim"]) -> Float[Array, ""]:
    return ((parts.meaning + parts.language - x) ** 2).mean()


def _cross_entropy(scores: Float[Array, "vector language"], language: Int[Array, " vector"]) -> Float[Array, ""]:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), language[:, None], axis=1).mean()


def _uniform_cross_entropy(scores: Float[Array, "vector language"]) -> Float[Array, ""]:
    return -jax.nn.log_softmax(scores).mean()
