"""Folders that TensorFlow Datasets prepared, read without TensorFlow.

Wiki-40B and Wikipedia are prepared by Apache Beam, which does not install beside this library; so a
folder is prepared elsewhere, in the format array_record, and read here. Of other formats, tfrecord
and riegeli need TensorFlow or a package that there is none of, and of parquet tensorflow-datasets
4.9 gives back only a part of the rows.

Data: ``gs://tfds-data/datasets/wiki40b/de/1.3.0`` and the like, as tfrecord; or ``tfds build``.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsar_jax.corpora.sentence_filters import COUNT, Filter, check_count, not_blank, oscar_lines, take, wiki40b_pieces
from lsar_jax.extras import import_extra
from lsar_jax.files import read_json
from lsar_jax.languages import language_code

__all__ = ["DATA_DIR", "find", "import_tfds", "prepared", "prepared_languages", "rows", "splits"]

# A dataset's own filter; documents of others are taken by their lines.
_FILTERS: dict[str, Filter] = {"wiki40b": wiki40b_pieces, "monolingual": not_blank}

_INFO = "dataset_info.json"
# Where TensorFlow Datasets keeps what it prepares, unless TFDS_DATA_DIR says otherwise.
DATA_DIR = "~/tensorflow_datasets"
# Rows that are read at once.
_BLOCK = 256


def prepared(
    folder_or_name: str | Path,
    split: str = "train",
    *,
    count: int | None = COUNT,
    field: str | None = None,
    filter: Filter | None = None,
    data_dir: str | Path | None = None,
) -> list[str]:
    """Returns the first sentences of a prepared dataset of texts.

    Args:
      folder_or_name: the folder of one version of a dataset, or the name of one under ``data_dir``,
        such as ``wiki40b/de`` or ``wikipedia/20230601.de/1.0.0``.
      split: a split, or a part of one, such as ``train[:10%]``.
      count: sentences at most; None for all.
      field: of the text; by default ``text``, or the only one that is text.
      filter: from documents to sentences; by default ``wiki40b_pieces`` for Wiki-40B, the lines that
        are not blank for ``builders.Monolingual``, and ``oscar_lines`` for all others.
      data_dir: where prepared datasets are; by default ``TFDS_DATA_DIR``, or ``~/tensorflow_datasets``.

    Raises:
      FileNotFoundError: no such folder, or files of it are missing.
      ValueError: another format than array_record, an unknown split or field, no sentence, or a
        count below 1.
      ImportError: tensorflow-datasets is not installed.
    """
    check_count(count)
    folder = find(folder_or_name, data_dir)
    name = str(read_json(folder / _INFO, dict).get("name"))
    field = _text_field(folder, field)
    documents = (row[field] for row in rows(folder, split))
    return take(documents, filter or _FILTERS.get(name, oscar_lines), count, f"split {split!r} of {folder}")


def prepared_languages(template: str, data_dir: str | Path | None = None) -> dict[str, str]:
    """Returns the datasets of each language, by its code.

    Args:
      template: a folder or name with ``{}`` where the language stands, such as ``wiki40b/{}``.
      data_dir: as for ``prepared``.

    Raises:
      FileNotFoundError: there is none of any language.
      ValueError: a template without ``{}``, or two datasets of one language.
    """
    before, found, after = template.partition("{}")
    if not found:
        raise ValueError(f"{template!r} has no {{}} where the language stands")
    places = [Path(part).expanduser() for part in ("", data_dir or os.environ.get("TFDS_DATA_DIR") or DATA_DIR)]
    result: dict[str, str] = {}
    for place in places:
        for path in sorted(Path(place / f"{before}x").parent.glob(f"{Path(f'{before}*').name}{after}")):
            whole = str(path)
            name = whole[len(str(place / f"{before}x")) - 1 : len(whole) - len(after)]
            try:
                code = language_code(name)
            except ValueError:
                continue  # another folder
            if result.setdefault(code, whole) != whole:
                raise ValueError(f"{result[code]} and {whole} are the same language, {code!r}")
        if result:
            return result
    raise FileNotFoundError(
        f"there is no prepared dataset {template} under {' or '.join(str(p.absolute()) for p in places)}"
    )


def rows(folder: str | Path, split: str = "train") -> Iterator[dict[str, Any]]:
    """Yields the rows of a prepared dataset in their order, as plain Python: str, int, float, list.

    Args:
      folder: of one version of a dataset, in the format array_record.
      split: a split, or a part of one.

    Raises:
      FileNotFoundError: no such folder, or files of it are missing.
      ValueError: another format, or an unknown split.
      ImportError: tensorflow-datasets is not installed.
    """
    folder = find(folder)
    _check_format(folder)
    tfds = import_tfds()
    builder = tfds.builder_from_directory(str(folder))
    known = list(builder.info.splits)
    name = re.split(r"\W", split, maxsplit=1)[0]
    if name not in known:
        raise ValueError(f"split {split!r} is not in {folder}; it has {', '.join(known) or 'none'}")
    missing = [path for path in builder.info.splits[name].filepaths if not Path(path).is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} lacks {', '.join(Path(path).name for path in missing)}; copy all its files")
    try:
        source = builder.as_data_source(split)
        for start in range(0, len(source), _BLOCK):
            for number, row in enumerate(source.__getitems__(range(start, min(start + _BLOCK, len(source)))), start):
                # So a small file that was cut off is read.
                if all(value is None for value in row.values()):
                    raise ValueError(f"row {number} is damaged")
                yield _plain(row)
    except (ValueError, RuntimeError, IndexError, KeyError) as error:
        raise ValueError(f"split {split!r} of {folder} cannot be read: {error}") from error


def splits(folder: str | Path) -> list[str]:
    """Returns the names of the splits of a prepared dataset.

    Args:
      folder: of one version of a dataset.

    Raises:
      FileNotFoundError: no such folder, or it is of no dataset.
    """
    return [str(split["name"]) for split in read_json(Path(folder) / _INFO, dict).get("splits", [])]


def find(folder_or_name: str | Path, data_dir: str | Path | None = None) -> Path:
    """Returns the folder of one version of a prepared dataset.

    Args:
      folder_or_name: that folder, the one above it where it is the only version, or its name under ``data_dir``.
      data_dir: where prepared datasets are; by default ``TFDS_DATA_DIR``, or ``~/tensorflow_datasets``.

    Raises:
      FileNotFoundError: there is none, and what there is.
      ValueError: there are several versions or configurations.
    """
    if data_dir is None:
        data_dir = os.environ.get("TFDS_DATA_DIR") or DATA_DIR
    # Once, where the path is absolute.
    places = list(dict.fromkeys([Path(folder_or_name), Path(data_dir).expanduser() / folder_or_name]))
    for place in places:
        # A dataset is a folder, a configuration of it one below, a version of either one below that.
        inside = sorted({path.parent for below in ("", "*/", "*/*/") for path in place.glob(f"{below}{_INFO}")})
        if place in inside:
            return place
        if len(inside) == 1 and inside[0].parent == place:
            return inside[0]
        if inside:
            named = ", ".join(str(path.relative_to(place)) for path in inside)
            raise ValueError(f"{place} holds several datasets or versions; name one of {named}")
    raise FileNotFoundError(
        f"there is no prepared dataset at {' nor at '.join(map(str, places))}. Where it can be downloaded, run `tfds "
        f"build NAME --file_format=array_record --data_dir=FOLDER`, copy FOLDER/NAME here and pass its path"
    )


def import_tfds() -> Any:
    """Returns the module ``tensorflow_datasets``; raises ImportError with the command to install it."""
    return import_extra(
        "tensorflow_datasets", "eval", "a prepared dataset (read without TensorFlow)", "tensorflow-datasets"
    )


def _check_format(folder: Path) -> None:
    form = read_json(folder / _INFO, dict).get("fileFormat", "tfrecord")
    if form == "array_record":
        return
    reasons = {
        "tfrecord": "need TensorFlow to be read",
        "parquet": "tensorflow-datasets gives back only in part",
    }
    raise ValueError(
        f"{folder} holds files of the format {form}, which {reasons.get(form, 'are not read here')}; where TensorFlow "
        f"is installed, run `tfds convert_format --dataset_version_dir={folder} --out_file_format=array_record "
        "--out_dir=NEW_FOLDER` and pass NEW_FOLDER"
    )


def _text_field(folder: Path, field: str | None) -> str:
    features = read_json(folder / "features.json", dict).get("featuresDict", {}).get("features", {})
    texts = [name for name, value in features.items() if "text" in value and "Text" in value.get("pythonClassName", "")]
    if field is None:
        if "text" in texts or len(texts) == 1:
            return "text" if "text" in texts else texts[0]
        raise ValueError(f"{folder} has the fields of text {', '.join(texts) or 'none'}; say which field")
    if field not in texts:
        raise ValueError(f"field {field!r} is not text of {folder}; it has {', '.join(texts) or 'none'}")
    return field


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
