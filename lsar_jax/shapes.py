"""The vocabulary of array shapes.

Every array in a signature is written with one of these names, so that ``batch``, ``length``
or ``rank`` means the same thing in every file. The axes are checked in the tests by
jaxtyping's pytest flag and cost nothing at run time.

======== =====================================================
axis     meaning
======== =====================================================
batch    rows of one device call, filler rows included
length   token positions, padding included
dim      width of an embedding
vector   embeddings, one a sentence
layer    hidden-state layers, 0 is the embedding output
language rows of a table with one row a language
rank     dimensions of a removed subspace
query    embeddings that search
candidate embeddings that are searched
k        neighbours kept
======== =====================================================
"""

import numpy as np
from jaxtyping import Array, Bool, Float, Int

__all__ = [
    "Basis",
    "Batch",
    "Embeddings",
    "Hidden",
    "LanguageIds",
    "Layers",
    "Lengths",
    "Mask",
    "TokenIds",
    "Vector",
]

AnyArray = Array | np.ndarray

TokenIds = Int[AnyArray, "batch length"]
Lengths = Int[AnyArray, " batch"]
Mask = Bool[Array, "batch length"]
Hidden = Float[Array, "batch length dim"]
Batch = Float[Array, "batch dim"]
Layers = Float[Array, "layer batch dim"]

Embeddings = Float[AnyArray, "vector dim"]
Vector = Float[AnyArray, " dim"]
Basis = Float[AnyArray, "dim rank"]
LanguageIds = Int[AnyArray, ""] | Int[AnyArray, " vector"]
