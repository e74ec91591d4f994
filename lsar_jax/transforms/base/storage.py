"""The parts of a transform in one safetensors file: its arrays and, in the header, how they were fitted."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.checks import whole_number
from lsar_jax.languages import check_codes
from lsar_jax.mesh import check_process
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base.sparse_autoencoder import SparseAutoencoder
from lsar_jax.transforms.base.steps import AXES, AnyStep, Fit, Step, by_row
from lsar_jax.transforms.identifier import LanguageIdentifier, Novelty

__all__ = ["load_parts", "save_parts"]

FORMAT = "lsar_jax.transform.v1"

_IDENTIFIER = ("center", "weights", "bias")
# The tensors of a SparseAutoencoder.
_AUTOENCODER = ("encoder", "decoder", "factors", "active", "keep_error")

TransformParts = tuple[tuple[AnyStep, ...], tuple[Fit, ...], EncoderSpec | None, LanguageIdentifier | None]


def save_parts(path: Path, transform: TransformParts) -> None:
    """Writes the file; see ``Transform.save``."""
    steps, fits, source, identifier = transform
    arrays: dict[str, np.ndarray] = {}
    for index, (step, fit) in enumerate(zip(steps, fits, strict=True)):
        names = Step._fields if isinstance(step, Step) else _AUTOENCODER
        parts = {name: np.asarray(part) for name, part in zip(names, step, strict=True) if part is not None}
        _check_step(_step(parts), fit, f"{fit} in {path}")
        arrays |= {f"{index}.{name}": part for name, part in parts.items()}
    header: dict[str, Any] = {"fits": [asdict(fit) for fit in fits], "source": source and source.to_dict()}
    header["identifier"] = None
    if identifier is not None:
        parts = {name: getattr(identifier, name) for name in _IDENTIFIER} | identifier.novel._asdict()
        arrays |= {f"identifier.{name}": np.asarray(part) for name, part in parts.items()}
        header["identifier"] = {
            "languages": identifier.languages,
            "source": identifier.source and identifier.source.to_dict(),
            # JSON has no infinity.
            "threshold": str(identifier.threshold),
        }
    save_arrays(path, arrays, format=FORMAT, header=header)


def load_parts(path: Path) -> TransformParts:
    """Reads the file; see ``Transform.load``."""
    check_process()
    with open_arrays(path, format=FORMAT, what="transform") as file:
        tensors, header = {name: file.read(name) for name in file.names}, file.header
    try:
        fits = tuple(_fit(fit) for fit in header["fits"])
        source = _spec(header["source"])
        names = (*Step._fields, *_AUTOENCODER)
        found = tuple(
            _step({name: tensors.pop(f"{index}.{name}") for name in names if f"{index}.{name}" in tensors})
            for index in range(len(fits))
        )
        identifier = None
        if record := header["identifier"]:
            novel = Novelty(*(tensors.pop(f"identifier.{name}") for name in Novelty._fields))
            center, weights, bias = (tensors.pop(f"identifier.{name}") for name in _IDENTIFIER)
            codes, spec = tuple(record["languages"]), _spec(record["source"])
            identifier = LanguageIdentifier(center, weights, bias, novel, codes, spec, float(record["threshold"]))
        for languages in [fit.languages for fit in fits] + ([identifier.languages] if identifier else []):
            if len(set(check_codes(languages))) < len(languages):
                raise ValueError(f"a language is there twice: {', '.join(languages)}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the header of {path} is damaged: {error!r}") from error
    if not fits or tensors:
        raise ValueError(f"{path} has {len(fits)} steps, and tensors that belong to none of them: {sorted(tensors)}")
    for step, fit in zip(found, fits, strict=True):
        _check_step(step, fit, f"{fit} in {path}")
    if identifier is not None:
        _check_identifier(identifier, fits[0].dim, f"the identifier in {path}")
    # Only now, because jax would turn float64 into float32 without a word.
    return jax.device_put(found), fits, source, jax.device_put(identifier)


def _spec(fields: dict[str, Any] | None) -> EncoderSpec | None:
    return EncoderSpec.from_dict(fields) if fields else None


def _fit(fields: dict[str, Any]) -> Fit:
    tables = {name: tuple(map(tuple, fields[name])) for name in ("fitted_on", "parameters")}
    return Fit(**{**fields, **tables, "languages": tuple(fields["languages"])})


def _step(parts: dict[str, np.ndarray]) -> AnyStep:
    if "encoder" not in parts:
        return Step(**parts)
    options = {"active": parts["active"].item(), "keep_error": bool(parts["keep_error"].item())}
    return SparseAutoencoder(**parts | options)


def _check_step(step: AnyStep, fit: Fit, where: str) -> None:
    if isinstance(step, SparseAutoencoder):
        features, languages = step.encoder.shape[-1:], [len(fit.languages)] if fit.languages else []
        shapes = {"encoder": [fit.dim, *features], "decoder": [*features, fit.dim], "factors": [*languages, *features]}
        for name, expected in shapes.items():
            _check_array(name, np.asarray(getattr(step, name)), expected, where)
        whole_number(f"{where}: active", step.active, 1, features[0], "its features")
        return
    if step.clusters is not None and step.clusters.ndim != 1:
        raise ValueError(f"{where}: clusters has shape {list(step.clusters.shape)}, expected [clusters]")
    rows = len(fit.languages) if step.clusters is None else len(step.clusters)
    if step.clusters is not None and set(np.asarray(step.clusters).tolist()) != set(range(len(fit.languages))):
        raise ValueError(f"{where}: the clusters do not match its {len(fit.languages)} languages")
    tables = [name for name in AXES if by_row(step, name)]
    if rows and not tables:
        raise ValueError(f"{where} has {len(fit.languages)} languages but one map for all")
    for name, axes in AXES.items():
        part = getattr(step, name, None)
        if part is None:
            continue
        basis = part if step.basis is None else step.basis
        trailing = [fit.dim, fit.dim if name == "matrix" else basis.shape[-1]][:axes]
        _check_array(name, part, [rows, *trailing] if name in tables else trailing, where)
    if step.basis is not None and step.dual is None and not _orthonormal(np.asarray(step.basis, np.float64)):
        raise ValueError(f"{where}: the columns of the basis are not orthonormal")


def _check_identifier(identifier: LanguageIdentifier, dim: int, where: str) -> None:
    rows, axes = len(identifier.languages), identifier.novel.axes
    directions = axes.shape[-1] if axes.ndim else 0
    shapes = {"center": [dim], "weights": [rows, dim], "bias": [rows], "axes": [dim, directions], "unit": [1]}
    shapes |= {"places": [rows, directions], "means": [rows, dim]}
    for name, expected in shapes.items():
        _check_array(name, getattr(identifier if name in _IDENTIFIER else identifier.novel, name), expected, where)


def _check_array(name: str, part: np.ndarray, expected: list[int], where: str) -> None:
    if list(part.shape) != expected:
        raise ValueError(f"{where}: {name} has shape {list(part.shape)}, expected {expected}")
    if part.dtype != np.float32:
        raise ValueError(f"{where}: {name} has dtype {part.dtype}, expected float32")
    if not np.isfinite(part).all():
        raise ValueError(f"{where}: {name} holds NaN or infinity")


def _orthonormal(basis: Float[np.ndarray, "*row dim rank"]) -> bool:
    """Whether all columns have length 1 or 0, and are orthogonal to each other, up to the rounding of float32."""
    products = np.swapaxes(basis, -1, -2) @ basis
    lengths = np.diagonal(products, axis1=-2, axis2=-1)
    expected = np.where(lengths > 0.5, 1.0, 0.0)[..., None] * np.eye(basis.shape[-1])
    return bool(np.abs(products - expected).max(initial=0.0) < 1e-3)
