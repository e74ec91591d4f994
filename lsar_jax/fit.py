"""``lsar-jax fit``: a transform from files, in bounded memory.

Text is read line by line, encoded and summed where it was encoded; what is held is a batch and the
moments. Vectors of another encoder come as ``.npy`` files, which are mapped and read in blocks.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from lsar_jax.checks import whole_number
from lsar_jax.corpora import stream_lines
from lsar_jax.encoders import load_encoder
from lsar_jax.identifier import fit_identifier
from lsar_jax.languages import canonical_keys
from lsar_jax.moments import Moments, PooledMoments, pool_moments
from lsar_jax.moments_file import load_moments, merge_moments, save_moments
from lsar_jax.sentence_encoder import SentenceEncoder
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import (
    Transform,
    fit_cbie,
    fit_center,
    fit_leace,
    fit_lir,
    fit_lsar,
    fit_outliers,
    fit_whitening,
)

__all__ = ["fit", "open_vectors"]

MethodName = Literal["center", "lir", "lsar", "outliers", "whitening", "leace", "cbie"]
Second = Literal["none", "pooled", "languages"]

_BLOCK = 65536
# Sentences of a language that CBIE, which holds their embeddings, takes unless told otherwise.
_CBIE_SENTENCES = 10_000


def fit(
    method: Annotated[MethodName, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    data: tuple[str, ...] = (),
    moments: Path | None = None,
    encoder: str | None = None,
    revision: str | None = None,
    layer: int | None = None,
    pooling: str | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    rank: int | None = None,
    components: int | None = None,
    sigma: float = 3.0,
    largest: int | None = None,
    eps: float = 1e-3,
    absolute: bool = False,
    per_language: bool = False,
    clusters: int | None = None,
    seed: int = 0,
    identifier: bool = False,
    save: Path | None = None,
    second: Second | None = None,
) -> None:
    """Fits a transform on text or vectors and writes it as one file.

    Args:
      method: what to fit.
      out: the transform's file.
      data: LANGUAGE=FILE each; a file of text, a sentence a line (blank lines are left out), or a ``.npy``
        of float vectors, a row a sentence. A language may have several files.
      moments: instead of, or besides, data: moments that an earlier run saved.
      encoder: of the text: bundled, a preset, a folder or a Hub id. Not for vectors.
      revision: of a Hub id.
      layer: hidden-state layer; by default the checkpoint's.
      pooling: of the tokens; by default the checkpoint's.
      max_length: tokens at most of a sentence.
      limit: sentences at most of each file; by default all, and 10,000 for CBIE.
      rank: of LSAR; by default one less than there are languages.
      components: of LIR, by default 1, and of CBIE, by default 12.
      sigma: of outliers.
      largest: of outliers, instead of sigma.
      eps: of whitening.
      absolute: whether eps is added as it is, or as a share of the mean eigenvalue.
      per_language: of whitening.
      clusters: of CBIE; by default one for 300 sentences.
      seed: of CBIE.
      identifier: whether the transform is to find the language by itself (language="auto").
      save: a file to save the moments to.
      second: the second moments to keep: none, pooled over languages, or of each; by default what
        the method needs.

    Raises:
      FileNotFoundError: a file, or the folder of an output, is not there.
      ValueError: files of a kind that the rest does not go with, or what the method says.
    """
    if not data and moments is None:
        raise ValueError("there is nothing to fit on; give --data LANGUAGE=FILE ... or --moments FILE")
    for path in filter(None, (out, save)):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    files = _files(data)
    text = any(path.suffix != ".npy" for paths in files.values() for path in paths)
    if text != (encoder is not None) and data:
        raise ValueError(
            "text needs an encoder; give --encoder bundled, a preset, a folder or a Hub id"
            if text
            else f"--encoder {encoder} is given, but the data are vectors already"
        )
    if limit is not None:
        limit = whole_number("limit", limit, 1, 1 << 62, "sentences")
    opened = load_encoder(encoder, revision=revision, layer=layer, pooling=pooling) if encoder else None
    reader = _Reader(opened, max_length, limit)
    source = opened.spec if opened else None
    arguments: Any = {
        "center": {},
        "lir": {"components": components or 1},
        "lsar": {"rank": rank},
        "outliers": {"largest": largest} if largest else {"sigma": sigma},
        "whitening": {"eps": eps, "absolute": absolute, "per_language": per_language},
        "leace": {},
        "cbie": {"clusters": clusters, "components": components or 12, "seed": seed},
    }[method]
    if method == "cbie":
        if moments is not None or save is not None or identifier:
            raise ValueError("CBIE clusters embeddings; it has no use for --moments, --save and --identifier")
        x = {code: reader.embeddings(code, paths) for code, paths in files.items()}
        fitted = fit_cbie(x, source=source, **arguments)
    else:
        needed: Second = "none"
        if method in ("whitening", "leace") or identifier:
            needed = "pooled"
        if method == "lir" or per_language:
            needed = "languages"
        kept, source = _moments(reader, files, moments, second or needed, source)
        if save is not None:
            save_moments(save, kept, source=source)
        fitters: Mapping[str, Any] = {
            "center": fit_center,
            "lir": fit_lir,
            "lsar": fit_lsar,
            "outliers": fit_outliers,
            "whitening": fit_whitening,
            "leace": fit_leace,
        }
        fitted = fitters[method](kept, source=source, **arguments)
        if identifier:
            fitted = fitted.with_identifier(fit_identifier(kept, source=source))
    fitted.save(out)
    _report(fitted, out, reader.blank)


class _Reader:
    """Reads files as embeddings or moments; counts the blank lines that it leaves out."""

    def __init__(self, encoder: SentenceEncoder | None, max_length: int | None, limit: int | None) -> None:
        self.encoder = encoder
        self.max_length = max_length
        self.limit = limit
        self.blank = 0

    def moments(self, path: Path, code: str, second: bool) -> Moments:
        """Returns the moments of a file."""
        if path.suffix == ".npy":
            x = open_vectors(path)[: self.limit]
            blocks = (np.asarray(x[start : start + _BLOCK]) for start in range(0, len(x), _BLOCK))
            return _named(path, lambda: Moments.from_blocks(blocks, second_moment=second))
        encoder, language = self._encoder(code)
        sentences = self._sentences(path)
        return _named(
            path,
            lambda: encoder.moments(
                sentences, second_moment=second, language=language, max_length=self.max_length, show_progress=True
            ),
        )

    def embeddings(self, code: str, paths: list[Path]) -> np.ndarray:
        """Returns the embeddings of a language's files, up to the limit of each."""
        limit, parts = self.limit or _CBIE_SENTENCES, []
        for path in paths:
            if path.suffix == ".npy":
                parts.append(np.asarray(open_vectors(path)[:limit]))
                continue
            encoder, language = self._encoder(code)
            parts.append(
                np.asarray(
                    encoder.encode(
                        islice(self._sentences(path), limit),
                        language=language,
                        max_length=self.max_length,
                        show_progress=True,
                    )
                )
            )
        return np.concatenate(parts)

    def _encoder(self, code: str) -> tuple[SentenceEncoder, str | None]:
        assert self.encoder is not None
        uses = self.encoder.tokenizer.uses_language or self.encoder.languages is not None
        return self.encoder, code if uses else None

    def _sentences(self, path: Path) -> Iterator[str]:
        for line in islice(stream_lines(path), self.limit):
            if line.strip():
                yield line
            else:
                self.blank += 1


def open_vectors(path: Path) -> np.ndarray:
    """Returns a ``.npy`` file of float vectors, mapped and not read.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not an array ``[n, dim]`` of floats.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there are no vectors at {path}")
    try:
        x = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a .npy file of floats: {error}") from error
    if not isinstance(x, np.ndarray) or x.ndim != 2 or 0 in x.shape or x.dtype.kind != "f":
        raise ValueError(
            f"{path} holds {getattr(x, 'dtype', type(x))} of shape {np.shape(x)}; expected floats [n, dim]"
        )
    return x


def _files(data: tuple[str, ...]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for item in data:
        code, sign, path = item.partition("=")
        if not (code and sign and path):
            raise ValueError(f"--data {item!r} is not LANGUAGE=FILE, as de=german.txt")
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {path}")
        files.setdefault(code, []).append(Path(path))
    return canonical_keys(files)


def _moments(
    reader: _Reader, files: Mapping[str, list[Path]], saved: Path | None, second: Second, source: EncoderSpec | None
) -> tuple[Mapping[str, Moments], EncoderSpec | None]:
    """Returns the moments of the files and of the saved ones, and the encoder they are of."""
    whole: Mapping[str, Moments] | None = None
    if saved is not None:
        whole, theirs = load_moments(saved)
        if source and theirs and not source.same_space(theirs):
            raise ValueError(f"{saved} is of {theirs}, the text is encoded by {source}")
        source = source or theirs
        if second == "pooled":
            whole = pool_moments(whole)
        # What is added has what the saved ones have.
        if isinstance(whole, PooledMoments):
            second = "pooled"
        else:
            second = "none" if any(m.scatter is None for m in whole.values()) else "languages"
    for code, paths in files.items():
        for path in paths:
            part: Mapping[str, Moments] = {code: reader.moments(path, code, second != "none")}
            if second == "pooled":
                part = pool_moments(part)
            whole = part if whole is None else merge_moments(whole, part)
    assert whole is not None
    return whole, source


def _named(path: Path, call: Any) -> Moments:
    try:
        return call()
    except ValueError as error:
        raise error if str(path) in str(error) else ValueError(f"{path}: {error}") from error


def _report(transform: Transform, out: Path, blank: int) -> None:
    for made in transform.fits:
        counts = ", ".join(f"{code} {count}" for code, count in made.fitted_on)
        print(f"{made} on {sum(count for _, count in made.fitted_on)} sentences: {counts}")
    if blank:
        print(f"{blank} blank lines were left out")
    print(f"wrote {transform!r} to {out}")
