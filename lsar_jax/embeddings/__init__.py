"""Embeddings of large text in a folder: written shard by shard, and read by range.

``encode`` writes a folder and can be stopped at any time, or runs in shares that ``merge`` ends; ``open`` opens one.
"""

from lsar_jax.embeddings.encode_folder import encode
from lsar_jax.embeddings.folder import Embeddings
from lsar_jax.embeddings.folder import open_folder as open
from lsar_jax.embeddings.job import Progress
from lsar_jax.embeddings.merge import merge

__all__ = ["Embeddings", "Progress", "encode", "merge", "open"]
