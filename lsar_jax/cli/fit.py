"""``lsar-jax fit METHOD``: fits a transform on files, in bounded memory.

Text is read line by line and encoded, and its embeddings are summed on the device that computed them; only a batch and
the moments are in memory at a time. Vectors from another encoder are read from ``.npy`` files, which are memory-mapped
and read in blocks. Each method in ``lsar_jax.transforms.methods`` has a subcommand with the options of its fit
function.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union

import docstring_parser
import jax
import tyro

from lsar_jax.checks import whole_number
from lsar_jax.cli.inputs import Reader, check_distinct, check_unread, encoder_files, is_vectors, open_vectors, space_of
from lsar_jax.encoders import load_encoder
from lsar_jax.files import check_outputs, sha256
from lsar_jax.languages import canonical_keys, language_code
from lsar_jax.moments import Moments, PooledMoments, load_moments, merge_moments, pool_moments, save_moments, too_few
from lsar_jax.processes import check_alike, gather, is_first, wait_for_all
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform, fit_identifier
from lsar_jax.transforms.methods import METHODS, FitMethod

__all__ = ["FitCommand", "FitCommands"]

Second = Literal["none", "pooled", "languages"]

# Each kind of second moments includes the kinds before it.
_KINDS: tuple[Second, ...] = ("none", "pooled", "languages")


@dataclass(frozen=True)
class FitCommand(ABC):
    """Fits a transform on text or vectors and writes it to one file.

    Attributes:
      out: the file to write the transform to.
      data: one or more LANGUAGE=FILE, where FILE is a text file with one sentence per line (blank lines are skipped), a
        .npy file of float vectors with one row per sentence, or a folder that lsar-jax encode wrote. A language may
        have several.
      encoder: encoder of the text: bundled, a preset, a folder or a Hub id. Omit it for vectors.
      revision: commit, tag or branch of a Hub id.
      layer: hidden-state layer; by default, the checkpoint's.
      pooling: pooling of the tokens; by default, the checkpoint's.
      max_length: maximum number of tokens per sentence.
      limit: maximum number of sentences per file; by default, all, or 10,000 for CBIE.
      overwrite: replace outputs that exist.
    """

    name: ClassVar[str] = ""
    method: ClassVar[FitMethod]

    out: tyro.conf.Positional[Path]
    data: tuple[str, ...] = ()
    encoder: str | None = None
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    max_length: int | None = None
    limit: int | None = None
    overwrite: bool = False

    def run(self) -> None:
        """Fits and saves the transform, and prints a summary.

        Raises:
          FileExistsError: an output exists, and ``overwrite`` is not given.
          FileNotFoundError: a file, or the folder of an output, does not exist.
          ValueError: an output is also an input, files or moments do not go together, or the method rejects them.
        """
        files = _files(self.data)
        self._check(files)
        check_alike("the files", repr({code: [_mark(path) for path in paths] for code, paths in files.items()}))
        fitted, blank = self._fit(files, {name: getattr(self, name) for name in self.method.options})
        blank = sum(map(int, gather(str(blank).encode())))
        if is_first():
            fitted.save(self.out)
            _report(fitted, self.out, blank)
        wait_for_all("fitted")

    @abstractmethod
    def _fit(self, files: Mapping[str, list[Path]], options: Mapping[str, Any]) -> tuple[Transform, int]:
        """Returns the fitted transform, and how many blank lines were skipped, of which each process counts a part."""

    def _check(self, files: Mapping[str, list[Path]]) -> None:
        """Raises ValueError if options do not go together, before anything is read."""
        check_outputs(self._outputs, self._inputs(files), overwrite=self.overwrite)
        kinds = {is_vectors(path) for paths in files.values() for path in paths}
        if len(kinds) > 1:
            raise ValueError(
                "--data mixes text and vectors, but the encoder of the vectors is not known; fit on one kind only"
            )
        text = kinds == {False}
        if text and self.encoder is None:
            raise ValueError("text needs an encoder; give --encoder bundled, a preset, a folder or a Hub id")
        if self.encoder is not None and not text:
            raise ValueError(f"--encoder {self.encoder} is given, but there is no text to encode; omit it")
        if not text:
            check_unread(self)
        for code, paths in files.items():
            check_distinct(f"--data {code}", paths)
        texts = [path for paths in files.values() for path in paths if text and path.is_file()]
        if empty := [path for path in texts if not path.stat().st_size]:
            raise ValueError(f"{empty[0]} is empty; omit it")
        if self.limit is not None:
            whole_number("limit", self.limit, 1, 1 << 62, "sentences")

    @property
    def _outputs(self) -> list[Path]:
        return [self.out]

    def _inputs(self, files: Mapping[str, list[Path]]) -> list[Path]:
        return [*(path for paths in files.values() for path in paths), *encoder_files(self.encoder)]

    def _open(
        self, files: Mapping[str, list[Path]], options: Mapping[str, Any], known: Collection[str] = ()
    ) -> tuple[Reader, EncoderSpec | None]:
        """Returns the reader of the files, and the spec of its encoder, after checking the options of the method.

        Args:
          files: the files of each language.
          options: the options of the method.
          known: languages that are fitted on without files.
        """
        opened, spec = None, None
        if self.encoder:
            opened = load_encoder(self.encoder, revision=self.revision, layer=self.layer, pooling=self.pooling)
            spec = opened.spec
        elif files:
            spec = _source([space_of(path) for paths in files.values() for path in paths])
        if files:
            dim = opened.dim if opened else open_vectors(next(iter(files.values()))[0]).shape[1]
            self.method.check(options, {*files, *known}, dim)
        check_alike("the encoders", repr(spec))
        return Reader(opened, self.max_length, self.limit), spec


@dataclass(frozen=True)
class FitEmbeddings(FitCommand):
    """Fits a transform on the embeddings themselves; there are no moments to read, to save or to identify from."""

    def _check(self, files: Mapping[str, list[Path]]) -> None:
        if not files:
            raise ValueError("there is nothing to fit on; give --data LANGUAGE=FILE ...")
        super()._check(files)

    def _fit(self, files: Mapping[str, list[Path]], options: Mapping[str, Any]) -> tuple[Transform, int]:
        reader, source = self._open(files, options)
        x = {code: reader.embeddings(code, paths) for code, paths in files.items()}
        return self.method(x, source=source, **options), reader.blank


@dataclass(frozen=True)
class FitMoments(FitCommand):
    """Fits a transform on moments, which can also be saved and have an identifier fitted on them.

    Attributes:
      moments: files of moments that earlier runs saved, for example for parts of a corpus; used instead of --data, or
        in addition to it.
      languages: languages to take from the saved moments; by default, all.
      identifier: let the transform detect the language itself (language="auto").
      save: a file to save the moments to.
      second: second moments to keep: none; pooled, for one over all languages; or languages, for one of each language.
        By default, those that all saved moments have, or else those that the method needs.
    """

    moments: tuple[Path, ...] = ()
    languages: tuple[str, ...] = ()
    identifier: bool = False
    save: Path | None = None
    second: Second | None = None

    def _check(self, files: Mapping[str, list[Path]]) -> None:
        if not files and not self.moments:
            raise ValueError("there is nothing to fit on; give --data LANGUAGE=FILE ... or --moments FILE ...")
        if self.limit is not None and not files:
            raise ValueError("--limit is given, but there are no files of --data to limit; omit it")
        check_distinct("--moments", self.moments)
        super()._check(files)

    @property
    def _outputs(self) -> list[Path]:
        return [self.out] if self.save is None else [self.out, self.save]

    def _inputs(self, files: Mapping[str, list[Path]]) -> list[Path]:
        return [*super()._inputs(files), *self.moments]

    def _fit(self, files: Mapping[str, list[Path]], options: Mapping[str, Any]) -> tuple[Transform, int]:
        needs = self.method.needs_with(options)
        needed: Second = "pooled" if needs == "pooled" or self.identifier else "none"
        if needs == "languages":
            needed = needs
        saved = [_saved(path, self.languages, needed) for path in self.moments]
        absent = sorted({*map(language_code, self.languages)} - {code for part, _ in saved for code in part})
        if absent:
            where = ", ".join(map(str, self.moments)) or "--moments"
            raise ValueError(f"there are no moments of {', '.join(absent)} in {where}; omit them from --languages")
        kept = _kind(saved, self.second, needed, self.name)

        known = {code for part, _ in saved for code in part}
        if self.identifier and len({*files, *known}) < 2:
            raise ValueError(f"--identifier: {too_few({*files, *known}, 2)}")
        reader, spec = self._open(files, options, known)
        source = _source([*([spec] if files else []), *(origin for _, origin in saved)])
        parts = [_reduced(part, kept) for part, _ in saved]
        for code, paths in files.items():
            parts += [_reduced({code: reader.moments(path, code, kept != "none")}, kept) for path in paths]
        x = merge_moments(*parts)
        if self.save is not None and is_first():
            save_moments(self.save, x, source=source)
        fitted = self.method(x, source=source, **options)
        if self.identifier:
            fitted = fitted.with_identifier(fit_identifier(x, source=source))
        return fitted, reader.blank


def _command(name: str, method: FitMethod) -> type[FitCommand]:
    """Returns the command of a method: with the options of all methods, of its kind of fit, and of its fit function."""
    documented = docstring_parser.parse(method.fit.__doc__ or "")
    described = {one.arg_name: (one.description or "").replace("``", "") for one in documented.params}
    own = [
        (
            option.name,
            Annotated[option.annotation, tyro.conf.arg(help=described.get(option.name, ""))],
            field(default=option.default),
        )
        for option in method.options.values()
    ]
    base = FitEmbeddings if method.needs == "embeddings" else FitMoments
    common = (FitCommand.__doc__ or "").partition("\n")[2].rstrip()
    common += (base.__doc__ or "").partition("Attributes:")[2]
    note = "" if base is FitMoments else " It is fitted on the embeddings, not on moments."
    fixed = "".join(f" ({option}={value})" for option, value in method.fixed.items())
    summary = (documented.short_description or "").replace("``", "").removesuffix(".")
    namespace = {"name": name, "method": method, "__doc__": f"{summary}{fixed}.{note}\n{common}"}
    title = "".join(part.title() for part in name.replace("+", "-").split("-"))
    return make_dataclass(f"Fit{title}", own, bases=(base,), namespace=namespace, frozen=True)


# One subcommand per method.
FitCommands: Any = Union[  # noqa: UP007 - made from the table
    tuple(Annotated[_command(name, method), tyro.conf.subcommand(name)] for name, method in METHODS.items())
]


def _files(data: tuple[str, ...]) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for item in data:
        code, sign, path = item.partition("=")
        if not (code and sign and path):
            raise ValueError(f"--data {item!r} is not LANGUAGE=FILE, such as de=german.txt")
        if not Path(path).is_file() and not Path(path).is_dir():
            raise FileNotFoundError(f"there is no file {path}")
        files.setdefault(language_code(code), []).append(Path(path))
    return canonical_keys(files)


def _mark(path: Path) -> str:
    """Returns a digest by which processes compare a file: of all text, of a folder's manifest, or of a first block."""
    if jax.process_count() == 1:
        return ""
    if path.is_dir():
        return sha256([path / "manifest.json"])
    if not is_vectors(path):
        return sha256([path])
    with path.open("rb") as file:
        return f"{path.stat().st_size} {hashlib.sha256(file.read(1 << 20)).hexdigest()}"


def _saved(
    path: Path, languages: tuple[str, ...], needed: Second
) -> tuple[dict[str, Moments] | PooledMoments, EncoderSpec | None]:
    """Returns a file's moments of the requested languages, as far as it has them, and the spec of its encoder."""
    whole, source = load_moments(path)
    if not languages:
        return whole, source
    chosen = [code for code in map(language_code, languages) if code in whole]
    if not chosen:
        raise ValueError(f"{path} has none of the languages {', '.join(languages)}; it has {', '.join(whole)}")
    # A subset of pooled moments has means, but no second moment.
    return load_moments(path, chosen, means_only=needed == "none" and isinstance(whole, PooledMoments))


def _kind(
    saved: Sequence[tuple[Mapping[str, Moments], EncoderSpec | None]],
    second: Second | None,
    needed: Second,
    method: str,
) -> Second:
    """Returns the kind of second moments to keep: the requested one, or the one that all saved moments have."""

    def kind(part: Mapping[str, Moments]) -> Second:
        if isinstance(part, PooledMoments):
            return "pooled"
        return "none" if any(m.scatter is None for m in part.values()) else "languages"

    have = min((kind(part) for part, _ in saved), key=_KINDS.index, default=second or needed)
    kept = second or have
    if _KINDS.index(kept) > _KINDS.index(have):
        raise ValueError(f"--second is {kept}, but the saved moments support only --second {have}")
    if _KINDS.index(kept) < _KINDS.index(needed):
        raise ValueError(
            f"{method} needs --second {needed}, but these moments are --second {kept}; fit on moments summed with "
            f"--second {needed}"
        )
    return kept


def _source(sources: Sequence[EncoderSpec | None]) -> EncoderSpec | None:
    """Returns the spec of the encoder that made all parts, or None if it is not known for any of them."""
    first = sources[0]
    for other in sources[1:]:
        if (first is None) != (other is None) or (first and other and not first.same_space(other)):
            told = first.difference(other) if first and other else "one is not known"
            raise ValueError(
                f"the parts are embeddings of different encoders: {told}; fit on the embeddings of one encoder"
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
        print(f"{blank} blank lines were skipped")
    print(f"wrote {transform!r} to {out}")
