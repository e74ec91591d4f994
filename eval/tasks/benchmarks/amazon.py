"""Amazon reviews: a sentiment classifier, trained on English and tested on other languages.

    python -m eval amazon --data data/amazon
    python -m eval amazon --data hub:mteb/AmazonReviewsClassification

A logistic regression is trained on standardised English embeddings, with its penalty chosen by five-fold
cross-validation. Xie et al. 2022 contradict themselves about the test sets: their code standardises them by the mean
and standard deviation of the English training set, as the first results here do; their text has Centered equal to the
original, which needs each set's statistics, as in the results ``by language``. Results on
``hub:mteb/AmazonReviewsClassification`` are not comparable with the paper's: it is another corpus, labelled with one to
five stars. ``eval.data.reviews`` documents the files and where to get them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eval.command import command
from eval.data.reviews import read_reviews
from eval.task import Embedded, Method, Metric, QueryScores, Score, Setting, Task
from lsar_jax.checks import check_choice
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code
from lsar_jax.measures.query_scores import strata_of

__all__ = ["COMMAND", "amazon", "classify"]

# Seed of the training shuffle and of the classifier, as in Xie et al.'s code.
_SEED = 42


def amazon(data: Data = Path("data/amazon"), languages: tuple[str, ...] = ("en", "de", "fr", "ja")) -> Task:
    """Classification of reviews by sentiment: trained on English, tested on every language.

    Args:
      data: folder of en_train.tsv and {language}_test.tsv files, with a label, a tab and a text per line; or hub:ID; or
        tfds:NAME with {} for the language.
      languages: language codes of the test sets.
    """
    texts, labels = read_reviews(data, "en", "train")
    known = sorted(set(labels))
    if len(known) < 2:
        raise ValueError(f"{data}, training set of en: all labels are {labels[0]!r}; give two or more labels")
    tests = {code: read_reviews(data, code, "test") for code in dict.fromkeys(map(language_code, languages))}
    for code, (_, gold) in tests.items():
        for label in sorted({*gold}):
            check_choice(f"{data}, test set of {code}: the label", label, known)
    # Keep star ratings apart from the papers' binary labels.
    suffix = "" if len(known) == 2 else f", {len(known)} classes"

    def scores(x: Embedded, method: Method, setting: Setting) -> Iterator[Score]:
        found = classify(x["train", "en"], labels, {code: x["test", code] for code in tests})
        for way, predicted in zip(("", ", by language"), found, strict=True):
            right = {
                code: QueryScores(100.0 * (np.array(predicted[code]) == np.array(gold)))
                for code, (_, gold) in tests.items()
            }
            of_codes = {code: ([code], queries) for code, queries in reversed(right.items())}
            for name, of in ({"mean": ([*right], strata_of([*right.values()]))} | of_codes).items():
                yield Score.of(Metric(f"accuracy {name}{suffix}{way}", shown=not way), *of)._replace(seed=_SEED)

    return Task(
        name="amazon",
        title="Amazon reviews, trained on English",
        languages=[*tests, "en"],
        parts=[{("train", "en"): texts} | {("test", code): reviews for code, (reviews, _) in tests.items()}],
        scores=scores,
    )


def classify(
    train: Float[np.ndarray, "review dim"], labels: Sequence[str], tests: Mapping[str, Float[np.ndarray, "_ dim"]]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Predicts the labels of each language's test set with a logistic regression fitted on the training set.

    The second labels are of test sets that are each standardised by their mean and standard deviation, not English's.
    """
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.preprocessing import StandardScaler

    train, tests = np.asarray(train, np.float64), {code: np.asarray(x, np.float64) for code, x in tests.items()}
    english = StandardScaler().fit(train)
    order = np.random.default_rng(_SEED).permutation(len(train))
    # Ten penalties from 1e-4 to 1e4, cross-validated on five folds; the best is refitted on all reviews.
    model = LogisticRegressionCV(
        Cs=10, cv=5, max_iter=50_000, random_state=_SEED, l1_ratios=(0.0,), scoring="accuracy",
        use_legacy_attributes=False,
    )  # fmt: skip
    model.fit(english.transform(train)[order], np.array(labels)[order])
    by_english = {code: model.predict(english.transform(x)).tolist() for code, x in tests.items()}
    return by_english, {code: model.predict(StandardScaler().fit_transform(x)).tolist() for code, x in tests.items()}


# Reviews are cut at 512 tokens, as in Xie et al.'s code.
COMMAND = command(amazon, max_length=512)
