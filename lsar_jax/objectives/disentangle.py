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

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.objectives.cosine import cosine, squares, unit

__all__ = [
    "ALONE", "Head", "HeadOutputs", "Heads", "Objective", "OtherPairs", "TranslationBatch", "apply_head", "apply_heads",
    "clustering_loss", "discriminator_loss", "head_outputs", "objective_terms", "outputs_terms", "separation_loss",
]  # fmt: skip

Base = Literal["dream", "meat", "none"]
Separation = Literal["paper", "code", "alone"]
ClusterPairs = Literal["off_diagonal", "all", "same_language"]

_TERMS: dict[Base, tuple[str, ...]] = {
    "dream": ("meaning", "reconstruction", "language", "identification"),
    "meat": ("reconstruction", "cross_reconstruction", "language", "adversarial"),
    "none": (),
}

_product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


@dataclass(frozen=True)
class Objective:
    """The losses that are summed, all with weight 1, but for those of ORACLE if another is given.

    Attributes:
      base: dream, meat, or none for ORACLE alone.
      oracle: whether to add ORACLE's clustering and separation.
      separation: what ORACLE separates: with paper, meaning embeddings from language embeddings (Eq. 6); with code, the
        language embedding of a sentence from that of its translation; with alone, both, as in the stand-alone
        objectives of its code, with a term named agreement that pulls the meanings of translations together.
      clustering: pairs of sentences in a batch to pull together: off_diagonal, all except a sentence with itself, as in
        the paper; all, as in its code; or same_language, those with the same target language.
      without: names of terms to leave out, for ablations.
      halves: whether DREAM compares the first half of a batch with the second, as ORACLE's code does, instead of each
        pair with one of any language and one of the same languages.

    Raises:
      ValueError: a term is unknown, no term is left, or an option does not apply to this objective.

    Example:
      >>> from lsar_jax.objectives.disentangle import Objective
      >>> Objective("meat", oracle=False).terms
      ('reconstruction', 'cross_reconstruction', 'language', 'adversarial')
      >>> Objective("dream", separation="code", without=("language",)).name
      'dream + oracle (code) - language'
    """

    base: Base = "meat"
    oracle: bool = True
    separation: Separation = "paper"
    clustering: ClusterPairs = "off_diagonal"
    without: tuple[str, ...] = ()
    halves: bool = False

    def __post_init__(self) -> None:
        choices = {"base": Base, "separation": Separation, "clustering": ClusterPairs}
        for name, known in choices.items():
            if (value := getattr(self, name)) not in get_args(known):
                raise ValueError(f"{name} is {value!r}; choose one of {', '.join(get_args(known))}")
        if not self.oracle and (self.separation, self.clustering) != ("paper", "off_diagonal"):
            raise ValueError("separation and clustering apply only to ORACLE; add oracle, or leave them out")
        if self.halves and self.base != "dream":
            raise ValueError("halves applies only to DREAM; leave it out")
        if unknown := [name for name in self.without if name not in self._all_terms]:
            raise ValueError(f"without is {unknown[0]!r}; the terms are {', '.join(self._all_terms) or 'none'}")
        if not self.terms:
            raise ValueError("no term is left; choose a base or add oracle, and keep at least one of their terms")

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms that are summed."""
        return tuple(name for name in self._all_terms if name not in self.without)

    @property
    def _all_terms(self) -> tuple[str, ...]:
        """The names of the terms from which some may be left out."""
        oracle = ("clustering", "separation", *(("agreement",) if self.separation == "alone" else ()))
        return (*_TERMS[self.base], *(oracle if self.oracle else ()))

    @property
    def adversarial(self) -> bool:
        """Whether a discriminator is trained in turns with the heads."""
        return "adversarial" in self.terms

    @property
    def name(self) -> str:
        """The name of the objective in tables and files."""
        for name, alone in ALONE.items():
            if set(alone.without) == set(self.without) and alone == replace(self, without=alone.without):
                return f"oracle {name}"
        parts: list[str] = [] if self.base == "none" else [self.base + (" (halves)" if self.halves else "")]
        if self.oracle:
            shown = self.separation if "separation" not in self.without else "no separation"
            parts.append(f"oracle ({shown}{'' if self.clustering == 'off_diagonal' else f', {self.clustering}'})")
        left = [name for name in self.without if name != "separation"]
        return " + ".join(parts) + "".join(f" - {name}" for name in left)


_PARTLY = ("reconstruction", "identification")

# The stand-alone objectives of ORACLE's released code, by the names of its classes; none of its configurations uses
# them, and weights of 1 are ours. All of them train the head of meaning: the first by agreement alone, the fourth with
# MEAT's adversarial term, the others with DREAM's term of meaning.
ALONE = {
    "alone1": Objective("none", True, "alone", "all"),
    "alone2": Objective("dream", True, "alone", "all", (*_PARTLY, "language", "clustering", "agreement"), halves=True),
    "alone3": Objective("dream", True, "alone", "all", (*_PARTLY, "clustering", "agreement"), halves=True),
    "alone4": Objective("meat", True, "alone", "all", ("reconstruction", "cross_reconstruction", "language")),
    "alone5": Objective("dream", True, "alone", "all", _PARTLY, halves=True),
}


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


class HeadOutputs(NamedTuple):
    """The outputs of both heads for embeddings, each ``[vector, dim]``."""

    meaning: Float[Array, "vector dim"]
    language: Float[Array, "vector dim"]


class TranslationBatch(NamedTuple):
    """Embeddings of sentences and their translations ``[pair, dim]``, and the index of each one's language, from 0."""

    source: Float[Array, "pair dim"]
    target: Float[Array, "pair dim"]
    source_language: Int[Array, " pair"]
    target_language: Int[Array, " pair"]


class OtherPairs(NamedTuple):
    """The outputs that DREAM compares a batch with: meanings of any pairs, and languages of pairs in its languages."""

    source_meaning: Float[Array, "anchor dim"]
    target_meaning: Float[Array, "anchor dim"]
    source_language: Float[Array, "anchor dim"]
    target_language: Float[Array, "anchor dim"]


def apply_head(head: Head, x: Float[Array, "vector in"]) -> Float[Array, "vector out"]:
    """Returns ``x W^T + b``, ``[vector, out]``, for x ``[vector, in]``."""
    return _product(x, head.matrix.T) + head.offset


def apply_heads(heads: Heads, x: Float[Array, "vector dim"]) -> HeadOutputs:
    """Returns the meaning and the language of embeddings ``[vector, dim]``."""
    return HeadOutputs(apply_head(heads.meaning, x), apply_head(heads.language, x))


def clustering_loss(
    source: Float[Array, "pair dim"], target: Float[Array, "pair dim"], pairs: ClusterPairs = "off_diagonal",
    target_language: Int[Array, " pair"] | None = None, languages: int | None = None,
) -> Float[Array, ""]:  # fmt: skip
    """Returns ORACLE's intra-class clustering, ``mean(2 - cos(s_i, s_j) - cos(t_i, t_j))`` over pairs i, j of a batch.

    The mean of all cosines is the squared length of the mean unit vector, so no matrix is built.

    Args:
      source: language embeddings of the sentences, ``[pair, dim]``.
      target: language embeddings of their translations, ``[pair, dim]``.
      pairs: off_diagonal, ``i != j``; all; or same_language, ``i != j`` with the same target language.
      target_language: index of each translation's language, ``[pair]``, for same_language.
      languages: number of languages, for same_language.

    Returns:
      A scalar, from 0 (all language embeddings of a side point the same way) to 4.

    Raises:
      ValueError: ``pairs`` is same_language, and ``target_language`` or ``languages`` is missing.
    """
    source, target = unit(source), unit(target)
    n = len(source)
    diagonal = squares(source).sum() + squares(target).sum()
    if pairs == "same_language":
        if target_language is None or languages is None:
            raise ValueError("pairs is 'same_language', which needs target_language and languages")
        member = jax.nn.one_hot(target_language, languages, dtype=source.dtype)
        counts = member.sum(axis=0)
        of_languages = squares(_product(member.T, source)).sum() + squares(_product(member.T, target)).sum()
        same = (counts * (counts - 1)).sum()
        # A batch without two translations in one language has nothing to pull together.
        return jnp.where(same > 0, 2 - (of_languages - diagonal) / jnp.maximum(same, 1), 0)
    total = squares(source.sum(axis=0, keepdims=True)).sum() + squares(target.sum(axis=0, keepdims=True)).sum()
    if pairs == "all":
        return 2 - total / n**2
    return 2 - (total - diagonal) / max(n * (n - 1), 1)


def separation_loss(source: HeadOutputs, target: HeadOutputs, separation: Separation = "paper") -> Float[Array, ""]:
    """Returns ORACLE's inter-class separation.

    In the paper, Eq. 6, it is ``mean(max(0, cos(s_m, s_l)) + max(0, cos(t_m, t_l)))``; in its code,
    ``mean(max(0, cos(s_l, t_l)))``. The stand-alone objectives of its code add ``mean(|cos(s_m, s_l)| +
    |cos(t_m, t_l)|)`` to the latter.

    Args:
      source: parts of the sentences, each ``[pair, dim]``.
      target: parts of their translations, each ``[pair, dim]``.
      separation: paper, code or alone.

    Returns:
      A scalar: 0 if what is separated is at right angles; at most 2 with paper, 1 with code and 3 with alone.
    """
    if separation == "code":
        return _apart(source.language, target.language)
    if separation == "alone":
        of_parts = sum(jnp.abs(cosine(side.meaning, side.language)).mean() for side in (source, target))
        return of_parts + _apart(source.language, target.language)
    return _apart(source.meaning, source.language) + _apart(target.meaning, target.language)


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
    return outputs_terms(objective, *head_outputs(heads, batch, random, same), probe, batch, weight)


def head_outputs(
    heads: Heads, batch: TranslationBatch, random: TranslationBatch | None = None, same: TranslationBatch | None = None
) -> tuple[HeadOutputs, HeadOutputs, OtherPairs | None]:
    """Returns the parts of both sides of a batch, and what DREAM needs of other pairs; None if some are missing."""
    # One product per side: if the sides were concatenated, rows would move between the devices that share a batch.
    source, target = apply_heads(heads, batch.source), apply_heads(heads, batch.target)
    if random is None or same is None:
        return source, target, None
    meanings = (apply_head(heads.meaning, side) for side in (random.source, random.target))
    languages = (apply_head(heads.language, side) for side in (same.source, same.target))
    return source, target, OtherPairs(*meanings, *languages)


def outputs_terms(
    objective: Objective,
    source: HeadOutputs,
    target: HeadOutputs,
    others: OtherPairs | None,
    probe: Head,
    batch: TranslationBatch,
    weight: float | Float[Array, ""] = 1.0,
) -> dict[str, Float[Array, ""]]:
    """Returns the result of ``objective_terms`` for the parts of a batch, each ``[pair, dim]``.

    Raises:
      ValueError: the base is DREAM without ``halves``, and ``others`` is None.
    """
    terms: dict[str, Float[Array, ""]] = {}
    if objective.base == "dream":
        anchors = len(batch.source)
        if objective.halves:
            anchors //= 2
            others = OtherPairs(*(x[anchors : 2 * anchors] for pair in zip(source, target, strict=True) for x in pair))
        if others is None:
            raise ValueError("DREAM compares a batch with other pairs, but random and same are missing")
        first, second = (HeadOutputs(*(x[:anchors] for x in side)) for side in (source, target))
        terms |= _dream_terms(TranslationBatch(*(x[:anchors] for x in batch)), first, second, others, probe)
    elif objective.base == "meat":
        terms |= _meat_terms(batch, source, target, probe)
    if objective.oracle:
        oracle = {
            "clustering": clustering_loss(
                source.language, target.language, objective.clustering, batch.target_language, len(probe.offset)
            ),
            "separation": separation_loss(source, target, objective.separation),
            "agreement": _together(source.meaning, target.meaning),
        }
        terms |= {name: weight * value for name, value in oracle.items()}
    return {name: terms[name] for name in objective.terms}


def _dream_terms(
    batch: TranslationBatch, source: HeadOutputs, target: HeadOutputs, others: OtherPairs, classifier: Head
) -> dict[str, Float[Array, ""]]:
    return {
        "meaning": _together(source.meaning, target.meaning)
        + _apart(source.meaning, others.source_meaning)
        + _apart(target.meaning, others.target_meaning),
        "reconstruction": _mean_squares(source, batch.source) + _mean_squares(target, batch.target),
        "language": _together(source.language, others.source_language)
        + _together(target.language, others.target_language),
        "identification": _cross_entropy(apply_head(classifier, source.language), batch.source_language)
        + _cross_entropy(apply_head(classifier, target.language), batch.target_language),
    }


def _meat_terms(
    batch: TranslationBatch, source: HeadOutputs, target: HeadOutputs, discriminator: Head
) -> dict[str, Float[Array, ""]]:
    # The adversarial term trains the heads alone; at its minimum, 2 log(languages), the discriminator can only guess.
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


def _together(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, ""]:
    """Returns CEL+, ``mean(1 - cos)``."""
    return (1 - cosine(x, y)).mean()


def _apart(x: Float[Array, "vector dim"], y: Float[Array, "vector dim"]) -> Float[Array, ""]:
    """Returns CEL-, ``mean(max(0, cos))``."""
    return jax.nn.relu(cosine(x, y)).mean()


def _mean_squares(parts: HeadOutputs, x: Float[Array, "vector dim"]) -> Float[Array, ""]:
    return ((parts.meaning + parts.language - x) ** 2).mean()


def _cross_entropy(scores: Float[Array, "vector language"], language: Int[Array, " vector"]) -> Float[Array, ""]:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), language[:, None], axis=1).mean()


def _uniform_cross_entropy(scores: Float[Array, "vector language"]) -> Float[Array, ""]:
    return -jax.nn.log_softmax(scores).mean()
