"""Datasets prepared by TensorFlow Datasets, read without TensorFlow.

Wiki-40B and Wikipedia are prepared with Apache Beam, which cannot be installed alongside this library;
so a dataset is prepared elsewhere, in the array_record format, and read here. The other formats are not
supported: tfrecord needs TensorFlow, riegeli has no installable package, and tensorflow-datasets 4.9
returns only part of the rows of parquet.

Data: ``gs://tfds-data/datasets/wiki40b/de/1.3.0`` and the like, which are tfrecord; or the output of ``tfds build``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from lsar_jax.checks import errors_of
from lsar_jax.corpora.by_language import add_once, chosen
from lsar_jax.corpora.sentence_filters import COUNT, Filter, document_lines, not_blank, take, wiki40b_pieces
from lsar_jax.extras import import_extra
from lsar_jax.files import read_json
from lsar_jax.languages import code_or_none

__all__ = ["find", "import_tfds", "places", "prepared", "prepared_languages", "rows", "splits"]

# Filters of known datasets; documents of all others are split into lines.
_FILTERS: dict[str, Filter] = {"wiki40b": wiki40b_pieces, "monolingual": not_blank}

_INFO = "dataset_info.json"
# Rows to read at a time.
_BLOCK = 256


def prepared(
    folder_or_name: str | Path, split: str = "train", *, count: int | None = COUNT, field: str | None = None
) -> list[str]:
    r"""Returns the first sentences of a prepared dataset of texts.

    Documents are split by ``wiki40b_pieces`` for Wiki-40B, not at all for ``builders.Monolingual``, and into
    lines for all others.

    Args:
      folder_or_name: the folder of one version of a dataset, or its name under ``TFDS_DATA_DIR`` or
        ``~/tensorflow_datasets``, such as ``wiki40b/de`` or ``wikipedia/20230601.de/1.0.0``.
      split: a split, or a part of one, such as ``train[:10%]``.
      count: maximum number of sentences; None for all.
      field: name of the field with the text; by default, ``text`` or the only text field.

    Raises:
      FileNotFoundError: the folder or some of its files do not exist.
      ValueError: the format is not array_record, the split or field is unknown, there is no sentence, or
        ``count`` is below 1.
      ImportError: tensorflow-datasets is not installed.

    Example:
      >>> import tempfile
      >>> from pathlib import Path
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = Path(folder, "de.txt").write_text("Eins.\nZwei.\nDrei.\n", encoding="utf-8")
      ...     written = lj.corpora.builders.prepare(lj.corpora.builders.Monolingual(folder), folder)
      ...     lj.corpora.prepared(written["de"], count=2)
      ['Eins.', 'Zwei.']
    """
    folder = find(folder_or_name)
    name = read_json(folder / _INFO, dict).get("name")
    features = read_json(folder / "features.json", dict)["featuresDict"]["features"]
    texts = [name for name, value in features.items() if "Text" in value.get("pythonClassName", "")]
    chosen = field or (texts[0] if len(texts) == 1 else "text")
    if chosen not in texts:
        raise ValueError(f"{folder} has no text field {chosen!r}; choose one with field=: {', '.join(texts) or 'none'}")
    documents = (row[chosen] for row in rows(folder, split))
    return take(documents, _FILTERS.get(name, document_lines), count, f"split {split!r} of {folder}")


def places(name: str | Path) -> list[Path]:
    """Returns where a dataset may be: at ``name``, or in TFDS_DATA_DIR or ``~/tensorflow_datasets``."""
    folder = Path(os.path.expanduser(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"))
    # Both are the same if the path is absolute.
    return list(dict.fromkeys([Path(name), folder / name]))


def prepared_languages(template: str) -> dict[str, Path]:
    """Returns the folder of each language's dataset: a folder or name with the language in place of ``{}``."""
    before, found, after = template.partition("{}")
    if not found:
        raise ValueError(f"{template!r} has no {{}} in place of the language")
    tried = places(before + "x")
    result: dict[str, Path] = {}
    for place in tried:
        start = len(str(place)) - 1
        for path in sorted(place.parent.glob(f"{place.name[:-1]}*{after}")):
            if code := code_or_none(str(path)[start : len(str(path)) - len(after)]):
                add_once(result, code, path)
        if result:
            break
    return chosen(result, None, " and ".join(str(place.parent.absolute()) for place in tried), f"dataset {template}")


def rows(folder: str | Path, split: str = "train") -> Iterator[dict[str, Any]]:
    """Yields the rows of a split, or of a part of one, in order, as plain Python values: str, int, float, list."""
    folder = find(folder)
    form = read_json(folder / _INFO, dict).get("fileFormat", "tfrecord")
    if form != "array_record":
        raise ValueError(
            f"{folder} holds {form} files, but only array_record can be read; on a machine with TensorFlow, run `tfds "
            f"convert_format --dataset_version_dir={folder} --out_file_format=array_record --out_dir=NEW_FOLDER`"
        )
    with errors_of(f"split {split!r} of {folder} cannot be read", ValueError, RuntimeError, IndexError, KeyError):
        source = import_tfds().builder_from_directory(str(folder)).as_data_source(split)
        for start in range(0, len(source), _BLOCK):
            for number, row in enumerate(source.__getitems__(range(start, min(start + _BLOCK, len(source)))), start):
                # The rows of a small file that was truncated are read without an error, but have no values.
                if all(value is None for value in row.values()):
                    raise ValueError(f"row {number} is damaged")
                yield jax.tree.map(_plain, row)


def splits(folder: str | Path) -> list[str]:
    """Returns the names of the splits of one version of a dataset."""
    return [str(split["name"]) for split in read_json(find(folder) / _INFO, dict).get("splits", [])]


def find(folder_or_name: str | Path) -> Path:
    """Returns the folder of one version of a prepared dataset: given itself, its parent, or the name of either."""
    for place in (tried := places(folder_or_name)):
        # The layout is DATASET/VERSION or DATASET/CONFIGURATION/VERSION.
        inside = sorted({path.parent for below in ("", "*/", "*/*/") for path in place.glob(f"{below}{_INFO}")})
        if place in inside:
            return place
        if len(inside) == 1 and inside[0].parent == place:
            return inside[0]
        if inside:
            named = ", ".join(str(path.relative_to(place)) for path in inside)
            raise ValueError(f"{place} holds several datasets or versions; name one of {named}")
    raise FileNotFoundError(
        f"there is no prepared dataset at {' nor at '.join(map(str, tried))}. Write it from files with "
        "lsar_jax.corpora.builders.prepare; or, on a machine that can download it, run `tfds build NAME "
        "--file_format=array_record --data_dir=FOLDER`, then copy FOLDER/NAME here and pass its path"
    )


def import_tfds() -> Any:
    """Returns the module ``tensorflow_datasets``; raises ImportError with the command to install it."""
    return import_extra("tensorflow_datasets", "tfds", "a prepared dataset (without TensorFlow)", "tensorflow-datasets")


def _plain(value: Any) -> Any:
    """The plain values of an array or a scalar."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    return jax.tree.map(lambda item: item.decode("utf-8") if isinstance(item, bytes) else item, plain)
