"""How well the language can be read off embeddings: clusters and a linear probe, by scikit-learn."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

__all__ = ["language_nmi", "language_probe"]


def language_nmi(
    x: Float[np.ndarray, "vector dim"], languages: Sequence[str], seeds: Sequence[int] = (0,)
) -> Float[np.ndarray, " seed"]:
    """Returns the normalised mutual information of k-means clusters and languages, 0 to 1, a value a seed.

    As in Xie et al. 2022, as far as they say it: as many clusters as languages, on embeddings that are not
    normalised; k-means++ with 10 starts and 300 steps, arithmetic averaging.

    Args:
      x: embeddings.
      languages: code of each row.
      seeds: of the starts.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    if len(languages) != len(x):
        raise ValueError(f"{len(languages)} languages for {len(x)} embeddings")
    clusters = len(set(languages))
    centred = x - x.mean(axis=0)
    found = [KMeans(clusters, n_init=10, max_iter=300, random_state=seed).fit_predict(centred) for seed in seeds]
    return np.array([normalized_mutual_info_score(languages, labels) for labels in found])


def language_probe(
    x: Float[np.ndarray, "vector dim"], languages: Sequence[str], groups: Sequence[int], seed: int = 0
) -> float:
    """Returns the accuracy of a linear classifier of languages, in percent.

    Least squares with a ridge of 1e-3 of the variance, trained and tested on five stratified folds; chance is
    the share of the largest language.

    Args:
      x: embeddings.
      languages: code of each row; at least five of each.
      groups: rows of one group are in one fold, as translations of each other should be: a probe that was
        trained on one would know the other by its meaning.
      seed: of the folds.
    """
    from sklearn.linear_model import RidgeClassifier
    from sklearn.model_selection import StratifiedGroupKFold, cross_val_score

    if len(languages) != len(x):
        raise ValueError(f"{len(languages)} languages for {len(x)} embeddings")
    rare = min(set(languages), key=list(languages).count)
    if list(languages).count(rare) < 5:
        raise ValueError(f"five folds need five embeddings of each language; {rare} has {list(languages).count(rare)}")
    centred = np.asarray(x, np.float64) - x.mean(axis=0)
    scaled = centred / (np.sqrt((centred**2).mean()) or 1.0)
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
    probe = RidgeClassifier(alpha=1e-3 * len(x))
    return 100 * float(cross_val_score(probe, scaled, np.array(languages), groups=np.array(groups), cv=folds).mean())
