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
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lsar_jax.objectives.cosine import apart, together
from lsar_jax.objectives.heads import Head, HeadOutputs, Heads, apply_head, apply_heads
from lsar_jax.objectives.oracle import ClusterPairs, Separation, clustering_loss, separation_loss

__all__ = [
    "ALONE", "BatchOutputs", "Head", "HeadOutputs", "Heads", "Objective", "TranslationBatch", "apply_head",
    "apply_heads", "clustering_loss", "discriminator_loss", "head_outputs", "objective_terms", "outputs_terms",
    "separation_loss",
]  # fmt: skip

Base = Literal["dream", "meat", "none"]

_TERMS: dict[Base, tuple[str, ...]] = {
    "dream": ("meaning", "reconstruction", "language", "identification"),
    "meat": ("reconstruction", "cross_reconstruction", "language", "adversarial"),
    "none": (),
}


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


class TranslationBatch(NamedTuple):
    """Embeddings of sentences and their translations ``[pair, dim]``, and the index of each one's language, from 0."""

    source: Float[Array, "pair dim"]
    target: Float[Array, "pair dim"]
    source_language: Int[Array, " pair"]
    target_language: Int[Array, " pair"]


class BatchOutputs(NamedTuple):
    """The outputs of both heads for a batch, and for the pairs that DREAM compares it with; None without them.

    The meanings of ``others`` are those of pairs in any language, and their languages those of pairs in its languages.
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
