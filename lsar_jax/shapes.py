"""The vocabulary of array shapes.

Arrays in signatures are written with these axes, so that ``batch``, ``length`` or ``rank`` mean
the same thing in every file. They are checked in the tests by jaxtyping's pytest flag and
cost nothing at run time.

========= =====================================================
axis      meaning
========= =====================================================
batch     rows of one device call, filler rows included
length    token positions, padding included
dim       width of an embedding
vector    embeddings, one a sentence
layer     hidden-state layers, 0 is the embedding output
language  rows of a table with one row a language
rank      dimensions of a removed subspace
query     embeddings that search
candidate embeddings that are searched
k         neighbours kept
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
