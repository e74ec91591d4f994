"""Amazon reviews: a classifier of opinions, trained on English and tested on other languages.

    python -m eval amazon --data data/amazon
    python -m eval amazon --data hub:mteb/AmazonReviewsClassification

As Xie et al. 2022 run it: embeddings after each transform, every feature less the mean and over the
deviation of the English training set, logistic regression with its penalty chosen by five folds of the
English training set, accuracy on the test set of each language. With ``--standardize language`` the statistics are each
language's own, of its test set: then Centered is the same as the original but for the penalty.

Data: the files ``en_train.tsv``, ``de_test.tsv`` and so on of the zip ``cross-lingual-sentiment`` of AutoGluon's
multimodal benchmark (automl-mm-bench), a label and a text a line; the corpus behind it, Prettenhofer and
Stein 2010, has German, French and Japanese (``jp_test.tsv`` is read as Japanese too).
``hub:mteb/AmazonReviewsClassification`` is another corpus (Keung et al. 2020), of one to five stars, 200,000
English reviews to train on and 5,000 a language to test on: its numbers are not the paper's.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from eval.fitted import FittedTask
from eval.methods import Method
from eval.named import Data, Tables, named_tables, plain_folder
from eval.resampling import Queries
from eval.results import Result
from lsar_jax import EncoderSpec, corpora
from lsar_jax.languages import language_code, own_name

__all__ = ["Amazon", "classify", "read_reviews"]

Reviews = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Amazon(FittedTask):
    """Opinions of reviews: trained on English, accuracy on every language.

    Attributes:
      data: the folder of en_train.tsv and {language}_test.tsv: label, tab, text; or hub:ID or tfds:NAME with {}.
      languages: codes of the test sets.
      standardize: by the English training set as in the papers' code, or each test set by its own language.
      seed: of the shuffle of the training set, and of the classifier.
    """

    name = "amazon"

    out: Path = Path("results/amazon")
    data: Data = Path("data/amazon")
    languages: tuple[str, ...] = ("en", "de", "fr", "ja")
    standardize: Literal["english", "language"] = "english"
    seed: int = 42

    def run(self) -> list[Result]:
        """Encodes, fits, classifies; prints a table, writes ``results.jsonl`` and a figure."""
        codes = list(dict.fromkeys(language_code(code) for code in self.languages))
        train, labels = read_reviews(self.data, "en", "train")
        tests = {code: read_reviews(self.data, code, "test") for code in codes}
        known = sorted(set(labels))
        if len(known) < 2:
            raise ValueError(f"{self.data}, training set of en: all labels are {known[0]!r}; two are needed")
        for code, (_, answers) in tests.items():
            for number, label in enumerate(answers, 1):
                if label not in known:
                    raise ValueError(
                        f"{self.data}, test set of {code}, line {number}: the label {label!r} is not one of "
                        f"training's, {', '.join(known)}"
                    )
        texts = {("fit", code): text for code, text in self.fit_texts([*codes, "en"]).items()}
        texts |= {("train", "en"): train} | {("test", code): reviews for code, (reviews, _) in tests.items()}
        encoder = self.prepare(len({*codes, "en"}))
        x = self.encode(encoder, texts)
        results: list[Result] = []
        for index, layer in enumerate(self.layers):
            spec = replace(encoder.spec, layer=layer)
            for method in self.fitted(x, index, spec):
                moved = {key: method(value[index], key[1]) for key, value in x.items() if key[0] != "fit"}
                gold = {code: labels for code, (_, labels) in tests.items()}
                results += self._score(moved, labels, gold, method, spec)
        metrics = list(dict.fromkeys(result.metric for result in results))[::-1]
        self.report(results, "Amazon reviews, trained on English", metrics, metrics[0])
        return results

    def _score(
        self,
        x: Mapping[tuple[str, str], Float[np.ndarray, "_ dim"]],
        labels: Sequence[str],
        gold: Mapping[str, Sequence[str]],
        method: Method,
        spec: EncoderSpec,
    ) -> list[Result]:
        started = time.perf_counter()
        tests = {code: x["test", code] for code in gold}
        found = classify(x["train", "en"], labels, tests, own=self.standardize == "language", seed=self.seed)
        seconds = time.perf_counter() - started
        classes = len(set(labels))
        right = {code: 100.0 * (np.array(found[code]) == np.array(gold[code])) for code in gold}
        strata = np.repeat(np.arange(len(right)), [len(values) for values in right.values()])
        everywhere = Queries(np.concatenate(list(right.values())), strata)

        def entry(codes: list[str], metric: str, queries: Queries) -> Result:
            # So that stars are not compared with the papers' good or bad.
            name = metric if classes == 2 else f"{metric}, {classes} classes"
            made = self.result(spec, method, codes, name, queries.mean, len(queries.values), seconds)
            return replace(made, seed=self.seed).resampled(queries)

        results = [entry([code], f"accuracy {code}", Queries(values)) for code, values in right.items()]
        return [*results, entry(list(gold), "accuracy mean", everywhere)]


def classify(
    train: Float[np.ndarray, "review dim"],
    labels: Sequence[str],
    tests: Mapping[str, Float[np.ndarray, "_ dim"]],
    *,
    own: bool = False,
    seed: int = 42,
) -> dict[str, list[str]]:
    """Returns the label of each test embedding, by a logistic regression of the training set.

    Args:
      train: embeddings of English reviews.
      labels: of each, at least two.
      tests: embeddings of each language's test set.
      own: whether a test set is standardised by its own mean and deviation.
      seed: of the shuffle and of the classifier.
    """
    from sklearn.linear_model import LogisticRegressionCV

    order = np.random.default_rng(seed).permutation(len(train))
    mean, deviation = _statistics(train)
    # Ten penalties from 1e-4 to 1e4, each tried on five folds; the best is fitted on all.
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


def read_reviews(data: Data, code: str, split: str) -> Reviews:
    """Returns the texts and the labels of a language's training or test set.

    Raises:
      FileNotFoundError: no such data.
      ValueError: a line that is not a label and a text; file and line are named.
    """
    tables = named_tables(data)
    return _files(plain_folder(data), code, split) if tables is None else _named(tables, code, split)


def _named(tables: Tables, code: str, split: str) -> Reviews:
    texts, labels = [], []
    config = own_name(code, tables.configs, tables.name)
    for number, row in enumerate(tables.rows(config, split), 1):
        text, label = row.get("text"), row.get("label")
        if not isinstance(text, str) or not text.strip() or label is None:
            raise ValueError(f"{tables.name}, {split} of {config}, row {number} is not a text and a label")
        texts.append(text)
        labels.append(str(label))
    if not texts:
        raise ValueError(f"{tables.name}, {split} of {config} has no rows")
    return texts, labels


def _files(folder: Path, code: str, split: str) -> Reviews:
    names = [f"{name}_{split}.tsv" for name in ((code, "jp") if code == "ja" else (code,))]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"{folder} has no {' or '.join(names)}; get the cross-lingual-sentiment zip of automl-mm-bench "
            "(AutoGluon's multimodal benchmark) and unpack it there, or say --data"
        )
    texts, labels = [], []
    for number, line in enumerate(corpora.lines(path), 1):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip() or not text.strip():
            raise ValueError(f"{path}, line {number} is not a label and a text with a tab between them")
        texts.append(text)
        labels.append(label.strip())
    return texts, labels


def _statistics(x: Float[np.ndarray, "_ dim"]) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
    deviation = x.std(axis=0, dtype=np.float64)
    return x.mean(axis=0, dtype=np.float64), np.where(deviation > 0, deviation, 1.0)
