"""The parts of a transform in one safetensors file: its arrays and, in the header, how they were fitted."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.checks import errors_of
from lsar_jax.languages import check_codes
from lsar_jax.mesh import check_process
from lsar_jax.shapes import AnyArray
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms.base.blend import Blend
from lsar_jax.transforms.base.fit import Fit
from lsar_jax.transforms.base.sparse_autoencoder import SparseAutoencoder
from lsar_jax.transforms.base.steps import Step, Steps
from lsar_jax.transforms.identifier import LanguageIdentifier
from lsar_jax.transforms.novelty import Novelty

__all__ = ["load_parts", "save_parts"]

FORMAT = "lsar_jax.transform.v1"

Sample = Mapping[str, np.ndarray]
TransformParts = tuple[Steps, tuple[Fit, ...], EncoderSpec | None, LanguageIdentifier | None, Sample]


def save_parts(path: Path, transform: TransformParts) -> None:
    """Writes the file; see ``Transform.save``."""
    _check(transform, str(path))
    steps, fits, source, identifier, sample = transform
    arrays = {f"sample.{code}": rows for code, rows in sample.items()} | {
        f"{index}.{name}": np.asarray(part) for index, step in enumerate(steps) for name, part in step.arrays().items()
    }
    header: dict[str, Any] = {"fits": [asdict(fit) for fit in fits], "source": source and source.to_dict()}
    header["identifier"] = None
    if identifier is not None:
        arrays |= {f"identifier.{name}": np.asarray(part) for name, part in identifier.arrays().items()}
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
    with errors_of(f"the parts of {path} do not fit together", IndexError, KeyError, TypeError, ValueError):
        fits, source = tuple(map(_fit, header["fits"])), _spec(header["source"])
        owners = (*map(str, range(len(fits))), "identifier", "sample")
        by_step: dict[str, dict[str, np.ndarray]] = {name: {} for name in owners}
        for name, part in tensors.items():
            owner, _, of_step = name.partition(".")
            by_step[owner][of_step] = part
        made, sample = by_step.pop("identifier"), dict(sorted(by_step.pop("sample").items()))
        steps = tuple(_step(parts) for parts in by_step.values())
        identifier = None
        if record := header["identifier"]:
            novel = Novelty(*(made.pop(name) for name in Novelty._fields))
            codes, spec = tuple(record["languages"]), _spec(record["source"])
            identifier = LanguageIdentifier(
                **made, novel=novel, languages=codes, source=spec, threshold=float(record["threshold"])
            )
        for fit in fits:
            check_codes(fit.languages)
        _check((steps, fits, source, identifier, sample), str(path))
    # Only now, because jax would turn float64 into float32 without a word.
    return jax.device_put(steps), fits, source, jax.device_put(identifier), sample


def _step(parts: dict[str, np.ndarray]) -> Step | SparseAutoencoder | Blend:
    if "encoder" in parts:
        return SparseAutoencoder.from_arrays(**parts)
    return Blend.from_arrays(**parts) if "strength" in parts else Step(**parts)


def _spec(fields: dict[str, Any] | None) -> EncoderSpec | None:
    return EncoderSpec.from_dict(fields) if fields else None


def _fit(fields: dict[str, Any]) -> Fit:
    tables = {name: tuple(map(tuple, fields[name])) for name in ("fitted_on", "parameters")}
    return Fit(**{**fields, **tables, "languages": tuple(fields["languages"])})


def _check(transform: TransformParts, where: str) -> None:
    """Raises ValueError if parts do not fit together, as in a step that a user made."""
    steps, fits, _, identifier, sample = transform
    _check_arrays(sample, {code: [len(rows), fits[0].dim] for code, rows in sample.items()}, f"the sample in {where}")
    for step, fit in zip(steps, fits, strict=True):
        _check_arrays(step.arrays(), step.shapes(fit.dim, len(fit.languages)), f"{fit} in {where}")
    if identifier is not None:
        _check_arrays(identifier.arrays(), identifier.shapes(fits[0].dim), f"the identifier in {where}")


def _check_arrays(arrays: Mapping[str, AnyArray], shapes: Mapping[str, list[int]], where: str) -> None:
    for name, expected in shapes.items():
        part = np.asarray(arrays[name])
        if list(part.shape) != expected or part.dtype != np.float32 or not np.isfinite(part).all():
            found = f"has shape {list(part.shape)} and dtype {part.dtype}"
            raise ValueError(f"{where}: {name} {found}; expected {expected} of float32, without NaN and infinity")
