"""The parts of a transform in one safetensors file: its arrays and, in the header, how they were fitted."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.arrays import all_finite
from lsar_jax.checks import whole_number
from lsar_jax.languages import canonical_keys
from lsar_jax.mesh import check_process
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base.affine import AXES, Step, by_row
from lsar_jax.transforms.base.fit_record import Fit
from lsar_jax.transforms.identifier import LanguageIdentifier
from lsar_jax.transforms.novelty import Novelty

__all__ = ["load_parts", "save_parts"]

FORMAT = "lsar_jax.transform.v1"

_IDENTIFIER = ("center", "weights", "bias")

TransformParts = tuple[tuple[Step, ...], tuple[Fit, ...], EncoderSpec | None, LanguageIdentifier | None]


def save_parts(
    path: Path,
    steps: tuple[Step, ...],
    fits: tuple[Fit, ...],
    source: EncoderSpec | None,
    identifier: LanguageIdentifier | None,
) -> None:
    """Writes the file; see ``Transform.save``."""
    for step, fit in zip(steps, fits, strict=True):
        _check_step(Step(*(None if part is None else np.asarray(part) for part in step)), fit, path)
    arrays = {
        f"{index}.{name}": np.asarray(part)
        for index, step in enumerate(steps)
        for name, part in step._asdict().items()
        if part is not None
    }
    header: dict[str, Any] = {"fits": [asdict(fit) for fit in fits], "source": _spec_to_json(source)}
    header["identifier"] = None
    if identifier is not None:
        parts = {name: getattr(identifier, name) for name in _IDENTIFIER}
        parts |= {} if identifier.novel is None else identifier.novel._asdict()
        arrays |= {f"identifier.{name}": np.asarray(part) for name, part in parts.items()}
        header["identifier"] = {
            "languages": identifier.languages,
            "source": _spec_to_json(identifier.source),
            # JSON has no infinity.
            "threshold": str(identifier.threshold),
        }
    save_arrays(path, arrays, format=FORMAT, header=header)


def load_parts(path: Path) -> TransformParts:
    """Reads the file; see ``Transform.load``."""
    check_process()
    with open_arrays(path, format=FORMAT, what="transform") as file:
        tensors = {name: file.read(name) for name in file.names}
        header = file.header
    try:
        fits = tuple(_fit_from_json(fit) for fit in header["fits"])
        source = _spec_from_json(header["source"])
        identified = header.get("identifier")
        if identified is not None:
            threshold = float(_of(identified.get("threshold", "inf"), "threshold", str))
            identified = _codes(identified["languages"]), _spec_from_json(identified["source"]), threshold
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the header of {path} is damaged: {error!r}") from error
    steps = tuple(
        Step(**{name: tensors.pop(f"{index}.{name}", None) for name in Step._fields}) for index in range(len(fits))
    )
    names = (*_IDENTIFIER, *Novelty._fields)
    own = {name: tensors.pop(f"identifier.{name}", None) for name in names} if identified else {}
    if not fits or tensors:
        raise ValueError(f"{path} has {len(fits)} steps, and tensors that belong to none of them: {sorted(tensors)}")
    for step, fit in zip(steps, fits, strict=True):
        _check_step(step, fit, path)
    if len({fit.dim for fit in fits}) > 1:
        raise ValueError(f"the steps in {path} differ in width: {[fit.dim for fit in fits]}")
    # Only now, because jax would turn float64 into float32 without a word.
    steps = tuple(Step(*(None if part is None else jnp.asarray(part) for part in step)) for step in steps)
    if identified is None:
        return steps, fits, source, None
    languages, spec, threshold = identified
    dim, rows = fits[0].dim, len(languages)
    shapes = {"center": [dim], "weights": [rows, dim], "bias": [rows]}
    # Files of the first versions have no more than these.
    if any(own[name] is not None for name in Novelty._fields):
        directions = 0 if own["places"] is None else own["places"].shape[-1]
        shapes |= {"axes": [dim, directions], "places": [rows, directions], "means": [rows, dim], "unit": [1]}
    where = f"the identifier in {path}"
    parts = {name: jnp.asarray(_check_part(own[name], shape, f"{where}: {name}")) for name, shape in shapes.items()}
    if not threshold > 0:
        raise ValueError(f"{where} has the threshold {threshold}; it must be above 0")
    novel = Novelty(*(parts.pop(name) for name in Novelty._fields)) if len(parts) > len(_IDENTIFIER) else None
    found = LanguageIdentifier(**parts, languages=languages, source=spec, novel=novel, threshold=threshold)
    return steps, fits, source, found


def _spec_to_json(spec: EncoderSpec | None) -> dict[str, Any] | None:
    return spec.to_dict() if spec else None


def _spec_from_json(spec: dict[str, Any] | None) -> EncoderSpec | None:
    return EncoderSpec.from_dict(spec) if spec else None


def _fit_from_json(fit: dict[str, Any]) -> Fit:
    return Fit(
        method=_of(fit["method"], "method", str),
        dim=whole_number("dim", fit["dim"], 1, 1 << 20, "the width of embeddings"),
        languages=_codes(fit["languages"]),
        fitted_on=tuple(
            (_of(code, "a language", str), whole_number(f"the count of {code}", count, 0, 1 << 62, "sentences"))
            for code, count in fit["fitted_on"]
        ),
        parameters=tuple(
            (_of(name, "the name of a parameter", str), _of(value, f"parameter {name!r}", str, int, float))
            for name, value in fit["parameters"]
        ),
    )


def _of(value: Any, name: str, *kinds: type) -> Any:
    if not isinstance(value, kinds) or isinstance(value, bool) or value == "":
        raise ValueError(f"{name} is {value!r}, not a {' or '.join(kind.__name__ for kind in kinds)}")
    return value


def _codes(languages: Any) -> tuple[str, ...]:
    if not isinstance(languages, list) or list(canonical_keys(dict.fromkeys(languages))) != languages:
        raise ValueError(f"languages {languages!r} are not sorted codes without duplicates")
    return tuple(languages)


def _check_step(step: Step, fit: Fit, path: Path) -> None:
    where = f"{fit} in {path}"
    parts = {name: getattr(step, name) for name in AXES if getattr(step, name) is not None}
    if not parts:
        raise ValueError(f"{where} has no arrays")
    rows = len(fit.languages)
    if step.clusters is not None:
        clusters = np.asarray(step.clusters)
        sound = clusters.ndim == 1 and clusters.dtype == np.int32 and by_row(step, "shift")
        if not sound or set(clusters.tolist()) != set(range(len(fit.languages))):
            raise ValueError(f"{where}: the clusters do not match its {len(fit.languages)} languages")
        rows = len(clusters)
    ranks = {part.shape[-1] for name, part in parts.items() if name in ("basis", "dual") and part.ndim}
    for name, part in parts.items():
        trailing = [fit.dim] if AXES[name] == 1 else [fit.dim, fit.dim if name == "matrix" else min(ranks)]
        table = bool(rows) and part.ndim > AXES[name]
        _check_part(part, [rows, *trailing] if table else trailing, f"{where}: {name}")
    if rows and not any(by_row(step, name) for name in parts):
        raise ValueError(f"{where} has {len(fit.languages)} languages but one map for all")
    if step.dual is not None and step.basis is None:
        raise ValueError(f"{where} has a dual without a basis")
    if step.basis is not None and step.dual is None and not _orthonormal(np.asarray(step.basis, np.float64)):
        raise ValueError(f"{where}: the columns of the basis are not orthonormal")


def _check_part(part: AnyArray | None, expected: list[int], where: str) -> AnyArray:
    shape = None if part is None else list(part.shape)
    if part is None or shape != expected:
        raise ValueError(f"{where} has shape {shape}, expected {expected}")
    if part.dtype != np.float32:
        raise ValueError(f"{where} has dtype {part.dtype}, expected float32")
    if not all_finite(part):
        raise ValueError(f"{where} holds NaN or infinity")
    return part


def _orthonormal(basis: Float[np.ndarray, "*row dim rank"]) -> bool:
    """Whether all columns have length 1 or 0, and are orthogonal to each other, up to the rounding of float32."""
    products = np.swapaxes(basis, -1, -2) @ basis
    lengths = np.diagonal(products, axis1=-2, axis2=-1)
    expected = np.where(lengths > 0.5, 1.0, 0.0)[..., None] * np.eye(basis.shape[-1])
    return bool(np.abs(products - expected).max(initial=0.0) < 1e-3)
