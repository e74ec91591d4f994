"""Amazon reviews with sentiment labels, from files or a named dataset.

The files are ``en_train.tsv``, ``de_test.tsv`` and so on from the zip ``cross-lingual-sentiment`` of AutoGluon's
multimodal benchmark (automl-mm-bench), with one label and one text per line. The underlying corpus, Prettenhofer and
Stein 2010, has German, French and Japanese (``jp_test.tsv`` is also read as Japanese).
``hub:mteb/AmazonReviewsClassification`` is a different corpus (Keung et al. 2020), labelled with one to five stars.
"""

from pathlib import Path
from typing import Any

from lsar_jax import corpora
from lsar_jax.corpora.tables import Data, named_tables
from lsar_jax.languages import own_name

__all__ = ["Reviews", "read_reviews"]

# Texts and labels.
Reviews = tuple[list[str], list[str]]


def read_reviews(data: Data, code: str, split: str) -> Reviews:
    """Returns the texts and labels of a language's training or test set."""
    rows: list[tuple[str, Any, Any]]
    if (tables := named_tables(data)) is None:
        path = _file(Path(data), code, split)
        lines = [line.partition("\t") for line in corpora.lines(path)]
        rows = [(f"{path}, line {number}", label, text) for number, (label, _, text) in enumerate(lines, 1)]
    else:
        config = own_name(code, tables.configs, tables.name)
        where = f"{tables.name}, {split} of {config}"
        named = enumerate(tables.rows(config, split), 1)
        rows = [(f"{where}, row {number}", row.get("label"), row.get("text")) for number, row in named]
        if not rows:
            raise ValueError(f"{where} has no rows")
    for where, label, text in rows:
        if label is None or not str(label).strip() or not isinstance(text, str) or not text.strip():
            raise ValueError(f"{where} is not a label and a text")
    return [text for *_, text in rows], [str(label).strip() for _, label, _ in rows]


def _file(folder: Path, code: str, split: str) -> Path:
    names = [f"{name}_{split}.tsv" for name in ((code, "jp") if code == "ja" else (code,))]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(
        f"{folder} has no {' or '.join(names)}; get the cross-lingual-sentiment zip of automl-mm-bench "
        "(AutoGluon's multimodal benchmark) and unpack it there, or set --data"
    )
