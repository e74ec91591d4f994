"""The one kind of fitted object: an affine map, chosen by nothing or by language.

Every method of the papers moves an embedding by ``y = A (x - shift)``. A ``Step`` keeps the
parts that its method needs, low rank as low rank: ``A = I - B B^T`` is applied as
``x - (x B) B^T`` and never built. A ``Transform`` is a list of steps with the name of the
embeddings that they were fitted on; it can be applied, chained, saved and exported.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsar_jax.languages import canonical_keys, check_known
from lsar_jax.moments import Moments
from lsar_jax.padding import pad_rows, row_bucket
from lsar_jax.shapes import AnyArray, Embeddings, LanguageIds
from lsar_jax.spec import EncoderSpec

__all__ = ["Fit", "Step", "Transform", "affine", "fix_signs"]

FORMAT = "lsar_jax.transform.v1"

_MOST_ROWS = 16384

# Axes of each part after [dim] or [language, dim].
_TRAILING_AXES = {"shift": 0, "basis": 1}


class Step(NamedTuple):
    """``y = (x - shift) - ((x - shift) B) B^T``; a part may be absent.

    Attributes:
      shift: ``[dim]``, or ``[language, dim]`` where the language chooses.
      basis: B with orthonormal columns, ``[dim, rank]`` or ``[language, dim, rank]``.
    """

    shift: Float[AnyArray, "*language dim"] | None = None
    basis: Float[AnyArray, "*language dim rank"] | None = None


@dataclass(frozen=True)
class Fit:
    """How a step was made.

    Attributes:
      method: ``center``, ``lir``, ``lsar``.
      dim: the width of the embeddings.
      languages: codes of the rows of the step's tables, in order; empty for a shared step.
      fitted_on: languages whose text was used, with the number of sentences of each.
      parameters: arguments of the method.
    """

    method: str
    dim: int
    languages: tuple[str, ...]
    fitted_on: tuple[tuple[str, int], ...]
    parameters: tuple[tuple[str, int | float | str], ...] = ()

    @classmethod
    def of(
        cls, method: str, moments: Mapping[str, Moments], *, by_language: bool, **parameters: int | float | str
    ) -> "Fit":
        """Returns the record of a fit on ``moments``."""
        return cls(
            method=method,
            dim=next(iter(moments.values())).dim,
            languages=tuple(moments) if by_language else (),
            fitted_on=tuple((code, m.count) for code, m in moments.items()),
            parameters=tuple(parameters.items()),
        )

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.method}({arguments})"


@partial(jax.tree_util.register_dataclass, data_fields=["steps"], meta_fields=["fits", "source"])
@dataclass(frozen=True, eq=False)
class Transform:
    """A fitted transform: ``y = transform(x)`` or ``transform(x, language)``.

    Attributes:
      steps: applied first to last.
      fits: how each step was made.
      source: the encoder whose embeddings it was fitted on, None for bare arrays.
    """

    steps: tuple[Step, ...]
    fits: tuple[Fit, ...]
    source: EncoderSpec | None = None

    @property
    def dim(self) -> int:
        """The width of the embeddings."""
        return self.fits[0].dim

    @property
    def name(self) -> str:
        """The methods with their arguments, first to last."""
        return " then ".join(map(str, self.fits))

    @property
    def languages(self) -> tuple[str, ...] | None:
        """The languages that it can be applied to; None if it is the same for all."""
        by_language = [set(fit.languages) for fit in self.fits if fit.languages]
        return tuple(sorted(set.intersection(*by_language))) if by_language else None

    def __call__(self, x: Embeddings, language: str | Iterable[str] | None = None) -> Float[Array, "vector dim"]:
        """Returns the transformed embeddings, ``[n, dim]`` in float32.

        Args:
          x: embeddings, of any float dtype.
          language: a code for all rows, or a code for each; not needed by a shared transform.

        Raises:
          ValueError: another width, a language that is missing or unknown, or a number of codes
            that is not the number of rows.
        """
        if np.ndim(x) != 2 or np.shape(x)[1] != self.dim:
            raise ValueError(f"embeddings have shape {np.shape(x)}, the transform takes [n, {self.dim}]")
        if language is not None and not isinstance(language, str):
            language = list(language)
            if len(language) != len(x):
                raise ValueError(f"{len(language)} languages for {len(x)} embeddings")
        ids = self.language_ids(language)
        # Padded to few sizes: languages of unequal size share a program.
        rows = row_bucket(len(x), _MOST_ROWS)
        padded = jnp.asarray(pad_rows(x, rows), jnp.float32)
        ids = tuple(np.pad(which, (0, len(padded) - len(x))) if which.ndim else which for which in ids)
        return _apply(self.steps, padded, ids)[: len(x)]

    def language_ids(self, language: str | Sequence[str] | None) -> tuple[np.ndarray, ...]:
        """Returns the row of each step's tables: the part of a call that is done outside jit.

        Args:
          language: a code, or one a vector.

        Returns:
          For each step int32, ``[]`` or ``[n]``; 0 for a shared step.

        Raises:
          ValueError: a step depends on the language and does not know it.
        """
        return tuple(_language_ids(fit, language) for fit in self.fits)

    def then(self, other: "Transform") -> "Transform":
        """Returns the transform that applies this one first and ``other`` to its result.

        ``other`` may have been fitted on the same embeddings or on what this one makes of them.

        Raises:
          ValueError: another width, or a fit on other embeddings.
        """
        if other.dim != self.dim:
            raise ValueError(f"widths differ: {self.dim}, then {other.dim}")
        if self.source and other.source and not other.fits_after(self.source, self.name):
            raise ValueError(f"fitted on different embeddings: {self.source}, then {other.source}")
        return Transform(self.steps + other.steps, self.fits + other.fits, self.source or other.source)

    def fits_after(self, spec: EncoderSpec, applied: str) -> bool:
        """Whether it was fitted on the embeddings ``spec`` names, or on those after ``applied``."""
        made = replace(spec, transform=" then ".join(filter(None, (spec.transform, applied))))
        return self.source is None or self.source.same_space(spec) or self.source.same_space(made)

    def as_affine(self, language: str | None = None) -> tuple[Float[np.ndarray, "dim dim"], Float[np.ndarray, " dim"]]:
        """Returns A and b, float64, with ``y = x A^T + b``: for numpy and vector databases.

        Args:
          language: one code; not needed by a shared transform.

        Raises:
          ValueError: a language is needed and missing, or unknown.
        """
        ids = self.language_ids(language)
        if any(which.ndim for which in ids):
            raise ValueError("as_affine takes one language; the map of each row is another")
        # The same code as __call__, on zero and the unit vectors: what is exported is what is applied.
        with jax.enable_x64(True):
            steps = jax.tree.map(lambda part: jnp.asarray(part, jnp.float64), self.steps)
            probes = jnp.asarray(np.concatenate([np.zeros((1, self.dim)), np.eye(self.dim)]))
            moved = np.asarray(_apply(steps, probes, ids))
        return (moved[1:] - moved[0]).T, moved[0]

    def save(self, path: str | Path) -> None:
        """Writes one safetensors file: the arrays, and how they were made in its metadata.

        Raises:
          FileNotFoundError: there is no folder for ``path``.
        """
        from safetensors.numpy import save_file

        if not Path(path).parent.is_dir():
            raise FileNotFoundError(f"there is no folder {Path(path).parent} to save {Path(path).name} in")
        tensors = {
            f"{index}.{name}": np.ascontiguousarray(part)  # safetensors writes the buffer as it lies
            for index, step in enumerate(self.steps)
            for name, part in step._asdict().items()
            if part is not None
        }
        provenance = {
            "fits": [asdict(fit) for fit in self.fits],
            "source": self.source.to_dict() if self.source else None,
        }
        save_file(tensors, str(path), {"format": FORMAT, "provenance": json.dumps(provenance)})

    @classmethod
    def load(cls, path: str | Path) -> "Transform":
        """Reads a file that ``save`` wrote.

        Raises:
          FileNotFoundError: there is no such file.
          ValueError: it is not such a file, or its parts do not fit together.
        """
        tensors, metadata = _open(Path(path))
        try:
            provenance = json.loads(metadata["provenance"])
            fits = tuple(_fit_from_json(fit) for fit in provenance["fits"])
            source = EncoderSpec(**provenance["source"]) if provenance["source"] else None
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the provenance in {path} is damaged: {error!r}") from error
        steps = tuple(
            Step(**{name: tensors.pop(f"{index}.{name}", None) for name in Step._fields}) for index in range(len(fits))
        )
        if not fits or tensors:
            raise ValueError(f"{path} has {len(fits)} steps and these tensors of none: {sorted(tensors)}")
        for step, fit in zip(steps, fits, strict=True):
            _check_step(step, fit, path)
        if len({fit.dim for fit in fits}) > 1:
            raise ValueError(f"the steps in {path} differ in width: {[fit.dim for fit in fits]}")
        return cls(steps, fits, source)

    def __repr__(self) -> str:
        scope = "shared" if self.languages is None else f"{len(self.languages)} languages"
        return f"Transform({self.name}; dim {self.dim}, {scope})"


def affine(step: Step, x: Float[Array, "vector dim"], language: LanguageIds) -> Float[Array, "vector dim"]:
    """Applies one step; pure, for use under ``jit`` and ``vmap``.

    Args:
      step: shared or by language.
      x: embeddings.
      language: row of the step's tables, one for all vectors or one each; not read by a
        shared step.
    """
    if step.shift is not None:
        shift = jnp.asarray(step.shift)
        x = x - (shift[language] if shift.ndim == 2 else shift)
    if step.basis is None:
        return x
    basis = jnp.asarray(step.basis)
    product = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
    if basis.ndim == 3 and jnp.ndim(language) == 1:
        # Coordinates in every language's basis, all but the row's own set to zero: two dense
        # products, where gathering a basis a row would take [vector, dim, rank].
        coordinates = product("vd,ldr->vlr", x, basis)
        own = jnp.arange(basis.shape[0], dtype=language.dtype)[None, :] == language[:, None]
        coordinates = jnp.where(own[:, :, None], coordinates, jnp.zeros_like(coordinates))
        return x - product("vlr,ldr->vd", coordinates, basis)
    basis = basis[language] if basis.ndim == 3 else basis
    return x - product("vr,dr->vd", product("vd,dr->vr", x, basis), basis)


def fix_signs(basis: Float[AnyArray, "dim rank"]) -> Float[Array, "dim rank"]:
    """Returns the columns with their largest entry positive: one basis on every backend."""
    largest = jnp.argmax(jnp.abs(basis), axis=0, keepdims=True)
    basis = jnp.asarray(basis)
    return basis * jnp.where(jnp.take_along_axis(basis, largest, axis=0) < 0, -1.0, 1.0).astype(basis.dtype)


@jax.jit
def _apply(
    steps: tuple[Step, ...], x: Float[Array, "vector dim"], ids: tuple[LanguageIds, ...]
) -> Float[Array, "vector dim"]:
    for step, which in zip(steps, ids, strict=True):
        x = affine(step, x, which)
    return x


def _language_ids(fit: Fit, language: str | Sequence[str] | None) -> np.ndarray:
    if not fit.languages:
        return np.zeros((), np.int32)
    if language is None:
        raise ValueError(f"{fit} depends on the language; give one of {', '.join(fit.languages)}")
    row = {code: index for index, code in enumerate(fit.languages)}
    codes = [language] if isinstance(language, str) else list(language)
    rows = {code: row[check_known(code, fit.languages, str(fit))] for code in set(codes)}
    return np.array(rows[language] if isinstance(language, str) else [rows[code] for code in codes], np.int32)


def _open(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no transform at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: jnp.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} has format {metadata.get('format')!r}, expected {FORMAT!r}")
    return tensors, metadata


def _fit_from_json(fit: dict[str, Any]) -> Fit:
    return Fit(
        method=str(fit["method"]),
        dim=int(fit["dim"]),
        languages=_codes(fit["languages"]),
        fitted_on=tuple((code, count) for code, count in fit["fitted_on"]),
        parameters=tuple((name, value) for name, value in fit["parameters"]),
    )


def _codes(languages: Any) -> tuple[str, ...]:
    if not isinstance(languages, list) or list(canonical_keys(dict.fromkeys(languages))) != languages:
        raise ValueError(f"languages {languages!r} are not sorted codes, each once")
    return tuple(languages)


def _check_step(step: Step, fit: Fit, path: str | Path) -> None:
    wanted = (len(fit.languages), fit.dim) if fit.languages else (fit.dim,)
    parts = {name: part for name, part in step._asdict().items() if part is not None}
    for name, part in parts.items():
        trailing = _TRAILING_AXES[name]
        if part.shape[: len(wanted)] != wanted or part.ndim != len(wanted) + trailing:
            expected = [*wanted, *["rank"] * trailing]
            raise ValueError(f"{fit} in {path}: {name} has shape {list(part.shape)}, expected {expected}")
        if not jnp.isfinite(part).all():
            raise ValueError(f"{fit} in {path}: {name} holds NaN or infinity")
    if not parts:
        raise ValueError(f"{fit} in {path} has no arrays")
