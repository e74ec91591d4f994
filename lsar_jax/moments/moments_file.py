"""The moments of many languages in one safetensors file, from which any of the languages can be read.

A corpus has to be read only once: from the file, any method can be fitted, at any rank and on any choice
of languages. If a corpus is read in parts, the files of the parts can be merged.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.arrays import same_width
from lsar_jax.languages import own_name
from lsar_jax.moments.by_language import PooledMoments, common_source, moments_by_language
from lsar_jax.moments.moments import Moments
from lsar_jax.spec import EncoderSpec

__all__ = ["load_moments", "merge_moments", "save_moments"]

FORMAT = "lsar_jax.moments.v1"


def save_moments(path: str | Path, moments: Mapping[str, Moments], *, source: EncoderSpec | None = None) -> None:
    """Writes moments, and the spec of the embeddings that they were summed over, to one file, which appears whole.

    Args:
      path: the file.
      moments: mapping from language to moments, or ``PooledMoments``.
      source: the encoder's spec; by default, the moments' own.

    Raises:
      FileNotFoundError: the folder of ``path`` does not exist.
      ValueError: there are no moments, a code is unknown, widths differ, or the moments are of other embeddings than
        each other or than ``source``.

    Example:
      >>> import tempfile
      >>> moments = {code: lj.Moments.from_embeddings(np.ones((3, 4))) for code in ("de", "en")}
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     lj.save_moments(f"{folder}/text.safetensors", moments)
      ...     read, source = lj.load_moments(f"{folder}/text.safetensors", ["de"])
      >>> read["de"].count, list(read), source
      (3, ['de'], None)
    """
    checked = moments_by_language(moments, least=1)
    source = common_source(checked, source)
    arrays = {f"{code}.mean": m.mean for code, m in checked.items()}
    arrays |= {f"{code}.scatter": m.scatter for code, m in checked.items() if m.scatter is not None}
    if isinstance(moments, PooledMoments):
        arrays["within"] = moments.within
    header = {"counts": {code: m.count for code, m in checked.items()}, "source": source.to_dict() if source else None}
    arrays = {name: np.asarray(part, np.float64) for name, part in arrays.items()}
    save_arrays(Path(path), arrays, format=FORMAT, header=header)


def load_moments(
    path: str | Path, languages: Iterable[str] | None = None, *, means_only: bool = False
) -> tuple[dict[str, Moments] | PooledMoments, EncoderSpec | None]:
    """Reads what ``save_moments`` wrote: moments by language, or ``PooledMoments``, and the encoder's spec.

    Args:
      path: the file.
      languages: codes of the languages to read; by default, all. The arrays of other languages are not read.
      means_only: whether to leave out second moments. Any subset of pooled languages can be read so.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: the file is of another kind, is damaged or lacks a language; or a subset of pooled moments is
        requested together with their second moment, which covers all languages.

    Example:
      >>> import tempfile
      >>> pooled = lj.pool_moments({code: np.eye(4) for code in ("de", "en", "fr")})
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     lj.save_moments(f"{folder}/text.safetensors", pooled)
      ...     lj.load_moments(f"{folder}/text.safetensors", ["de", "fr"], means_only=True)[0].keys()
      dict_keys(['de', 'fr'])
    """
    path = Path(path)
    with open_arrays(path, format=FORMAT, what="moments file") as file:
        counts, spec = file.header["counts"], file.header["source"]
        source = EncoderSpec.from_dict(spec) if spec else None
        codes = list(counts)
        if languages is not None:
            codes = sorted({own_name(code, counts, str(path)) for code in languages})
        pooled = "within" in file.names and not means_only
        if pooled and codes != list(counts):
            known = ", ".join(counts)
            raise ValueError(f"{path} has one second moment for {known} together; read a subset with means_only=True")
        moments = {}
        for code in codes:
            name = f"{code}.scatter"
            scatter = file.read(name) if name in file.names and not means_only else None
            moments[code] = Moments(counts[code], file.read(f"{code}.mean"), scatter, source)
        within = file.read("within") if pooled else None
    moments = moments_by_language(moments, least=1)
    return moments if within is None else PooledMoments(moments, within), source


def merge_moments(*parts: Mapping[str, Moments]) -> dict[str, Moments] | PooledMoments:
    """Returns the moments of several corpora together, ``PooledMoments`` if all of the parts are.

    A language may be in one or more of them; the result is in alphabetical order.

    Raises:
      ValueError: widths differ, only some moments have a second moment, only some parts are pooled, or they are of
        different encoders.

    Example:
      >>> one = {code: lj.Moments.from_embeddings(np.zeros((2, 1))) for code in ("de", "en")}
      >>> two = {code: lj.Moments.from_embeddings(np.ones((6, 1))) for code in ("de", "fr")}
      >>> {code: (m.count, m.mean.tolist()) for code, m in lj.merge_moments(one, two).items()}
      {'de': (8, [0.75]), 'en': (2, [0.0]), 'fr': (6, [1.0])}
    """
    if pooled := [part for part in parts if isinstance(part, PooledMoments)]:
        if len(pooled) < len(parts):
            raise ValueError("pooled moments can be merged only with pooled ones; pool the others with pool_moments")
        return _merge_pooled(pooled)
    result: dict[str, Moments] = {}
    for part in parts:
        for code, m in moments_by_language(part, least=1).items():
            result[code] = result[code].merge(m) if code in result else m
    if len({m.scatter is None for m in result.values()}) > 1:
        raise ValueError("some languages have a second moment and some have none; use second_moment=True for all")
    return moments_by_language(result, least=1)


def _merge_pooled(parts: list[PooledMoments]) -> PooledMoments:
    same_width("the moments", {f"part {number}": part.dim for number, part in enumerate(parts, 1)})
    result: dict[str, Moments] = {}
    within = np.sum([part.within for part in parts], axis=0)
    for part in parts:
        for code, m in part.items():
            if code in result:
                # Two parts of a language differ in their means, which adds variance within the language.
                old = result[code]
                delta = m.mean - old.mean
                within += np.outer(delta, delta) * (old.count * (m.count / (old.count + m.count)))
                m = old.merge(m)
            result[code] = m
    common_source(result)
    return PooledMoments(dict(sorted(result.items())), within)
