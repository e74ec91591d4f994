"""Embeddings of sentences on disk, so that no sentence is encoded twice."""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jaxtyping import Float

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.spec import EncoderSpec

__all__ = ["EmbeddingCache", "Sentence"]

# Format of the files.
_FORMAT = "lsar_jax.embeddings.v2"

# Bytes of the hash of a sentence.
_HASH = 16

# A language, which is empty if the encoder does not use it, and a text.
Sentence = tuple[str, str]


class EmbeddingCache:
    """Embeddings ``[sentence, dim]`` at the layer of ``spec``, in files of sentences that were encoded together.

    The names of the files begin with a hash of the encoder, the maximum number of tokens and the version of lsar_jax.
    """

    def __init__(self, folder: Path, spec: EncoderSpec, dim: int, max_length: int) -> None:
        self.folder, self.spec, self.dim = folder, spec, dim
        key = json.dumps([spec.to_dict(), max_length, version("lsar_jax")])
        self.name = hashlib.sha256(key.encode()).hexdigest()[:32]

    def read(self, sentences: Sequence[Sentence]) -> tuple[Float[np.ndarray, "sentence dim"], set[int]]:
        """Returns the embeddings of sentences, and the numbers of those that are not in the cache."""
        x = np.zeros((len(sentences), self.dim), np.float32)
        missing = {_hash(sentence): number for number, sentence in enumerate(sentences)}
        for path in sorted(self.folder.glob(f"{self.name}-*.safetensors")):
            if not missing:
                break
            with open_arrays(path, format=_FORMAT, what="embedding cache") as file:
                known = file.read("sentences") if "sentences" in file.names else np.empty((0, 0), np.uint8)
                if known.shape[1:] != (_HASH,) or "embeddings" not in file.names:
                    raise ValueError(f"{path} has no embeddings of sentences; delete the file")
                hashes = [row.tobytes() for row in known]
                places = [place for place, digest in enumerate(hashes) if digest in missing]
                if not places:
                    continue
                values = file.read("embeddings")
            if values.shape != (len(hashes), self.dim) or values.dtype != np.float32:
                shape = [len(hashes), self.dim]
                raise ValueError(f"{path} does not hold embeddings of shape {shape} in float32; delete the file")
            x[[missing.pop(hashes[place]) for place in places]] = values[places]
        return x, set(missing.values())

    def path(self, sentences: Sequence[Sentence]) -> Path:
        """Returns the file of sentences that are encoded together."""
        digest = hashlib.sha256(b"".join(map(_hash, sentences))).hexdigest()
        return self.folder / f"{self.name}-{digest[:16]}.safetensors"

    def write(self, path: Path, sentences: Sequence[Sentence], x: Float[np.ndarray, "sentence dim"]) -> None:
        """Writes the embeddings of sentences that were encoded together."""
        hashes = np.frombuffer(b"".join(map(_hash, sentences)), np.uint8).reshape(len(sentences), -1)
        save_arrays(path, {"sentences": hashes, "embeddings": x}, format=_FORMAT, header=self.spec.to_dict())


def _hash(sentence: Sentence) -> bytes:
    return hashlib.sha256(json.dumps(sentence).encode()).digest()[:_HASH]
