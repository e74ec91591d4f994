"""Amazon reviews with sentiment labels, from files or a named dataset.

The files are ``en_train.tsv``, ``de_test.tsv`` and so on from the zip ``cross-lingual-sentiment`` of AutoGluon's
multimodal benchmark (automl-mm-bench), with one label and one text per line. The underlying corpus, Prettenhofer and
Stein 2010, has German, French and Japanese (``jp_test.tsv`` is also read as Japanese).
``hub:mteb/AmazonReviewsClassification`` is a different corpus (Keung et al. 2020), labelled with one to five stars.
"""

from pathlib import Path

from lsar_jax import corpora
from lsar_jax.corpora.tables import Data, named_tables, numbered_rows, text_in
from lsar_jax.languages import own_name

__all__ = ["Reviews", "read_reviews"]

# Texts and labels.
Reviews = tuple[list[str], list[str]]


def read_reviews(data: Data, code: str, split: str) -> Reviews:
    """Returns the texts and labels of a language's training or test set."""
    if (tables := named_tables(data)) is None:
        path = _file(Path(data), code, split)
        lines = [line.partition("\t") for line in corpora.lines(path)]
        rows = [(f"{path}, line {number}", {"label": a, "text": b}) for number, (a, _, b) in enumerate(lines, 1)]
    else:
        rows = list(numbered_rows(tables, own_name(code, tables.configs, tables.name), split))
    texts = [text_in(row, "text", where) for where, row in rows]
    return texts, [text_in(row, "label", where).strip() for where, row in rows]


def _file(folder: Path, code: str, split: str) -> Path:
    names = [f"{name}_{split}.tsv" for name in ((code, "jp") if code == "ja" else (code,))]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} has no {' or '.join(names)}; unpack automl-mm-bench's cross-lingual-sentiment")
