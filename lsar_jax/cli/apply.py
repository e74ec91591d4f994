"""``lsar-jax apply``: applies a transform to a file of vectors, in bounded memory."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from lsar_jax.cli.inputs import open_vectors
from lsar_jax.files import new_file
from lsar_jax.transforms import Transform

__all__ = ["Apply"]

_BLOCK = 65536


@dataclass(frozen=True)
class Apply:
    """Applies a transform to a .npy file of vectors, and writes the results to another .npy file.

    Attributes:
      transform: the file that lsar-jax fit or Transform.save wrote.
      vectors: a .npy file of floats, one row per sentence.
      out: the .npy file to write, in float32.
      language: language code of all vectors, or auto to detect the language of each; a shared transform needs none.
    """

    transform: tyro.conf.Positional[Path]
    vectors: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]
    language: str | None = None

    def run(self) -> None:
        """Writes the file.

        Raises:
          FileNotFoundError: a file, or the folder of ``out``, does not exist.
          ValueError: the width differs, or the language is missing or unknown.
        """
        fitted = Transform.load(self.transform)
        x = open_vectors(self.vectors)
        # A wrong width or language is reported before a file is created.
        fitted(np.asarray(x[:1]), self.language)
        with new_file(self.out) as partial, partial.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": x.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(x), _BLOCK):
                block = np.asarray(x[start : start + _BLOCK])
                bad = ~np.isfinite(block).all(axis=1)
                if bad.any():
                    raise ValueError(f"{self.vectors} holds NaN or infinity, first in row {start + int(bad.argmax())}")
                file.write(np.asarray(fitted(block, self.language), "<f4").tobytes())
        print(f"wrote {x.shape[0]} vectors of width {x.shape[1]}, transformed by {fitted.name}, to {self.out}")
