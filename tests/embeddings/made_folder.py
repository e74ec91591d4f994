"""Folders of embeddings without an encoder."""

from pathlib import Path

import lsar_jax as lj
from lsar_jax.corpora.records import Record
from lsar_jax.embeddings.manifest import Job, Manifest, Shard
from lsar_jax.embeddings.shards import as_jsonl, file_names, write_shard
from lsar_jax.files import sha256

__all__ = ["SPEC", "made_folder"]

SPEC = lj.EncoderSpec("bundled", "sha256:0", 8, "mean", "float32")


def made_folder(folder, vectors, texts, *, spec=SPEC, rows=300):
    """Writes vectors and their sentences as ``lsar_jax.embeddings.encode`` does, and opens the folder."""
    folder.mkdir()
    job = Job(spec, vectors.shape[1], 512, False, None, "float32", "npy", rows, ("made",), "text", None, "1 x cpu", "")
    shards = []
    for number, first in enumerate(range(0, len(texts), rows)):
        part = slice(first, first + rows)
        sentences = as_jsonl([Record(text, None, 0) for text in texts[part]], first)
        write_shard(folder, job, number, sentences, vectors[part])
        files = {name: sha256([folder / name]) for name in file_names("npy", number)}
        shards.append(Shard(len(texts[part]), files, "", 0, 0))
    Manifest(job, (), tuple(shards)).write(Path(folder))
    return lj.embeddings.open(folder)
