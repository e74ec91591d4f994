"""``lsar-jax apply``: a transform on a file of vectors, in bounded memory."""

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from lsar_jax.reader import open_vectors
from lsar_jax.transforms import Transform

__all__ = ["apply"]

_BLOCK = 65536


def apply(
    transform: Annotated[Path, tyro.conf.Positional],
    vectors: Annotated[Path, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    language: str | None = None,
) -> None:
    """Applies a transform to a ``.npy`` file of vectors and writes another.

    Args:
      transform: the file that ``lsar-jax fit`` or ``Transform.save`` wrote.
      vectors: a ``.npy`` of floats, a row a sentence.
      out: the ``.npy`` to write, float32.
      language: a code, or auto; not needed by a shared transform.

    Raises:
      FileNotFoundError: a file, or the folder of ``out``, is not there.
      ValueError: another width, or a language that is missing or unknown.
    """
    fitted = Transform.load(transform)
    x = open_vectors(vectors)
    # What is wrong with the width or the language is said before a file is made.
    fitted(np.asarray(x[:1]), language)
    if not out.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent} to save {out.name} in")
    partial = out.with_name(out.name + ".partial")
    with partial.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": x.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(x), _BLOCK):
            block = np.asarray(x[start : start + _BLOCK])
            bad = ~np.isfinite(block).all(axis=1)
            if bad.any():
                partial.unlink()
                raise ValueError(f"{vectors} holds NaN or infinity, first in row {start + int(bad.argmax())}")
            file.write(np.asarray(fitted(block, language), "<f4").tobytes())
    partial.replace(out)
    print(f"wrote {x.shape[0]} vectors of width {x.shape[1]} after {fitted.name} to {out}")
