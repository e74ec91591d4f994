"""Natural language inference: pairs of a premise and a hypothesis, labelled, as in XNLI.

Conneau et al., "XNLI: Evaluating Cross-lingual Sentence Representations", EMNLP 2018. The release's development and
test files have all languages in one table (``xnli.dev.tsv``); its training files have one table a language
(``multinli.train.en.tsv``).
"""

from pathlib import Path
from typing import NamedTuple

from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import language_code

__all__ = ["LABELS", "SentencePair", "read_inference"]

LABELS = ("entailment", "neutral", "contradiction")

# Names of the columns that are read: of the release's tables, and of its training tables.
_COLUMNS = (("sentence1", "sentence2", "gold_label"), ("premise", "hypo", "label"))
# The training tables name one label otherwise.
_NAMES = {"contradictory": "contradiction"} | {label: label for label in LABELS}


class SentencePair(NamedTuple):
    """A premise, a hypothesis, and one of ``LABELS``."""

    premise: str
    hypothesis: str
    label: str


def read_inference(path: str | Path) -> dict[str, list[SentencePair]]:
    """Returns the pairs of each language.

    Args:
      path: a table with a header. A table without a column ``language`` is in the language that its name ends with, as
        in ``multinli.train.en.tsv``.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a column is missing, a line has too few or too many columns, or a label is unknown; the error names
        the file and the line.
    """
    path = Path(path)
    rows = stream_lines(path)
    header = next(rows).split("\t")
    names = next((names for names in _COLUMNS if set(names) <= set(header)), None)
    if names is None:
        wanted = " or ".join(", ".join(names) for names in _COLUMNS)
        raise ValueError(f"{path} has no columns {wanted}; it has {', '.join(header)}")
    at = [header.index(name) for name in names]
    own = header.index("language") if "language" in header else None
    code = language_code(path.stem.rpartition(".")[2]) if own is None else ""
    pairs: dict[str, list[SentencePair]] = {}
    for number, line in enumerate(rows, start=2):
        columns = line.split("\t")
        if len(columns) != len(header):
            raise ValueError(f"{path}, line {number} has {len(columns)} columns, but the header has {len(header)}")
        premise, hypothesis, label = (columns[one] for one in at)
        if label not in _NAMES:
            raise ValueError(f"{path}, line {number} has the label {label!r}; it must be one of {', '.join(_NAMES)}")
        language = code if own is None else language_code(columns[own])
        pairs.setdefault(language, []).append(SentencePair(premise, hypothesis, _NAMES[label]))
    if not pairs:
        raise ValueError(f"{path} has no pairs")
    return pairs
