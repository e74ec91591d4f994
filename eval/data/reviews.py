"""Amazon reviews with sentiment labels, from files or a named dataset.

The files are ``en_train.tsv``, ``de_test.tsv`` and so on from the zip ``cross-lingual-sentiment`` of AutoGluon's
multimodal benchmark (automl-mm-bench), with one label and one text per line. The underlying corpus, Prettenhofer and
Stein 2010, has German, French and Japanese (``jp_test.tsv`` is also read as Japanese).
``hub:mteb/AmazonReviewsClassification`` is a different corpus (Keung et al. 2020), labelled with one to five stars.
"""

from pathlib import Path

from lsar_jax import corpora
from lsar_jax.corpora.tables import Data, Tables, named_tables, plain_folder
from lsar_jax.languages import own_name

__all__ = ["Reviews", "read_reviews"]

# Texts and labels.
Reviews = tuple[list[str], list[str]]


def read_reviews(data: Data, code: str, split: str) -> Reviews:
    """Returns the texts and labels of a language's training or test set.

    Raises:
      FileNotFoundError: the data do not exist.
      ValueError: a line is not a label and a text; the error names the file and line.
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
            "(AutoGluon's multimodal benchmark) and unpack it there, or set --data"
        )
    texts, labels = [], []
    for number, line in enumerate(corpora.lines(path), 1):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip() or not text.strip():
            raise ValueError(f"{path}, line {number} is not a label and a text separated by a tab")
        texts.append(text)
        labels.append(label.strip())
    return texts, labels
