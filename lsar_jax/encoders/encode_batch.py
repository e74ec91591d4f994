"""Adds embeddings to batches of columns, as Ray Data, ``datasets``, Spark and datatrove pass them to a function."""

import pickle
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from lsar_jax.encoders.load import OPTIONS, load_encoder
from lsar_jax.encoders.migration_hints import check_names
from lsar_jax.encoders.options import EncodeOptions
from lsar_jax.encoders.sentence_encoder import SentenceEncoder
from lsar_jax.extras import import_extra
from lsar_jax.tokens.tokenizer import check_sentences
from lsar_jax.transforms import Transform

__all__ = ["EncodeBatch"]

# Devices belong to one process, and the embeddings of several layers to several columns.
_LEFT_OUT = ("mesh", "layers")


class EncodeBatch:
    """A function of a batch of columns that returns the batch with a column of embeddings.

    It can be pickled. A process loads the encoder at the first batch, and shares it among all instances with equal
    arguments. How the rows are cut into batches changes a vector by 1e-5 of its length at most.

    Args:
      name_or_path: the encoder, as for ``load_encoder``.
      text: the column of sentences.
      embedding: the column to add.
      language_column: the column with a language code a row, for what needs one; ``language`` gives all rows one code.
      transform: a ``Transform``, or the path of its file, which each worker reads.
      **options: options of ``load_encoder`` except ``mesh``, and of ``SentenceEncoder.encode`` except ``layers``.

    Calling it with a DataFrame returns a DataFrame; with a pyarrow table, a table with lists of fixed size; with any
    other mapping from column names to lists or arrays, a dict with the embeddings as ``[row, dim]`` float32.

    Raises:
      TypeError: an option is unknown.
      ValueError: ``language`` and ``language_column`` are both given. When called: a column is missing or would be
        replaced, or a row has no text; also as ``load_encoder`` and ``encode``.

    Example:
      >>> encode = lj.EncodeBatch("bundled", layer=2, normalize=True)
      >>> batch = encode({"id": [7, 9], "text": ["All are born free.", "Alle sind frei geboren."]})
      >>> list(batch), batch["embedding"].shape
      (['id', 'text', 'embedding'], (2, 384))
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        text: str = "text",
        embedding: str = "embedding",
        language_column: str | None = None,
        transform: Transform | str | Path | None = None,
        **options: Any,
    ) -> None:
        known = [name for name in (*OPTIONS, *EncodeOptions.__annotations__) if name not in _LEFT_OUT]
        check_names("EncodeBatch", options, known)
        if language_column is not None and options.get("language") is not None:
            given = f"language is {options['language']!r:.80}, and language_column {language_column!r}"
            raise ValueError(f"{given}; give one of the two")
        if isinstance(transform, Transform):
            transform = replace(transform, sample={})  # large, and not needed to apply it
        loading = {name: options.pop(name) for name in OPTIONS if name in options}
        self._text, self._embedding, self._language, self._options = text, embedding, language_column, options
        self._encoder = pickle.dumps((name_or_path, transform, loading))

    def __call__(self, batch: Any) -> Any:
        """Returns the batch with the column of embeddings."""
        names = list(getattr(batch, "column_names", batch))  # of a table, and else its keys
        needed = {self._text} if self._language is None else {self._text, self._language}
        if not needed <= set(names) or self._embedding in names:
            raise ValueError(
                f"the batch has the columns {', '.join(map(repr, names))}; it must have "
                f"{' and '.join(map(repr, sorted(needed)))}, and not {self._embedding!r}, which is added"
            )
        if isinstance(batch[self._text], str):
            raise ValueError(f"column {self._text!r} is one string; give batches of rows, in datasets batched=True")
        texts = _listed(batch[self._text])
        check_sentences(texts, what=f"column {self._text!r}, row")
        options = self._options | ({"language": _listed(batch[self._language])} if self._language is not None else {})
        with _LOADING:
            encoder = _loaded(self._encoder)
        x = encoder.encode(texts, **options)
        if hasattr(batch, "assign"):
            return batch.assign(**{self._embedding: list(x)})
        if hasattr(batch, "append_column"):
            pyarrow = import_extra("pyarrow", "hub", "a column of embeddings")
            vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), x.shape[1])
            return batch.append_column(self._embedding, vectors)
        return {**batch, self._embedding: x}


_LOADING = Lock()


@lru_cache(maxsize=4)
def _loaded(pickled: bytes) -> SentenceEncoder:
    """Returns the encoder of what ``EncodeBatch`` pickled; this process loads it once."""
    name_or_path, transform, loading = pickle.loads(pickled)
    encoder = load_encoder(name_or_path, **loading)
    if transform is None:
        return encoder
    return encoder.with_transform(transform if isinstance(transform, Transform) else Transform.load(transform))


def _listed(column: Any) -> list[Any]:
    """Returns the values of a column of numpy, pandas, pyarrow or Python."""
    read = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
    return read() if read else list(column)
