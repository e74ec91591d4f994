"""Sentences from datasets on the Hugging Face Hub; only the data that is needed is fetched.

Data: wikimedia/wikipedia (20231101.{language}), google/wiki40b ({language}).
"""

from dataclasses import dataclass
from pathlib import Path

from lsar_jax.corpora.hub_datasets import HubFiles, hub_files
from lsar_jax.corpora.sentence_filters import COUNT, Filter, check_count, oscar_lines, take, wiki40b_pieces
from lsar_jax.languages import code_or_none, own_name

__all__ = ["HUB_SETS", "HubSet", "hub"]


@dataclass(frozen=True)
class HubSet:
    """Layout and sentence filter of a known dataset.

    Attributes:
      config: name of the folder of a language, with ``{}`` in place of the language.
      filter: filter that turns documents into sentences.
    """

    config: str = "{}"
    filter: Filter = oscar_lines


HUB_SETS = {
    "wikimedia/wikipedia": HubSet("20231101.{}", oscar_lines),
    "google/wiki40b": HubSet("{}", wiki40b_pieces),
}


def hub(
    id: str | Path,
    language: str,
    *,
    revision: str | None = None,
    config: str | None = None,
    split: str = "train",
    field: str = "text",
    filter: Filter | None = None,
    count: int | None = COUNT,
) -> list[str]:
    r"""Returns the first sentences of one language in a dataset.

    Args:
      id: id of a dataset on the Hub, or a folder of its files with the same layout.
      language: any code of the language; a name that the dataset itself uses takes precedence.
      revision: commit, tag or branch of a dataset on the Hub; by default, the one in ``hub_datasets.PINNED``.
      config: name of the folder of files; by default, the folder of the language.
      split: split of the dataset.
      field: name of the column with the text.
      filter: filter that turns documents into sentences; by default, the one in ``HUB_SETS``, or ``oscar_lines``.
      count: maximum number of sentences; None for all.

    Returns:
      The sentences, in the order of the dataset.

    Raises:
      FileNotFoundError: the Hub does not answer, has no such dataset or revision, or a file is missing.
      ValueError: no revision is given or pinned; the language, configuration, split or field is unknown; a
        file is not in the format of its name; there is no sentence; or ``count`` is below 1.
      ImportError: pyarrow is not installed.

    Example:
      >>> import json
      >>> import tempfile
      >>> from pathlib import Path
      >>> import lsar_jax as lj
      >>> with tempfile.TemporaryDirectory() as folder:  # laid out as on the Hub, one folder a configuration
      ...     Path(folder, "de").mkdir()
      ...     _ = Path(folder, "de", "train.jsonl").write_text(json.dumps({"text": "Eins.\nZwei."}), encoding="utf-8")
      ...     lj.corpora.hub(folder, "de")
      ['Eins.', 'Zwei.']
      >>> text = lj.corpora.hub("wikimedia/wikipedia", "de", count=100)  # doctest: +SKIP
    """
    check_count(count)
    folder = Path(id)
    # A folder is recognised as a copy of a known dataset by its name.
    names = [name for name in HUB_SETS if name == str(id) or (folder.is_dir() and name.endswith(f"/{folder.name}"))]
    known = HUB_SETS[names[0]] if names else HubSet()
    wanted = config or known.config.format(code_or_none(language) or language)
    files = hub_files(id, revision, f"{wanted}/*")
    rows = files.rows(config or _config(files, known.config, language), split, [field])
    texts = (row[field] for row in rows if row[field])
    return take(texts, filter or known.filter, count, f"split {split!r} of {files.name}")


def _config(files: HubFiles, template: str, language: str) -> str:
    """Returns the configuration of a language."""
    before, after = template.split("{}")
    there = {
        folder[len(before) : len(folder) - len(after)]: folder
        for folder in files.configs
        if folder.startswith(before) and folder.endswith(after)
    }
    return there[own_name(language, there, files.name)]
