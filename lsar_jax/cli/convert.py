"""``lsar-jax convert``: converts a pickled checkpoint to a safetensors folder."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from lsar_jax.checkpoints.pickles import convert

__all__ = ["Convert"]


@dataclass(frozen=True)
class Convert:
    """Converts a pickled checkpoint to a safetensors folder that load_encoder can load.

    Attributes:
      checkpoint: a folder, preset or Hub id with pytorch_model.bin (whole, or in shards with their index), or a .pt
        file of LASER, with its .spm file (LASER2), or its .fcodes and .fvocab files (LASER1), in the same folder.
      dest: a folder that does not exist yet.
      revision: commit, tag or branch of a Hub id.
    """

    checkpoint: tyro.conf.Positional[str]
    dest: tyro.conf.Positional[Path]
    revision: str | None = None

    def run(self) -> None:
        """Converts the checkpoint, and prints the digest of the weights."""
        convert(self.checkpoint, self.dest, revision=self.revision)
