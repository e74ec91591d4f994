"""Shared names for array shapes.

Array annotations use these axis names, which mean the same in every file. The tests check them with jaxtyping's pytest
flag; they cost nothing at run time.

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

#: An array of jax or of numpy.
AnyArray = Array | np.ndarray

#: The token ids of a batch, padded to its length.
TokenIds = Int[AnyArray, "batch length"]
#: The number of tokens of each row.
Lengths = Int[AnyArray, " batch"]
#: The language of each row, as its index in a table of languages.
RowLanguages = Int[AnyArray, " batch"]
#: Which positions hold a token that counts.
Mask = Bool[Array, "batch length"]
#: The hidden states of one layer.
Hidden = Float[Array, "batch length dim"]
#: An embedding of each row.
Pooled = Float[Array, "batch dim"]
#: An embedding of each row at each layer.
PooledLayers = Float[Array, "layer batch dim"]

#: Embeddings, one per sentence, in any float dtype.
Embeddings = Float[AnyArray, "vector dim"]
#: The language of all vectors, or of each, as its index in a table of languages.
LanguageIds = Int[AnyArray, ""] | Int[AnyArray, " vector"]
