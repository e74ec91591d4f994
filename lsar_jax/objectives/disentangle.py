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
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.objectives.cosine import cosine, squares, unit
from lsar_jax.objectives.disentangle_objective import ALONE, ClusterPairs, Objective, Separation

__all__ = [
    "ALONE",
    "Batch",
    "Head",
    "Heads",
    "Objective",
    "Others",
    "Parts",
    "apply_head",
    "apply_heads",
    "clustering_loss",
    "cosine",
    "discriminator_loss",
    "dream_terms",
    "meat_terms",
    "objective_terms",
    "parts_of",
    "parts_terms",
    "separation_loss",
]

_product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class Head(NamedTuple):
    """An affine map, ``y = x W^T + b``.

    Attributes:
      matrix: W, ``[out, in]``.
      offset: b, ``[out]``.
    """

    matrix: Float[Array, "out in"]
    offset: Float[Array, " out"]


class Heads(NamedTuple):
    """The meaning head and the language head."""

    meaning: Head
    language: Head


class Parts(NamedTuple):
    """The outputs of both heads for embeddings."""

    meaning: Float[Array, "vector dim"]
    language: Float[Array, "vector dim"]


class Batch(NamedTuple):
    """Embeddings of sentences and of their translations, row by row, and the index of each one's language, from 0."""

    source: Float[Array, "pair dim"]
    target: Float[Array, "pair dim"]
    source_language: Int[Array, " pair"]
    target_language: Int[Array, " pair"]


class Others(NamedTuple):
    """What DREAM compares a batch with: meanings of any other pairs, and languages of pairs in the same languages."""

    source_meaning: Float[Array, "anchor dim"]
    target_meaning: Float[Array, "anchor dim"]
    source_language: Float[Array, "anchor dim"]
    target_language: Float[Array, "anchor dim"]


def apply_head(head: Head, x: Float[Array, "vector in"]) -> Float[Array, "vector out"]:
    """Returns ``x W^T + b``."""
    return _product(x, head.matrix.T) + head.offset


def apply_heads(heads: Heads, x: Float[Array, "vector dim"]) -> Parts:
    """Returns the meaning and the language of embeddings."""
    return Parts(apply_head(heads.meaning, x), apply_head(heads.language, x))


def clustering_loss(
    source: Float[Array, "pair dim"],
    target: Float[Array, "pair dim"],
    pairs: ClusterPairs = "off_diagonal",
    target_language: Int[Array, " pair"] | None = None,
    languages: int | None = None,
) -> Float[Array, ""]:
    """Returns ORACLE's intra-class clustering, ``mean(2 - cos(s_i, s_j) - cos(t_i, t_j))`` over pairs i, j of a batch.

    The mean of all cosines is the squared length of the mean unit vector, so no matrix is built.

    Args:
      source: language embeddings of the sentences.
      target: language embeddings of their translations.
      pairs: off_diagonal, ``i != j``; all; or same_language, ``i != j`` with the same target language.
      target_language: index of each translation's language, for same_language.
      languages: number of languages, for same_language.
    """
    source, target = unit(source), unit(target)
    n = len(source)
    own = squares(source).sum() + squares(target).sum()
    if pairs == "same_language":
        if target_language is None or languages is None:
            raise ValueError("pairs is 'same_language', which needs target_language and languages")
        member = jax.nn.one_hot(target_language, languages, dtype=source.dtype)
        counts = member.sum(axis=0)
        of_languages = squares(_product(member.T, source)).sum() + squares(_product(member.T, target)).sum()
        total = (counts * (counts - 1)).sum()
        # A batch without two translations in one language has nothing to pull together.
        return jnp.where(total > 0, 2 - (of_languages - own) / jnp.maximum(total, 1), 0)
    every = squares(source.sum(axis=0, keepdims=True)).sum() + squares(target.sum(axis=0, keepdims=True)).sum()
    if pairs == "all":
        return 2 - every / n**2
    return 2 - (every - own) / max(n * (n - 1), 1)


def separation_loss(source: Parts, target: Parts, separation: Separation = "paper") -> Float[Array, ""]:
    """Returns ORACLE's inter-class separation.

    In the paper, Eq. 6, it is ``mean(max(0, cos(s_m, s_l)) + max(0, cos(t_m, t_l)))``; in its code,
    ``mean(max(0, cos(s_l, t_l)))``. The stand-alone objectives of its code add ``mean(|cos(s_m, s_l)| +
    |cos(t_m, t_l)|)`` to the latter.
    """
    if separation == "code":
        return _apart(source.language, target.language)
    if separation == "alone":
        of_parts = sum(jnp.abs(cosine(side.meaning, side.language)).mean() for side in (source, target))
        return of_parts + _apart(source.language, target.language)
    return _apart(source.meaning, source.language) + _apart(target.meaning, target.language)


def dream_terms(
    batch: Batch, source: Parts, target: Parts, others: Others, classifier: Head
) -> dict[str, Float[Array, ""]]:
    """Returns DREAM's terms by name.

    Args:
      batch: embeddings.
      source: parts of its sentences.
      target: parts of its translations.
      others: parts of other pairs, row by row.
      classifier: maps language embeddings to the scores of languages.
    """
    return {
        "meaning": _together(source.meaning, target.meaning)
        + _apart(source.meaning, others.source_meaning)
        + _apart(target.meaning, others.target_meaning),
        "reconstruction": _meansquares(source, batch.source) + _meansquares(target, batch.target),
        "language": _together(source.language, others.source_language)
        + _together(target.language, others.target_language),
        "identification": _cross_entropy(apply_head(classifier, source.language), batch.source_language)
        + _cross_entropy(apply_head(classifier, target.language), batch.target_language),
    }


def meat_terms(batch: Batch, source: Parts, target: Parts, discriminator: Head) -> dict[str, Float[Array, ""]]:
    """Returns MEAT's terms for the heads, by name.

    The gradient of ``adversarial`` goes only to the heads; at its minimum, ``2 log(languages)``, the discriminator can
    only guess.

    Args:
      batch: embeddings.
      source: parts of its sentences.
      target: parts of its translations.
      discriminator: maps meanings to the scores of languages.
    """
    fixed = jax.lax.stop_gradient(discriminator)
    return {
        "reconstruction": _together(source.meaning + source.language, batch.source)
        + _together(target.meaning + target.language, batch.target),
        "cross_reconstruction": _together(source.meaning + target.language, batch.target)
        + _together(target.meaning + source.language, batch.source),
        "language": _apart(source.language, target.language),
        "adversarial": _uniform_cross_entropy(apply_head(fixed, source.meaning))
        + _uniform_cross_entropy(apply_head(fixed, target.meaning)),
    }


def discriminator_loss(batch: Batch, source: Parts, target: Parts, discriminator: Head) -> Float[Array, ""]:
    """Returns MEAT's loss for the discriminator, which has no gradient for the heads."""
    meanings = jax.lax.stop_gradient((source.meaning, target.meaning))
    return _cross_entropy(apply_head(discriminator, meanings[0]), batch.source_language) + _cross_entropy(
        apply_head(discriminator, meanings[1]), batch.target_language
    )


def objective_terms(
    objective: Objective,
    heads: Heads,
    probe: Head,
    batch: Batch,
    random: Batch | None = None,
    same: Batch | None = None,
) -> dict[str, Float[Array, ""]]:
    """Returns every term of an objective by its name; their sum is the loss of the heads.

    Args:
      objective: selects the terms.
      heads: the heads of meaning and language.
      probe: DREAM's classifier or MEAT's discriminator, ``[languages, dim]``; it has one row per language.
      batch: embeddings.
      random: DREAM's other pairs of any language, as many as the batch has; not needed with ``halves``.
      same: DREAM's other pairs of the same languages, as many as the batch has; not needed with ``halves``.
    """
    return parts_terms(objective, *parts_of(heads, batch, random, same), probe, batch)


def parts_of(
    heads: Heads, batch: Batch, random: Batch | None = None, same: Batch | None = None
) -> tuple[Parts, Parts, Others | None]:
    """Returns the parts of both sides of a batch, and what DREAM needs from other pairs.

    Args:
      heads: the heads of meaning and language.
      batch: embeddings.
      random: other pairs of any language.
      same: other pairs of the same languages.
    """
    # One product per side: if the sides were concatenated, rows would move between the devices that share a batch.
    source, target = apply_heads(heads, batch.source), apply_heads(heads, batch.target)
    if random is None or same is None:
        return source, target, None
    meanings = (apply_head(heads.meaning, side) for side in (random.source, random.target))
    languages = (apply_head(heads.language, side) for side in (same.source, same.target))
    return source, target, Others(*meanings, *languages)


def parts_terms(
    objective: Objective, source: Parts, target: Parts, others: Others | None, probe: Head, batch: Batch
) -> dict[str, Float[Array, ""]]:
    """Returns the result of ``objective_terms`` for parts that are already computed.

    Args:
      objective: selects the terms.
      source: parts of the sentences of the batch.
      target: parts of their translations.
      others: what DREAM compares the batch with; with ``halves``, the second half of the batch is used instead.
      probe: as for ``objective_terms``.
      batch: embeddings.
    """
    terms: dict[str, Float[Array, ""]] = {}
    if objective.base == "dream":
        anchors = len(batch.source)
        if objective.halves:
            anchors //= 2
            others = Others(*(x[anchors : 2 * anchors] for pair in zip(source, target, strict=True) for x in pair))
        if others is None:
            raise ValueError("DREAM compares a batch with other pairs, but random and same are missing")
        first, second = (Parts(*(x[:anchors] for x in side)) for side in (source, target))
        terms |= dream_terms(Batch(*(x[:anchors] for x in batch)), first, second, others, probe)
    elif objective.base == "meat":
        terms |= meat_terms(batch, source, target, probe)
    if objective.oracle:
        pairs = objective.clustering
        terms["clustering"] = clustering_loss(
            source.language, target.language, pairs, batch.target_language, len(probe.offset)
        )
        terms["separation"] = separation_loss(source, target, objective.separation)
        terms["agreement"] = _together(source.meaning, target.meaning)
    return {name: terms[name] for name in objective.terms}


def _together(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, ""]:
    """Returns CEL+, ``mean(1 - cos)``."""
    return (1 - cosine(x, y)).mean()


def _apart(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, ""]:
    """Returns CEL-, ``mean(max(0, cos))``."""
    return jax.nn.relu(cosine(x, y)).mean()


def _meansquares(parts: Parts, x: Float[Array, "vector dim"]) -> Float[Array, ""]:
    return ((parts.meaning + parts.language - x) ** 2).mean()


def _cross_entropy(scores: Float[Array, "vector language"], language: Int[Array, " vector"]) -> Float[Array, ""]:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), language[:, None], axis=1).mean()


def _uniform_cross_entropy(scores: Float[Array, "vector language"]) -> Float[Array, ""]:
    return -jax.nn.log_softmax(scores).mean()
