"""The moments of many languages as one safetensors file, of which any languages can be read.

A corpus is read once; every method, rank and choice of languages is fitted from the file. Files of
parts of a corpus are merged.
"""

import json
import operator
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from lsar_jax.languages import canonical_keys, check_known
from lsar_jax.moments import Moments, PooledMoments, moments_by_language
from lsar_jax.spec import EncoderSpec

__all__ = ["load_moments", "merge_moments", "save_moments"]

FORMAT = "lsar_jax.moments.v1"


def save_moments(path: str | Path, moments: Mapping[str, Moments], *, source: EncoderSpec | None = None) -> None:
    """Writes moments and where they are from.

    Args:
      path: of the file; an old one is replaced when the new is whole.
      moments: from language, or ``PooledMoments``.
      source: the encoder's spec.

    Raises:
      FileNotFoundError: there is no folder for ``path``.
      ValueError: no moments, bad codes, or widths that differ.
    """
    from safetensors.numpy import save_file

    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to save in")
    checked = moments_by_language(moments, least=1)
    tensors = {f"{code}.mean": m.mean for code, m in checked.items()}
    tensors |= {f"{code}.scatter": m.scatter for code, m in checked.items() if m.scatter is not None}
    if isinstance(moments, PooledMoments):
        tensors["within"] = moments.within
    header = {"counts": {code: m.count for code, m in checked.items()}, "source": source.to_dict() if source else None}
    # Beside it first: a run that is killed here leaves the old file.
    partial = path.with_name(path.name + ".partial")
    arrays = {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}
    save_file(arrays, str(partial), {"format": FORMAT, "header": json.dumps(header)})
    partial.replace(path)


def load_moments(
    path: str | Path, languages: Iterable[str] | None = None, *, means_only: bool = False
) -> tuple[dict[str, Moments] | PooledMoments, EncoderSpec | None]:
    """Reads moments that ``save_moments`` wrote.

    Args:
      path: of the file.
      languages: those wanted, of which alone the arrays are read; all by default.
      means_only: whether to leave the second moments, as Centered, LSAR and outliers do not need
        them; of pooled moments any languages can be chosen so.

    Returns:
      From language to moments, or ``PooledMoments`` if they were saved; and the source.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not such a file, is damaged, or lacks a language; or a choice of
        languages of pooled moments, whose second is that of all.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there are no moments at {path}")
    if isinstance(languages, str):
        raise ValueError(f"languages is {languages!r}; give a list of codes")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{path} has format {metadata.get('format')!r}, expected {FORMAT!r}")
            names = set(file.keys())
            try:
                header = json.loads(metadata["header"])
                counts = {str(code): operator.index(count) for code, count in header["counts"].items()}
                source = EncoderSpec(**header["source"]) if header["source"] else None
                sound = counts and list(canonical_keys(counts)) == list(counts) and min(counts.values()) > 0
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise ValueError(f"the header of {path} is damaged: {error!r}") from error
            known = {f"{code}.{part}" for code in counts for part in ("mean", "scatter")} | {"within"}
            if not sound or names - known or {f"{code}.mean" for code in counts} - names:
                raise ValueError(f"{path} says that it is of {', '.join(counts)} and has {', '.join(sorted(names))}")
            chosen = list(counts)
            if languages is not None:
                chosen = sorted({check_known(code, counts, str(path)) for code in languages})
                if "within" in names and not means_only and chosen != list(counts):
                    raise ValueError(
                        f"{path} has one second moment of {', '.join(counts)} together; "
                        "no part of them can be chosen but with means_only=True"
                    )
            result = {}
            for code in chosen:
                mean = file.get_tensor(f"{code}.mean")
                _check(mean, (mean.size,), f"{path}: the mean of {code}")
                second = f"{code}.scatter" in names and not means_only
                scatter = file.get_tensor(f"{code}.scatter") if second else None
                if scatter is not None:
                    _check(scatter, (mean.size, mean.size), f"{path}: the scatter of {code}")
                result[code] = Moments(counts[code], mean, scatter)
            within = file.get_tensor("within") if "within" in names and not means_only else None
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    moments = moments_by_language(result, least=1)
    if within is None:
        return moments, source
    dim = next(iter(moments.values())).dim
    _check(within, (dim, dim), f"{path}: the second moment of all")
    return PooledMoments(moments, within), source


def merge_moments(*parts: Mapping[str, Moments]) -> dict[str, Moments] | PooledMoments:
    """Returns the moments of corpora together; a language may be in one or in several.

    Args:
      *parts: from language to moments, or all of them ``PooledMoments``.

    Raises:
      ValueError: widths that differ, some with a second moment and some without, or pooled ones
        with others.
    """
    pooled = [isinstance(part, PooledMoments) for part in parts]
    if any(pooled) and not all(pooled):
        raise ValueError("pooled moments merge with pooled ones only; pool the others by pool_moments")
    if any(pooled):
        return _merge_pooled([part for part in parts if isinstance(part, PooledMoments)])
    result: dict[str, Moments] = {}
    for part in parts:
        for code, m in moments_by_language(part, least=1).items():
            result[code] = result[code].merge(m) if code in result else m
    if len({m.scatter is None for m in result.values()}) > 1:
        raise ValueError("some languages have a second moment and some have none; use second_moment=True for all")
    return moments_by_language(result, least=1)


def _merge_pooled(parts: list[PooledMoments]) -> PooledMoments:
    widths = sorted({part.dim for part in parts})
    if len(widths) > 1:
        raise ValueError(f"moments of width {' and '.join(map(str, widths))} cannot be merged")
    result: dict[str, Moments] = {}
    within = np.zeros((widths[0], widths[0]))
    for part in parts:
        within += part.within
        for code, m in part.items():
            if code in result:
                # Two parts of a language differ in their mean: that is variance within it.
                old = result[code]
                delta = m.mean - old.mean
                within += np.outer(delta, delta) * (old.count * (m.count / (old.count + m.count)))
                m = old.merge(m)
            result[code] = m
    return PooledMoments(dict(sorted(result.items())), within)


def _check(part: np.ndarray, shape: tuple[int, ...], where: str) -> None:
    if part.shape != shape or part.dtype != np.float64:
        raise ValueError(f"{where} has shape {list(part.shape)} of {part.dtype}, expected {list(shape)} of float64")
    if not np.isfinite(part).all():
        raise ValueError(f"{where} holds NaN or infinity")
