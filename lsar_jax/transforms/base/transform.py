"""The fitted transform: steps (``steps.py``, ``sparse_autoencoder.py``) applied, chained and saved together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lsar_jax.arrays import bucketed, check_width, digest, log, not_finite, same_width, warn_far_off
from lsar_jax.checks import from_frame
from lsar_jax.languages import AUTO, check_given
from lsar_jax.shapes import Embeddings, LanguageIds
from lsar_jax.spec import EncoderSpec, check_source, same_source
from lsar_jax.transforms.base.blend import Blend
from lsar_jax.transforms.base.fit import Fit
from lsar_jax.transforms.base.merge_languages import applied_maps, merge_steps
from lsar_jax.transforms.base.sample import sample_rows
from lsar_jax.transforms.base.steps import Steps, affine_map, apply, apply_steps
from lsar_jax.transforms.base.storage import load_parts, save_parts
from lsar_jax.transforms.identifier import NEAREST_TAKEN, LanguageIdentifier

__all__ = ["Transform"]

# Without the sample, which no program needs.
_pytree = partial(jax.tree_util.register_dataclass, meta_fields=["fits", "source"], drop_fields=["sample"])


@partial(_pytree, data_fields=["steps", "identifier"])
@dataclass(frozen=True, eq=False)
class Transform:
    """A fitted transform: ``y = transform(x)`` or ``transform(x, language)``.

    Attributes:
      steps: the steps, applied in order.
      fits: how each step was fitted.
      source: spec of the embeddings that it was fitted on, or None for bare arrays.
      identifier: detects the language for ``language="auto"``, or None.
      sample: rows of the embeddings that it was fitted on, ``[row, dim]`` by language; none of a fit on moments.

    Example:
      >>> rng = np.random.default_rng(0)
      >>> x = {code: rng.normal(size=(50, 8)) + 3 * rng.normal(size=8) for code in ("de", "en", "fr")}
      >>> chain = lj.transforms.fit_center(x).then(lj.transforms.fit_lsar(x))
      >>> chain
      Transform(center() then lsar(rank=2); dim 8, 3 languages)
    """

    steps: Steps
    fits: tuple[Fit, ...]
    source: EncoderSpec | None = None
    identifier: LanguageIdentifier | None = None
    sample: Mapping[str, Float[np.ndarray, "row dim"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_source(self.source)

    @property
    def dim(self) -> int:
        """The width of the embeddings."""
        return self.fits[0].dim

    @property
    def name(self) -> str:
        """The methods with their arguments, in order."""
        return " then ".join(map(str, self.fits))

    @property
    def digests(self) -> tuple[str, ...]:
        """A digest of each step's method, languages and arrays; fits on different text have different digests."""
        return tuple(digest(fit.method, *fit.languages, *step) for step, fit in zip(self.steps, self.fits, strict=True))

    @property
    def applied(self) -> set[str]:
        """A digest of what each step does, in each of its languages; a fit that shares one is not applied again."""
        return applied_maps(self.steps, self.fits)

    @property
    def languages(self) -> tuple[str, ...] | None:
        """The languages that it can be applied to; None if it is the same for all."""
        by_language = [set(fit.languages) for fit in self.fits if fit.languages]
        return tuple(sorted(set.intersection(*by_language))) if by_language else None

    @property
    def bank(self) -> Float[Array, "row dim"]:
        """The sample, transformed, ``[row, dim]``, for ``retrieval.local_scale``; ValueError if there is no sample."""
        if not self.sample:
            raise ValueError(f"{self.name} has no sample of embeddings, as after a fit on moments; call with_sample")
        codes = [code for code, rows in self.sample.items() for _ in rows]
        return self(np.concatenate(list(self.sample.values())), codes)

    def with_sample(self, x: Mapping[str, Any]) -> "Transform":
        """Returns the transform with evenly spaced rows, at most 2,048, of embeddings ``[n, dim]`` by language."""
        return replace(self, sample=sample_rows(x))

    def __call__(self, x: Embeddings | Any, language: str | Iterable[str] | None = None) -> Float[Array, "vector dim"]:
        """Returns the transformed embeddings, ``[n, dim]`` in float32.

        Args:
          x: a numpy or jax array, or a DataFrame, of any float dtype.
          language: one code for all rows, or one per row; a shared transform needs none. ``"auto"`` lets the identifier
            detect the language of each row; those in none of its languages are taken for the nearest, with a warning.

        Raises ValueError if the array or its width is wrong, a value is not finite in float32, a language is missing or
        unknown, ``"auto"`` lacks an identifier, or the number of codes is not the number of rows.
        """
        x = from_frame(x)
        result, unknown = self.with_unknown(x, language)
        warn_far_off("embeddings", x)
        if unknown is not None and unknown.any():
            log.warning(NEAREST_TAKEN, unknown.sum(), len(unknown), "", unknown.argmax())
        return result

    def with_unknown(
        self, x: Embeddings, language: str | Iterable[str] | None = None
    ) -> tuple[Float[Array, "vector dim"], Bool[np.ndarray, " vector"] | None]:
        """Transforms embeddings and, with ``"auto"``, marks the rows ``[n]`` in no known language; logs nothing."""
        check_width(x, self.dim, "the transform")
        codes = given if isinstance(given := check_given(language), str | None) else list(given)
        if isinstance(codes, list) and len(codes) != len(x):
            raise ValueError(f"there are {len(codes)} languages and {len(x)} embeddings; give one, or one a row")
        # Padded to one of a few sizes, so that languages of unequal size share a program.
        padded, unknown = bucketed(x), None
        if codes == AUTO and self.languages is not None:
            self.check_identifier()
            ids, unknown = _detected(self, padded)
        else:
            rows = self.language_ids(None if codes == AUTO else codes)
            ids = tuple(np.pad(row, (0, len(padded) - len(x))) if row.ndim else row for row in rows)
        transformed, finite = apply_steps(self.steps, padded, ids)
        result = transformed[: len(x)]
        if isinstance(finite, jax.core.Tracer):
            return result, None
        # Checked by the same program, so that there is one wait, for all.
        if not finite.all():
            after = f"embeddings transformed by {self.name}", result, result
            raise not_finite(*(after if finite[0] else ("embeddings", x, padded)))
        return result, None if unknown is None else np.asarray(unknown)[: len(x)]

    def language_ids(self, language: str | Sequence[str] | None) -> tuple[np.ndarray, ...]:
        """Returns the row of each step's tables, int32 ``[]`` or ``[n]``: the part of a call that runs outside jit."""
        return tuple(fit.language_ids(language) for fit in self.fits)

    def detected(self, x: Float[Array, "vector dim"]) -> tuple[tuple[LanguageIds, ...], Bool[Array, " vector"]]:
        """Returns the rows, as ``language_ids`` does, of the languages detected, and which are unknown; pure."""
        identifier = self.check_identifier()
        ids, rows = identifier.ids(x), map(jnp.asarray, self.language_ids(identifier.languages))
        return tuple(row[ids] if row.ndim else row for row in rows), identifier.unknown(x)

    def check_identifier(self) -> LanguageIdentifier:
        """Returns the identifier; raises ValueError if there is none."""
        if self.identifier is None:
            advice = "add one with with_identifier(fit_identifier(moments)), or give the languages"
            raise ValueError(f"language is 'auto', but {self.name} has no identifier; {advice}")
        return self.identifier

    def with_identifier(self, identifier: LanguageIdentifier) -> "Transform":
        """Returns the transform with an identifier of the embeddings that it takes, which enables ``language="auto"``.

        Raises ValueError if the transform is shared, or the identifier is of other embeddings or languages.
        """
        if self.languages is None:
            raise ValueError(f"{self.name} is the same for all languages; it needs no identifier")
        identifier.check_for(self.name, self.dim, self.source, self.languages)
        return replace(self, identifier=identifier)

    def with_languages(self, other: "Transform") -> "Transform":
        """Returns the transform with the languages of ``other``, the same method fitted on them, without an identifier.

        Raises ValueError if a step is shared, methods, arguments or embeddings differ, or a language is known already.
        """
        same_width("the transforms", {self.name: self.dim, f"the other {other.name}": other.dim})
        steps, fits = merge_steps((self.steps, self.fits), (other.steps, other.fits))
        source = same_source("the transforms", {"the other one": other.source, "this one": self.source})
        sample = {**self.sample, **other.sample} if self.sample and other.sample else {}
        return Transform(steps, fits, source, sample=sample)

    def then(self, other: "Transform") -> "Transform":
        """Returns the transform that applies this one first and ``other`` to its result; it keeps this identifier.

        Raises ValueError if widths differ; ``other`` was fitted on other embeddings than this takes or returns, shares
        a step with it, or alone has an identifier; or this transform's has languages that it does not know.
        """
        same_width("the transforms", {"the first": self.dim, "the second": other.dim})
        if self.source and not other.fits_after(self.source, self):
            same_source("the transforms", {"the second": other.source, "the first": self.source})
        if other.applied & self.applied:
            raise ValueError(f"{other.name} is already part of the transform {self.name}; apply each fit once")
        if other.identifier is not None and self.identifier is None:
            raise ValueError("chain the transforms first, then add an identifier to the chain: it runs first")
        steps, fits = self.steps + other.steps, self.fits + other.fits
        chain = Transform(steps, fits, self.source or other.source, sample=self.sample)
        return chain if self.identifier is None else chain.with_identifier(self.identifier)

    def at_strength(self, strength: int | float) -> "Transform":
        """Returns the transform in part: ``y = x + strength (T x - x)``, where T is this one, with all its steps.

        Raises ValueError unless the strength is a number from 0, which changes nothing, to 1, which is this transform.
        """
        blend = Blend.of(strength, len(self.steps))
        fit = Fit("at_strength", self.dim, (), (), (("strength", float(strength)),))
        return self if strength == 1 else replace(self, steps=(*self.steps, blend), fits=(*self.fits, fit))

    def fits_after(self, spec: EncoderSpec, applied: "Transform | None") -> bool:
        """Whether it was fitted on the embeddings that ``spec`` names, or on the output of ``applied``."""
        given = [spec] + ([spec.after(applied.name, applied.digests)] if applied else [])
        return self.source is None or any(map(self.source.same_space, given))

    def apply(self, x: Float[Array, "vector dim"], ids: tuple[LanguageIds, ...]) -> Float[Array, "vector dim"]:
        """Transforms embeddings with the rows ``ids`` of the steps' tables; pure, for ``jit`` and ``vmap``."""
        return apply(self.steps, x, ids)

    def as_affine(self, language: str | None = None) -> tuple[Float[np.ndarray, "dim dim"], Float[np.ndarray, " dim"]]:
        """Returns A ``[dim, dim]`` and b ``[dim]`` of ``y = x A^T + b`` in float64, for numpy and vector databases.

        Raises ValueError if a language is missing or unknown, or the map is not affine, as with clusters.
        """
        if why := next(filter(None, (step.not_affine() for step in self.steps)), ""):
            raise ValueError(f"{self.name}: {why}, so there is no single A and b")
        ids = self.language_ids(language)
        if any(row.ndim for row in ids):
            raise ValueError("as_affine takes one language; give a single code")
        return affine_map(self.steps, self.dim, ids)

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file with the arrays and, in its metadata, how they were fitted."""
        save_parts(Path(path), (self.steps, self.fits, self.source, self.identifier, self.sample))

    @classmethod
    def load(cls, path: str | Path) -> "Transform":
        """Reads a file that ``save`` wrote.

        Raises FileNotFoundError, or ValueError if it is no file of a transform, or its parts do not fit together.
        """
        steps, fits, source, identifier, sample = load_parts(Path(path))
        transform = cls(steps, fits, source, sample=sample)
        return transform if identifier is None else transform.with_identifier(identifier)

    def __repr__(self) -> str:
        scope = "shared" if self.languages is None else f"{len(self.languages)} languages"
        return f"Transform({self.name}; dim {self.dim}, {scope})"


_detected = jax.jit(Transform.detected)
