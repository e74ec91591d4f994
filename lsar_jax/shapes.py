"""Shared names for array shapes.

Array annotations use these axis names, so that ``batch``, ``length`` or ``rank`` mean the same
thing in every file. The tests check them with jaxtyping's pytest flag; they cost nothing at run time.

========= =====================================================
axis      meaning
========= =====================================================
batch     rows of one device call, including filler rows
length    token positions, including padding
dim       width of an embedding
vector    embeddings, one per sentence
layer     hidden-state layers; 0 is the embedding output
language  rows of a table with one row per language
rank      dimensions of a removed subspace
query     embeddings to search with
candidate embeddings to search among
k         nearest neighbours kept
========= =====================================================
"""

import numpy as np
from jaxtyping import Array, Bool, Float, Int

__all__ = [
    "AnyArray",
    "Embeddings",
    "Hidden",
    "LanguageIds",
    "Lengths",
    "Mask",
    "Pooled",
    "PooledLayers",
    "RowLanguages",
    "TokenIds",
]

AnyArray = Array | np.ndarray

TokenIds = Int[AnyArray, "batch length"]
Lengths = Int[AnyArray, " batch"]
RowLanguages = Int[AnyArray, " batch"]
Mask = Bool[Array, "batch length"]
Hidden = Float[Array, "batch length dim"]
Pooled = Float[Array, "batch dim"]
PooledLayers = Float[Array, "layer batch dim"]

Embeddings = Float[AnyArray, "vector dim"]
LanguageIds = Int[AnyArray, ""] | Int[AnyArray, " vector"]
