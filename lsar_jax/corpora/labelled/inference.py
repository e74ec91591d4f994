"""Natural language inference: pairs of a premise and a hypothesis, labelled, as in XNLI.

Conneau et al., "XNLI: Evaluating Cross-lingual Sentence Representations", EMNLP 2018. The release's development and
test files have all languages in one table (``xnli.dev.tsv``); its training files have one table a language
(``multinli.train.en.tsv``).
"""

from pathlib import Path
from typing import NamedTuple

from lsar_jax.corpora.labelled.file_language import language_of_file
from lsar_jax.corpora.text_files import stream_lines
from lsar_jax.languages import code_or_none

__all__ = ["LABELS", "SentencePair", "read_inference"]

# The labels of a pair of sentences, in the order of their ids.
LABELS = ("entailment", "neutral", "contradiction")

# Names of the columns that are read: of the release's tables, and of its training tables.
_COLUMNS = (("sentence1", "sentence2", "gold_label"), ("premise", "hypo", "label"))
# The training tables name one label otherwise.
_NAMES = {"contradictory": "contradiction"} | {label: label for label in LABELS}


class SentencePair(NamedTuple):
    """A premise, a hypothesis, and one of ``LABELS``.

    Attributes:
      premise: the first sentence.
      hypothesis: the second sentence.
      label: entailment, neutral or contradiction.
    """

    premise: str
    hypothesis: str
    label: str


def read_inference(path: str | Path) -> dict[str, list[SentencePair]]:
    r"""Returns the pairs of each language.

    Args:
      path: a table with a header. A table without a column ``language`` is in the language that the file is named
        after (``language_of_file``), as ``multinli.train.en.tsv`` is.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a column is missing, a line has too few or too many columns, a language or a label is unknown, or
        the file is not named after its language; the error names the file and the line.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> from lsar_jax.corpora import labelled
      >>> table = "premise\thypo\tlabel\nA dog barks.\tIt is quiet.\tcontradictory\n"
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder, "multinli.train.en.tsv")
      ...     _ = path.write_text(table, encoding="utf-8")
      ...     labelled.read_inference(path)
      {'en': [SentencePair(premise='A dog barks.', hypothesis='It is quiet.', label='contradiction')]}
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
    of_file = language_of_file(path) if own is None else None
    if own is None and of_file is None:
        raise ValueError(
            f"{path} has no column language, and is not named after its language, as in multinli.train.de.tsv; "
            "rename it"
        )
    pairs: dict[str, list[SentencePair]] = {}
    for number, line in enumerate(rows, start=2):
        columns = line.split("\t")
        if len(columns) != len(header):
            raise ValueError(f"{path}, line {number} has {len(columns)} columns, but the header has {len(header)}")
        premise, hypothesis, label = (columns[one] for one in at)
        if label not in _NAMES:
            raise ValueError(f"{path}, line {number} has the label {label!r}; it must be one of {', '.join(_NAMES)}")
        named = str(of_file) if own is None else columns[own]
        language = code_or_none(named)
        if language is None:
            raise ValueError(f"{path}, line {number} has the language {named!r}, which is not a language code")
        pairs.setdefault(language, []).append(SentencePair(premise, hypothesis, _NAMES[label]))
    if not pairs:
        raise ValueError(f"{path} has no pairs")
    return pairs
