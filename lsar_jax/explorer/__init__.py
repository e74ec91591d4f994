"""A page on which embeddings are looked at before and after a transform; it needs no server and no network."""

from lsar_jax.explorer.contents import explore
from lsar_jax.explorer.page import Explorer

__all__ = ["Explorer", "explore"]
