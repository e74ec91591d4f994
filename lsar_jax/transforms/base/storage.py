"""The parts of a transform in one safetensors file: its arrays and, in the header, how they were fitted."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsar_jax.arrays import all_finite
from lsar_jax.files import open_arrays, save_arrays
from lsar_jax.languages import canonical_keys
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base.affine import AXES, Step, by_row
from lsar_jax.transforms.base.fit_record import Fit
from lsar_jax.transforms.identifier import LanguageIdentifier

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
    arrays = {
        f"{index}.{name}": np.asarray(part)
        for index, step in enumerate(steps)
        for name, part in step._asdict().items()
        if part is not None
    }
    header: dict[str, Any] = {"fits": [asdict(fit) for fit in fits], "source": _spec_to_json(source)}
    header["identifier"] = None
    if identifier is not None:
        arrays |= {f"identifier.{name}": np.asarray(getattr(identifier, name)) for name in _IDENTIFIER}
        header["identifier"] = {"languages": identifier.languages, "source": _spec_to_json(identifier.source)}
    save_arrays(path, arrays, format=FORMAT, header=header)


def load_parts(path: Path) -> TransformParts:
    """Reads the file; see ``Transform.load``."""
    with open_arrays(path, format=FORMAT, what="transform") as file:
        tensors = {name: jnp.asarray(file.read(name)) for name in file.names}
        header = file.header
    try:
        fits = tuple(_fit_from_json(fit) for fit in header["fits"])
        source = _spec_from_json(header["source"])
        identified = header.get("identifier")
        if identified is not None:
            identified = _codes(identified["languages"]), _spec_from_json(identified["source"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the header of {path} is damaged: {error!r}") from error
    steps = tuple(
        Step(**{name: tensors.pop(f"{index}.{name}", None) for name in Step._fields}) for index in range(len(fits))
    )
    own = {name: tensors.pop(f"identifier.{name}", None) for name in _IDENTIFIER} if identified else {}
    if not fits or tensors:
        raise ValueError(f"{path} has {len(fits)} steps, and tensors that belong to none of them: {sorted(tensors)}")
    for step, fit in zip(steps, fits, strict=True):
        _check_step(step, fit, path)
    if len({fit.dim for fit in fits}) > 1:
        raise ValueError(f"the steps in {path} differ in width: {[fit.dim for fit in fits]}")
    if identified is None:
        return steps, fits, source, None
    languages, spec = identified
    shapes = {"center": [fits[0].dim], "weights": [len(languages), fits[0].dim], "bias": [len(languages)]}
    parts = [_check_part(own[name], shapes[name], f"the identifier in {path}: {name}") for name in _IDENTIFIER]
    return steps, fits, source, LanguageIdentifier(parts[0], parts[1], parts[2], languages, spec)


def _spec_to_json(spec: EncoderSpec | None) -> dict[str, Any] | None:
    return spec.to_dict() if spec else None


def _spec_from_json(spec: dict[str, Any] | None) -> EncoderSpec | None:
    return EncoderSpec.from_dict(spec) if spec else None


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


def _check_part(part: Array | None, expected: list[int], where: str) -> Array:
    shape = None if part is None else list(part.shape)
    if part is None or shape != expected:
        raise ValueError(f"{where} has shape {shape}, expected {expected}")
    if part.dtype != jnp.float32:
        raise ValueError(f"{where} has dtype {part.dtype}, expected float32")
    if not all_finite(part):
        raise ValueError(f"{where} holds NaN or infinity")
    return part
