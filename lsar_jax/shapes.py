"""Shared names for array shapes.

Array annotations use these axis names, which mean the same in every file. The tests check them with jaxtyping's pytest
flag; they cost nothing at run time.

========= =====================================================
axis      meaning
========= =====================================================
batch     rows of one device call, including empty ones
length    token positions, including padding
segment   sentences of a row, one behind the other, including empty places
dim       width of an embedding
vector    embeddings, one per sentence; of a batch, also of empty places
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
    "Ids",
    "LanguageIds",
    "Lengths",
    "Mask",
    "Pooled",
    "PooledLayers",
    "SegmentLanguages",
    "TokenIds",
]

#: An array of jax or of numpy.
AnyArray = Array | np.ndarray
#: Numbers of a sentence: its tokens, or what belongs to some of them.
Ids = Int[np.ndarray, "_"]

#: The token ids of a batch, padded to its length.
TokenIds = Int[AnyArray, "batch length"]
#: The number of tokens of each segment; 0 if it is empty.
Lengths = Int[AnyArray, "batch segment"]
#: The language of each segment, as its index in a table of languages.
SegmentLanguages = Int[AnyArray, "batch segment"]
#: Which positions hold a token of a segment.
Mask = Bool[Array, "batch segment length"]
#: The hidden states of one layer.
Hidden = Float[Array, "batch length dim"]
#: An embedding of each segment.
Pooled = Float[Array, "batch segment pooled"]
#: An embedding of each sentence of a batch at each layer.
PooledLayers = Float[Array, "layer vector dim"]

#: Embeddings, one per sentence, in any float dtype.
Embeddings = Float[AnyArray, "vector dim"]
#: The language of all vectors, or of each, as its index in a table of languages.
LanguageIds = Int[AnyArray, ""] | Int[AnyArray, " vector"]
