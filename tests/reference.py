"""The published formulas in float64 numpy, written as they are printed.

LSAR's Algorithm 1 stands in ``eval/algorithm1.py``, where its precision is measured.
"""

import numpy as np

__all__ = ["center", "lir"]


def center(x, language_embeddings):
    """Libovicky et al. 2020: subtract the mean of the language's own embeddings."""
    return np.asarray(x, np.float64) - np.asarray(language_embeddings, np.float64).mean(axis=0)


def lir(x, language_embeddings, components):
    """Yang et al. 2021: remove the top left singular vectors of E_l^T, which is not centred."""
    left, _, _ = np.linalg.svd(np.asarray(language_embeddings, np.float64).T, full_matrices=False)
    top = left[:, :components]
    return np.asarray(x, np.float64) - np.asarray(x, np.float64) @ top @ top.T
