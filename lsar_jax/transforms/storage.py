"""A transform as one safetensors file: its arrays, and how they were made in the metadata."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsar_jax.identifier import LanguageIdentifier
from lsar_jax.languages import canonical_keys
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base import Fit, Transform
from lsar_jax.transforms.step import AXES, Step, by_row

__all__ = ["load", "open_tensors", "save"]

FORMAT = "lsar_jax.transform.v1"

_IDENTIFIER = ("center", "weights", "bias")


def save(transform: Transform, path: Path) -> None:
    """Writes the file; see ``Transform.save``."""
    from safetensors.numpy import save_file

    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to save in")
    parts = {
        f"{index}.{name}": part
        for index, step in enumerate(transform.steps)
        for name, part in step._asdict().items()
        if part is not None
    }
    identifier = transform.identifier
    if identifier is not None:
        parts |= {f"identifier.{name}": getattr(identifier, name) for name in _IDENTIFIER}
    provenance = {
        "fits": [asdict(fit) for fit in transform.fits],
        "source": _spec_to_json(transform.source),
        "identifier": None
        if identifier is None
        else {"languages": identifier.languages, "source": _spec_to_json(identifier.source)},
    }
    # safetensors writes a buffer as it lies.
    tensors = {name: np.ascontiguousarray(part) for name, part in parts.items()}
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, str(partial), {"format": FORMAT, "provenance": json.dumps(provenance)})
    partial.replace(path)


def load(path: Path) -> Transform:
    """Reads the file; see ``Transform.load``."""
    tensors, metadata = open_tensors(path, FORMAT, "transform")
    try:
        provenance = json.loads(metadata["provenance"])
        fits = tuple(_fit_from_json(fit) for fit in provenance["fits"])
        source = _spec_from_json(provenance["source"])
        identified = provenance.get("identifier")
        if identified is not None:
            identified = _codes(identified["languages"]), _spec_from_json(identified["source"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"the provenance in {path} is damaged: {error!r}") from error
    steps = tuple(
        Step(**{name: tensors.pop(f"{index}.{name}", None) for name in Step._fields}) for index in range(len(fits))
    )
    own = {name: tensors.pop(f"identifier.{name}", None) for name in _IDENTIFIER} if identified else {}
    if not fits or tensors:
        raise ValueError(f"{path} has {len(fits)} steps and these tensors of none: {sorted(tensors)}")
    for step, fit in zip(steps, fits, strict=True):
        _check_step(step, fit, path)
    if len({fit.dim for fit in fits}) > 1:
        raise ValueError(f"the steps in {path} differ in width: {[fit.dim for fit in fits]}")
    transform = Transform(steps, fits, source)
    if identified is None:
        return transform
    languages, source = identified
    shapes = {"center": [fits[0].dim], "weights": [len(languages), fits[0].dim], "bias": [len(languages)]}
    parts = [_check_part(own[name], shapes[name], f"the identifier in {path}: {name}") for name in _IDENTIFIER]
    return transform.with_identifier(LanguageIdentifier(parts[0], parts[1], parts[2], languages, source))


def open_tensors(path: Path, wanted: str, what: str) -> tuple[dict[str, Array], dict[str, str]]:
    """Returns the tensors and the metadata of a safetensors file of the format ``wanted``.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is another kind of file.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no {what} at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: jnp.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    if metadata.get("format") != wanted:
        raise ValueError(f"{path} has format {metadata.get('format')!r}, expected {wanted!r}")
    return tensors, metadata


def _spec_to_json(spec: EncoderSpec | None) -> dict[str, str | int] | None:
    return spec.to_dict() if spec else None


def _spec_from_json(spec: dict[str, Any] | None) -> EncoderSpec | None:
    return EncoderSpec(**spec) if spec else None


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
            raise ValueError(f"{where}: the clusters do not belong to its {len(fit.languages)} languages")
        rows = len(clusters)
    ranks = {part.shape[-1] for name, part in parts.items() if name in ("basis", "dual") and part.ndim}
    for name, part in parts.items():
        trailing = [fit.dim] if AXES[name] == 1 else [fit.dim, fit.dim if name == "matrix" else min(ranks)]
        table = bool(rows) and part.ndim > AXES[name]
        _check_part(part, [rows, *trailing] if table else trailing, f"{where}: {name}")
    if rows and not any(by_row(step, name) for name in parts):
        raise ValueError(f"{where} has {len(fit.languages)} languages and one map for all")
    if step.dual is not None and step.basis is None:
        raise ValueError(f"{where} has a dual without a basis")


def _check_part(part: Array | None, expected: list[int], where: str) -> Array:
    shape = None if part is None else list(part.shape)
    if part is None or shape != expected:
        raise ValueError(f"{where} has shape {shape}, expected {expected}")
    if part.dtype != jnp.float32:
        raise ValueError(f"{where} is of {part.dtype}, expected float32")
    if not jnp.isfinite(part).all():
        raise ValueError(f"{where} holds NaN or infinity")
    return part
