"""The published formulas in float64 numpy, written as they are printed.

LSAR's Algorithm 1 as printed is ``transforms.published_subspace``.
"""

import numpy as np

__all__ = ["center", "cluster_enhancement", "leace", "lir", "outliers", "procrustes", "whiten_samples", "whitening"]


def center(x, language_embeddings):
    """Libovicky et al. 2020: subtract the mean of the language's own embeddings."""
    return np.asarray(x, np.float64) - np.asarray(language_embeddings, np.float64).mean(axis=0)


def lir(x, language_embeddings, components):
    """Yang et al. 2021: remove the top left singular vectors of E_l^T, which is not centred."""
    left, _, _ = np.linalg.svd(np.asarray(language_embeddings, np.float64).T, full_matrices=False)
    top = left[:, :components]
    return np.asarray(x, np.float64) - np.asarray(x, np.float64) @ top @ top.T


def whitening(x, fitted_on, eps, absolute):
    """Hämmerl et al. 2023, equations 3 to 5: over features, eps added to the eigenvalues."""
    fitted_on = np.asarray(fitted_on, np.float64)
    values, vectors = np.linalg.eigh(np.cov(fitted_on, rowvar=False))
    eps = eps if absolute else eps * values.mean()
    matrix = vectors @ np.diag((values + eps) ** -0.5) @ vectors.T
    return (np.asarray(x, np.float64) - fitted_on.mean(axis=0)) @ matrix


def whiten_samples(x, eps=1e-5, eig=np.linalg.eig):
    """Hämmerl et al. 2023, the published code: the eigenvectors are those of np.cov with rows as variables."""
    centred = (x - x.mean(axis=0)).astype(np.float64)
    values, vectors = (part.real for part in eig(np.cov(centred)))
    return vectors @ np.diag((np.maximum(values, 0) + eps) ** -0.5) @ vectors.T @ centred


def outliers(means, sigma):
    """Hämmerl et al. 2023: |v_i| > mean + sigma std of the mean over languages."""
    v = np.mean(np.asarray(means, np.float64), axis=0)
    return np.abs(v) > v.mean() + sigma * v.std(ddof=1)


def cluster_enhancement(x, members, components):
    """Rajaee and Pilehvar 2021: in each cluster, centre and remove the top principal components."""
    result = np.empty(np.shape(x), np.float64)
    for rows in members:
        centred = np.asarray(x[rows], np.float64) - np.mean(x[rows], axis=0, dtype=np.float64)
        _, values, right = np.linalg.svd(centred, full_matrices=False)
        # At least one direction is left: the published code may leave none of a small cluster.
        top = right[: max(min(components, len(rows) - 2, int((values > 1e-9 * values[0]).sum())), 0)]
        result[rows] = centred - centred @ top.T @ top
    return result


def leace(x, fitted_on, languages):
    """Belrose et al. 2023, Theorem 4.2: x - W^+ P W (x - mean), W the whitening of the total covariance."""
    fitted_on = np.asarray(fitted_on, np.float64)
    mean = fitted_on.mean(axis=0)
    labels = np.asarray(languages)[:, None] == np.unique(languages)[None, :]
    centred = fitted_on - mean
    total = centred.T @ centred / (len(centred) - 1)
    cross = centred.T @ (labels - labels.mean(axis=0)) / (len(centred) - 1)
    values, vectors = np.linalg.eigh(total)
    kept = values > 1e-12 * values[-1]
    half = (vectors[:, kept] * values[kept] ** -0.5) @ vectors[:, kept].T
    back = (vectors[:, kept] * values[kept] ** 0.5) @ vectors[:, kept].T
    left, singular, _ = np.linalg.svd(half @ cross, full_matrices=False)
    left = left[:, singular > 1e-10 * singular[0]]
    return np.asarray(x, np.float64) - (np.asarray(x, np.float64) - mean) @ half @ left @ left.T @ back


def procrustes(x, y):
    """Schönemann 1966: the orthogonal W with y = W x."""
    left, _, right = np.linalg.svd(np.asarray(y, np.float64).T @ np.asarray(x, np.float64))
    return left @ right
