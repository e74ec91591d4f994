"""``lsar-jax fit``: a transform from files, in bounded memory.

Text is read line by line, encoded and summed where it was encoded; what is held is a batch and the
moments. Vectors of another encoder come as ``.npy`` files, which are mapped and read in blocks.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from lsar_jax.checks import whole_number
from lsar_jax.encoders import load_encoder
from lsar_jax.identifier import fit_identifier
from lsar_jax.languages import canonical_keys, language_code
from lsar_jax.moments import Moments, PooledMoments, pool_moments
from lsar_jax.moments_file import load_moments, merge_moments, save_moments
from lsar_jax.reader import Reader, is_vectors
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

__all__ = ["fit"]

MethodName = Literal["center", "lir", "lsar", "outliers", "whitening", "leace", "cbie"]
Second = Literal["none", "pooled", "languages"]

_FITS: Mapping[str, Any] = {
    "center": fit_center,
    "lir": fit_lir,
    "lsar": fit_lsar,
    "outliers": fit_outliers,
    "whitening": fit_whitening,
    "leace": fit_leace,
    "cbie": fit_cbie,
}
_OPTIONS = {
    "lir": ("components",),
    "lsar": ("rank",),
    "outliers": ("sigma", "largest"),
    "whitening": ("eps", "absolute", "per_language"),
    "cbie": ("clusters", "components", "seed"),
}
# Each kind of second moments has what those before it have.
_KINDS: tuple[Second, ...] = ("none", "pooled", "languages")


def fit(
    method: Annotated[MethodName, tyro.conf.Positional],
    out: Annotated[Path, tyro.conf.Positional],
    data: tuple[str, ...] = (),
    moments: tuple[Path, ...] = (),
    languages: tuple[str, ...] = (),
    encoder: str | None = None,
    revision: str | None = None,
    layer: int | None = None,
    pooling: str | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    rank: int | None = None,
    components: int | None = None,
    sigma: float | None = None,
    largest: int | None = None,
    eps: float | None = None,
    absolute: bool = False,
    per_language: bool = False,
    clusters: int | None = None,
    seed: int | None = None,
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
      moments: instead of, or besides, data: moments that earlier runs saved, say of parts of a corpus.
      languages: of the saved moments; by default all.
      encoder: of the text: bundled, a preset, a folder or a Hub id. Not for vectors.
      revision: of a Hub id.
      layer: hidden-state layer; by default the checkpoint's.
      pooling: of the tokens; by default the checkpoint's.
      max_length: tokens at most of a sentence.
      limit: sentences at most of each file; by default all, and 10,000 for CBIE.
      rank: of LSAR; by default one less than there are languages.
      components: of LIR, by default 1, and of CBIE, by default 12.
      sigma: of outliers; by default 3.
      largest: of outliers, instead of sigma.
      eps: of whitening; by default 0.001.
      absolute: whether eps is added as it is, or as a share of the mean eigenvalue.
      per_language: of whitening.
      clusters: of CBIE; by default one for 300 sentences.
      seed: of CBIE; by default 0.
      identifier: whether the transform is to find the language by itself (language="auto").
      save: a file to save the moments to.
      second: the second moments to keep: none, pooled over languages, or of each; by default what
        the method needs, and what the saved moments have.

    Raises:
      FileNotFoundError: a file, or the folder of an output, is not there.
      ValueError: options of another method, files or moments that do not go with each other, or what
        the method says.
    """
    given = {
        "rank": rank,
        "components": components,
        "sigma": sigma,
        "largest": largest,
        "eps": eps,
        "absolute": absolute or None,
        "per_language": per_language or None,
        "clusters": clusters,
        "seed": seed,
    }
    arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    own = _OPTIONS.get(method, ())
    for name in arguments:
        if name not in own:
            options = ", ".join(f"--{option}" for option in own) or "none"
            raise ValueError(f"--{name} is not an option of {method}; it has {options}".replace("_", "-"))
    files = _files(data)
    _check(files, moments, encoder, out, save)
    if limit is not None:
        limit = whole_number("limit", limit, 1, 1 << 62, "sentences")
    if method == "cbie" and (moments or save is not None or identifier):
        raise ValueError("CBIE clusters embeddings; it has no use for --moments, --save and --identifier")
    needed: Second = "pooled" if method in ("whitening", "leace") or identifier else "none"
    if method == "lir" or per_language:
        needed = "languages"
    saved = [_saved(path, languages, needed) for path in moments]
    absent = sorted({*map(language_code, languages)} - {code for part, _ in saved for code in part})
    if absent:
        raise ValueError(f"--languages {' '.join(absent)}: not in {', '.join(map(str, moments)) or 'any --moments'}")
    kept = _kind(saved, second, needed, method)

    opened = load_encoder(encoder, revision=revision, layer=layer, pooling=pooling) if encoder else None
    source = _source([*([opened.spec if opened else None] if files else []), *(origin for _, origin in saved)])
    reader = Reader(opened, max_length, limit)
    if method == "cbie":
        x = {code: reader.embeddings(code, paths) for code, paths in files.items()}
        fitted = fit_cbie(x, source=source, **arguments)
    else:
        parts = [_reduced(part, kept) for part, _ in saved]
        for code, paths in files.items():
            parts += [_reduced({code: reader.moments(path, code, kept != "none")}, kept) for path in paths]
        whole = merge_moments(*parts)
        if save is not None:
            save_moments(save, whole, source=source)
        fitted = _FITS[method](whole, source=source, **arguments)
        if identifier:
            fitted = fitted.with_identifier(fit_identifier(whole, source=source))
    fitted.save(out)
    _report(fitted, out, reader.blank)


def _files(data: tuple[str, ...]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for item in data:
        code, sign, path = item.partition("=")
        if not (code and sign and path):
            raise ValueError(f"--data {item!r} is not LANGUAGE=FILE, as de=german.txt")
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {path}")
        files.setdefault(language_code(code), []).append(Path(path))
    return canonical_keys(files)


def _check(
    files: Mapping[str, list[Path]], moments: Sequence[Path], encoder: str | None, out: Path, save: Path | None
) -> None:
    """Says what does not go together before anything is read."""
    if not files and not moments:
        raise ValueError("there is nothing to fit on; give --data LANGUAGE=FILE ... or --moments FILE ...")
    for path in filter(None, (out, save)):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; name a file to save in")
    kinds = {is_vectors(path) for paths in files.values() for path in paths}
    if len(kinds) > 1:
        raise ValueError("some of --data are text and some are vectors; whose embeddings the vectors are is not known")
    text = kinds == {False}
    if text and encoder is None:
        raise ValueError("text needs an encoder; give --encoder bundled, a preset, a folder or a Hub id")
    if encoder is not None and not text:
        raise ValueError(f"--encoder {encoder} is given, but there is no text to encode")


def _saved(
    path: Path, languages: tuple[str, ...], needed: Second
) -> tuple[dict[str, Moments] | PooledMoments, EncoderSpec | None]:
    """Returns the moments of a file, of the languages that are wanted and there."""
    whole, source = load_moments(path)
    if not languages:
        return whole, source
    chosen = [code for code in map(language_code, languages) if code in whole]
    if not chosen:
        raise ValueError(f"{path} has none of {', '.join(languages)}; it has {', '.join(whole)}")
    # Of pooled moments a part has means and no second.
    return load_moments(path, chosen, means_only=needed == "none" and isinstance(whole, PooledMoments))


def _kind(
    saved: Sequence[tuple[Mapping[str, Moments], EncoderSpec | None]],
    second: Second | None,
    needed: Second,
    method: str,
) -> Second:
    """Returns the second moments that are kept: those asked for, or all that the saved ones have."""

    def kind(part: Mapping[str, Moments]) -> Second:
        if isinstance(part, PooledMoments):
            return "pooled"
        return "none" if any(m.scatter is None for m in part.values()) else "languages"

    have = min((kind(part) for part, _ in saved), key=_KINDS.index, default=second or needed)
    kept = second or have
    if _KINDS.index(kept) > _KINDS.index(have):
        raise ValueError(f"--second {kept} is asked for, but the saved moments have second moments: {have}")
    if _KINDS.index(kept) < _KINDS.index(needed):
        raise ValueError(f"{method} needs second moments: {needed}; these are: {kept}")
    return kept


def _source(sources: Sequence[EncoderSpec | None]) -> EncoderSpec | None:
    """Returns the one encoder that all parts are of, None where none is known of any."""
    first = sources[0]
    for other in sources[1:]:
        if (first is None) != (other is None) or (first and other and not first.same_space(other)):
            raise ValueError(
                f"the parts are not embeddings of one encoder: {first or 'unknown'}, and {other or 'unknown'}"
            )
    return first


def _reduced(moments: Mapping[str, Moments], kind: Second) -> Mapping[str, Moments]:
    if kind == "languages":
        return moments
    return (
        pool_moments(moments) if kind == "pooled" else {code: Moments(m.count, m.mean) for code, m in moments.items()}
    )


def _report(transform: Transform, out: Path, blank: int) -> None:
    for made in transform.fits:
        counts = ", ".join(f"{code} {count}" for code, count in made.fitted_on)
        print(f"{made} on {sum(count for _, count in made.fitted_on)} sentences: {counts}")
    if blank:
        print(f"{blank} blank lines were left out")
    print(f"wrote {transform!r} to {out}")
