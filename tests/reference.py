"""The published formulas in float64 numpy, written as they are printed.

LSAR's Algorithm 1 as printed is ``transforms.published_subspace``.
"""

import math
from functools import partial

import numpy as np

__all__ = [
    "center",
    "cluster_enhancement",
    "experts",
    "joint",
    "language_ndcg",
    "layer_norm",
    "leace",
    "linear",
    "lir",
    "max_rank",
    "nomic_bert",
    "outliers",
    "procrustes",
    "rank_shift",
    "rotary_attention",
    "sparse_autoencoder",
    "sparse_dimensions",
    "steering",
    "whiten_samples",
    "whitening",
]


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


def sparse_dimensions(means, dimensions):
    """After Zhong et al. 2025: the dimensions in which the means differ most."""
    centred = np.asarray(means, np.float64) - np.mean(means, axis=0, dtype=np.float64)
    return sorted(np.argsort(-np.square(centred).sum(axis=0), kind="stable")[:dimensions].tolist())


def steering(x, fitted_on, components):
    """Goncharov et al. 2025 with s = 1: remove the first principal components of the embeddings of all languages."""
    fitted_on = np.asarray(fitted_on, np.float64)
    _, _, right = np.linalg.svd(fitted_on - fitted_on.mean(axis=0), full_matrices=False)
    return np.asarray(x, np.float64) - np.asarray(x, np.float64) @ right[:components].T @ right[:components]


def joint(x, by_language, components, eps):
    """The span of the means, then H^-1 V with V the top eigenvectors of the mean of (H (C_l - C) H)^2."""
    by_language = [np.asarray(rows, np.float64) for rows in by_language]
    means = np.stack([rows.mean(axis=0) for rows in by_language])
    right = np.linalg.svd(means, full_matrices=False)[2]
    outside = np.eye(means.shape[1]) - right.T @ right
    covariances = np.stack([np.cov(rows @ outside, rowvar=False) for rows in by_language])
    pooled = covariances.mean(axis=0)
    values, vectors = np.linalg.eigh(pooled + eps * np.trace(pooled) / len(pooled) * np.eye(len(pooled)))
    half = vectors @ np.diag(values**-0.5) @ vectors.T
    squares = [half @ (c - pooled) @ half @ half @ (c - pooled) @ half for c in covariances]
    _, vectors = np.linalg.eigh(np.mean(squares, axis=0))
    removed = np.concatenate([right.T, np.linalg.inv(half) @ vectors[:, -components:]], axis=1)
    return np.asarray(x, np.float64) - np.asarray(x, np.float64) @ removed @ np.linalg.pinv(removed)


def procrustes(x, y):
    """Schönemann 1966: the orthogonal W with y = W x."""
    left, _, right = np.linalg.svd(np.asarray(y, np.float64).T @ np.asarray(x, np.float64))
    return left @ right


def experts(x, router, first, second, bias, chosen, activation):
    """Nussbaum and Duderstadt 2025: the likeliest experts of each token, weighted by their probabilities as they are.

    The router is ``[expert, dim]``, the weights of the experts are ``[expert, inner, dim]``, both of them.
    """
    mixed = np.zeros_like(x)
    for token, state in enumerate(x):
        probabilities = np.exp(router @ state)
        probabilities /= probabilities.sum()
        for expert in np.argsort(-probabilities)[:chosen]:
            inner = activation(first[expert] @ state)
            mixed[token] += probabilities[expert] * (inner @ second[expert])
    return mixed + bias


def linear(weights, name, x):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(weights, name, x, epsilon):
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + epsilon)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def rotary_attention(query, key, value, theta):
    """Attention of a sentence, ``[token, head, width]``; plane i of a head is of coordinates i and i + width / 2."""

    def turned(x):
        half = x.shape[-1] // 2
        angle = np.arange(len(x))[:, None, None] * theta ** (-np.arange(half) / half)
        plane = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
        return np.concatenate([plane.real, plane.imag], axis=-1)

    scores = np.exp(np.einsum("qhd,khd->hqk", turned(query), turned(key)) / math.sqrt(query.shape[-1]))
    return np.einsum("hqk,khd->qhd", scores / scores.sum(axis=-1, keepdims=True), value).reshape(len(query), -1)


def nomic_bert(weights, ids, *, heads, theta, epsilon, experts_chosen):
    """The states of a sentence, layer by layer, of nomic-embed-text-v2-moe: post-norm blocks, rotary positions."""
    weights = {name: np.asarray(weight, np.float64) for name, weight in weights.items()}

    norm, dense = partial(layer_norm, weights, epsilon=epsilon), partial(linear, weights)

    def gelu(x):
        return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.token_type_embeddings.weight"][0]
    states = [norm("emb_ln", x)]
    while (block := f"encoder.layers.{len(states) - 1}") + ".norm1.weight" in weights:
        x = states[-1]
        query, key, value = dense(f"{block}.attn.Wqkv", x).reshape(len(ids), 3, heads, -1).transpose(1, 0, 2, 3)
        mixed = rotary_attention(query, key, value, theta)
        x = norm(f"{block}.norm1", x + dense(f"{block}.attn.out_proj", mixed))
        if f"{block}.mlp.fc1.weight" in weights:
            fed = dense(f"{block}.mlp.fc2", gelu(dense(f"{block}.mlp.fc1", x)))
        else:
            router = weights[f"{block}.mlp.router.layer.weight"]
            stored = (weights[f"{block}.mlp.experts.mlp.{name}"] for name in ("w1", "w2"))
            both = (matrix.reshape(len(router), -1, x.shape[1]) for matrix in stored)
            fed = experts(x, router, *both, weights[f"{block}.mlp.experts.bias"], experts_chosen, gelu)
        states.append(norm(f"{block}.norm2", x + fed))
    return states


def language_ndcg(results, gains, first):
    """nDCG of a list of results by their gains, those that are not in it having none (MLAIRE's Lang-nDCG)."""
    discounted = [gains.get(result, 0.0) / math.log2(place + 1) for place, result in enumerate(results[:first], 1)]
    best = [gain / math.log2(place + 1) for place, gain in enumerate(sorted(gains.values())[::-1][:first], 1)]
    return math.fsum(discounted) / math.fsum(best)


def max_rank(results, relevant):
    """Max@R and its normalised form (Hong et al. 2026)."""
    last = max(place for place, result in enumerate(results, 1) if result in relevant)
    size = math.log2(len(results))
    return last, (size - math.log2(last)) / (size - math.log2(len(relevant)))


def rank_shift(scores):
    """MLRS (Park and Lee 2025) of candidates in the order they were found, by their scores after translation."""
    again = sorted(range(len(scores)), key=lambda found: -scores[found])
    gained = sum(max(found - place, 0) for place, found in enumerate(again))
    return gained / sum(range(len(scores)))


def sparse_autoencoder(x, encoder, decoder, factors, active):
    """Kim et al. 2026: the largest features, one vector at a time, without those that languages have."""
    x, encoder, decoder = (np.asarray(part, np.float64) for part in (x, encoder, decoder))
    result = np.zeros(x.shape)
    for vector, made in zip(x, result, strict=True):
        features = np.maximum(encoder.T @ vector, 0)
        for feature in np.argsort(-features)[:active]:
            made += factors[feature] * features[feature] * decoder[feature]
    return result
