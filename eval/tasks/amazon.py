"""Amazon reviews: a sentiment classifier, trained on English and tested on other languages.

    python -m eval amazon --data data/amazon
    python -m eval amazon --data hub:mteb/AmazonReviewsClassification

The protocol is that of Xie et al. 2022: transformed embeddings are standardised by the mean and standard deviation of
the English training set; a logistic regression is trained on English, with its penalty chosen by five-fold
cross-validation; accuracy is measured on the test set of each language. With ``--standardize language``, each test set
is standardised by its own statistics; centering can then change the result only through the choice of the penalty.

``eval.data.reviews`` documents the files and where to get them. Results on ``hub:mteb/AmazonReviewsClassification``
are not comparable with the paper's: it is another corpus, labelled with one to five stars, with 200,000 English
training reviews and 5,000 test reviews per language.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from eval.data.reviews import Reviews, read_reviews
from eval.fitted_task import FittedTask
from eval.methods import Method
from eval.resampling import Queries
from eval.results import Result
from eval.score import Score
from eval.task import Embedded, Texts
from lsar_jax import EncoderSpec
from lsar_jax.corpora.tables import Data
from lsar_jax.languages import language_code

__all__ = ["Amazon", "classify"]


@dataclass(frozen=True)
class Amazon(FittedTask):
    """Classification of reviews by sentiment: trained on English, tested on every language.

    Attributes:
      data: folder of en_train.tsv and {language}_test.tsv files, with a label, a tab and a text per line; or hub:ID; or
        tfds:NAME with {} for the language.
      max_length: maximum number of tokens per review; by default 512, as in Xie et al.'s code.
      languages: language codes of the test sets.
      standardize: statistics to standardise test sets by: english for those of the English training set, as in the
        papers' code; language for each test set's own.
      seed: seed of the training shuffle and of the classifier.
    """

    name = "amazon"

    max_length: int = 512
    out: Path = Path("results/amazon")
    data: Data = Path("data/amazon")
    languages: tuple[str, ...] = ("en", "de", "fr", "ja")
    standardize: Literal["english", "language"] = "english"
    seed: int = 42

    @property
    def title(self) -> str:
        """The title of tables and figures."""
        return "Amazon reviews, trained on English"

    @cached_property
    def train(self) -> Reviews:
        """The English training set."""
        train = read_reviews(self.data, "en", "train")
        if len(set(train[1])) < 2:
            raise ValueError(
                f"{self.data}, training set of en: all labels are {train[1][0]!r}; there must be at least two "
                "different labels"
            )
        return train

    @cached_property
    def tests(self) -> dict[str, Reviews]:
        """The test set of each language."""
        tests = {code: read_reviews(self.data, code, "test") for code in self._tested}
        known = sorted(set(self.train[1]))
        for code, (_, labels) in tests.items():
            for number, label in enumerate(labels, 1):
                if label not in known:
                    raise ValueError(
                        f"{self.data}, test set of {code}, line {number}: the label {label!r} is not in the training "
                        f"set, which has {', '.join(known)}"
                    )
        return tests

    def codes(self) -> list[str]:
        """Returns the languages to fit on."""
        return [*self._tested, "en"]

    def texts(self) -> Texts:
        """Returns the reviews of the training set and of the test sets."""
        return {("train", "en"): self.train[0]} | {("test", code): texts for code, (texts, _) in self.tests.items()}

    def scores(self, x: Embedded, method: Method, spec: EncoderSpec) -> Iterator[Score]:
        """Yields the accuracy on each language's test set, and the mean."""
        tests = {code: x["test", code] for code in self.tests}
        labels = self.train[1]
        found = classify(x["train", "en"], labels, tests, own=self.standardize == "language", seed=self.seed)
        classes = len(set(labels))
        # Keep star ratings apart from the papers' binary labels.
        suffix = "" if classes == 2 else f", {classes} classes"
        right = {code: 100.0 * (np.array(found[code]) == np.array(gold)) for code, (_, gold) in self.tests.items()}
        for code, values in right.items():
            yield replace(Score.of(f"accuracy {code}{suffix}", [code], Queries(values)), seed=self.seed)
        strata = np.repeat(np.arange(len(right)), [len(values) for values in right.values()])
        everywhere = Queries(np.concatenate(list(right.values())), strata)
        yield replace(Score.of(f"accuracy mean{suffix}", list(right), everywhere), seed=self.seed)

    def shown(self, results: Sequence[Result]) -> list[str]:
        """Returns all metrics, with the mean first."""
        return super().shown(results)[::-1]

    @property
    def _tested(self) -> list[str]:
        return list(dict.fromkeys(language_code(code) for code in self.languages))


def classify(
    train: Float[np.ndarray, "review dim"],
    labels: Sequence[str],
    tests: Mapping[str, Float[np.ndarray, "_ dim"]],
    *,
    own: bool = False,
    seed: int = 42,
) -> dict[str, list[str]]:
    """Predicts the label of each test embedding with a logistic regression fitted on the training set.

    Args:
      train: embeddings of the English training reviews.
      labels: label of each training review; at least two classes.
      tests: embeddings of each language's test set.
      own: whether to standardise each test set by its own mean and standard deviation.
      seed: seed of the training shuffle and of the classifier.
    """
    from sklearn.linear_model import LogisticRegressionCV

    order = np.random.default_rng(seed).permutation(len(train))
    mean, deviation = _statistics(train)
    # Ten penalties from 1e-4 to 1e4, cross-validated on five folds; the best is refitted on all reviews.
    model = LogisticRegressionCV(
        Cs=10,
        cv=5,
        max_iter=50_000,
        random_state=seed,
        l1_ratios=(0.0,),
        scoring="accuracy",
        use_legacy_attributes=False,
    )
    model.fit(((train - mean) / deviation)[order], np.array(labels)[order])
    result = {}
    for code, x in tests.items():
        centre, scale = _statistics(x) if own else (mean, deviation)
        result[code] = model.predict((x - centre) / scale).tolist()
    return result


def _statistics(x: Float[np.ndarray, "_ dim"]) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
    deviation = x.std(axis=0, dtype=np.float64)
    return x.mean(axis=0, dtype=np.float64), np.where(deviation > 0, deviation, 1.0)
