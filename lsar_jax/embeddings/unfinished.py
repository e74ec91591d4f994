"""The vectors of a shard while it is encoded, kept in a file now and then, so that little is lost if the job stops.

The batches of a shard depend on its sentences alone. A job that goes on makes the same ones, and computes only those
whose vectors are not in the file, so that it ends in the same bytes.
"""

import logging
import time
from pathlib import Path

import numpy as np

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.encoders.collectors import HostResult
from lsar_jax.shapes import PooledLayers
from lsar_jax.tokens.packing import PackedBatch

__all__ = ["Unfinished"]

_log = logging.getLogger("lsar_jax")

_FORMAT = "lsar_jax.unfinished_shard.v1"
# Seconds of work that may be lost. A shard that takes less is never kept.
_SECONDS = 30.0


class Unfinished(HostResult):
    """Collects the vectors of a shard, from the batches that were kept on.

    Args:
      path: the file; one that is damaged is not read.
      digest: digest of the job and the sentences; a file with another one is not read.
      sentences: number of the sentences.
      dim: width of a vector.
    """

    def __init__(self, path: Path, digest: str, sentences: int, dim: int) -> None:
        super().__init__(1, sentences, dim)
        self.path, self.digest, self.sentences, self._batches = path, digest, 0, 0
        self._saved = time.monotonic()
        if not path.is_file():
            return
        try:
            with open_arrays(path, format=_FORMAT, what="unfinished shard") as file:
                if file.header["digest"] == digest:
                    self._result[0] = file.read("vectors")
                    self.kept, self.sentences = file.header["batches"], file.header["sentences"]
        except ValueError as error:
            _log.warning("%s; its shard is encoded from the beginning", error)

    def add(self, batch: PackedBatch, value: PooledLayers) -> None:
        """Takes the embeddings of a batch, and keeps all of them if that was not done for a while."""
        super().add(batch, value)
        self._batches += 1
        self.sentences += len(batch.sentences)
        if time.monotonic() - self._saved >= _SECONDS:
            self._collect(0)
            header = {"digest": self.digest, "batches": self.kept + self._batches, "sentences": self.sentences}
            save_arrays(self.path, {"vectors": np.asarray(self._result[0])}, format=_FORMAT, header=header)
            self._saved = time.monotonic()
