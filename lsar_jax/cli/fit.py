"""``lsar-jax fit METHOD``: fits a transform on files, in bounded memory.

Text is encoded line by line, and its embeddings are summed on their device; only a batch and the moments are in memory
at a time. Vectors of another encoder are read in blocks. Each method in ``lsar_jax.transforms.methods`` has a
subcommand with the options of its fit function.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Union

import docstring_parser
import tyro

from lsar_jax.checks import whole_number
from lsar_jax.corpora.records import input_path
from lsar_jax.embeddings import open as open_folder
from lsar_jax.files import check_outputs, sha256
from lsar_jax.languages import canonical_keys, language_code
from lsar_jax.moments import Moments, PooledMoments, load_moments, merge_moments, pool_moments, save_moments
from lsar_jax.options.encoder import InputOptions
from lsar_jax.options.inputs import Reader, check_distinct, is_vectors, open_vectors
from lsar_jax.processes import check_alike, gather, is_first, share
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform, fit_identifier
from lsar_jax.transforms.base.blend import Blend
from lsar_jax.transforms.methods import METHODS, FitMethod, Needs

__all__ = ["FitCommands", "FitEmbeddings"]

# Options that --help shows.
_SHOWN = 10
# What moments have: each kind includes the kinds before it.
_KINDS: tuple[Needs, ...] = ("means", "pooled", "languages")


@dataclass(frozen=True)
class FitEmbeddings(InputOptions):
    """Fits a transform on the embeddings of text, or on vectors, and writes it to one file.

    Attributes:
      out: the file to write the transform to.
      data: one or more LANGUAGE=FILE, where FILE is text that lsar-jax encode reads (a sentence per line, .jsonl or
        .parquet with a column text, and the like, perhaps .gz; blank sentences are skipped), a .npy file of float
        vectors with one row per sentence, or a folder that lsar-jax encode wrote. A language may have several.
      limit: maximum number of sentences per file; by default, all, or 10,000 for CBIE and LangSAE.
      strength: how much of the transform to apply, from 0 (embeddings unchanged) to 1.
      overwrite: replace outputs that exist.
    """

    name: ClassVar[str] = ""
    # What --help shows, and with these the options of the method.
    essential: ClassVar[tuple[str, ...]] = (
        "out", "encoder", "layer", "data", "limit", "moments", "identifier", "save"
    )  # fmt: skip
    method: ClassVar[FitMethod]

    out: tyro.conf.Positional[Path]
    data: tuple[str, ...] = ()
    limit: int | None = None
    strength: float = 1.0
    overwrite: bool = False
    # Options of methods that are fitted on moments.
    moments: ClassVar[tuple[Path, ...]] = ()
    save: ClassVar[Path | None] = None

    def run(self) -> None:
        """Fits and saves the transform, and prints a summary."""
        files = _files(self.data)
        self._check(files)
        if share()[1] > 1:
            check_alike("the files", repr({code: [*map(_mark, paths)] for code, paths in files.items()}))
        options = {name: getattr(self, name) for name in self.method.options if hasattr(self, name)}
        transform, blank = self._fit(files, options)
        transform = transform.at_strength(self.strength)
        blank = sum(map(int, gather(str(blank).encode())))
        if is_first():
            transform.save(self.out)
            for fit in (fit for fit in transform.fits if fit.fitted_on):
                counts = ", ".join(f"{code} {count}" for code, count in fit.fitted_on)
                print(f"{fit} on {sum(count for _, count in fit.fitted_on)} sentences: {counts}")
            if blank:
                print(f"{blank} blank lines were skipped")
            print(f"wrote {transform!r} to {self.out}")

    def _fit(self, files: Mapping[str, list[Path]], options: Mapping[str, Any]) -> tuple[Transform, int]:
        """Returns the fitted transform, and how many blank lines this process skipped."""
        reader, source = self._open(files, options)
        with reader.meter:
            x = {code: reader.embeddings(code, paths) for code, paths in files.items()}
        return self.method(x, source=source, **options), reader.blank

    def _check(self, files: Mapping[str, list[Path]]) -> None:
        """Raises an error, before anything is read, if files or options do not go together."""
        Blend.of(self.strength, 0)
        if not files and not self.moments:
            also = " or --moments FILE ..." if isinstance(self, FitMoments) else ""
            raise ValueError(f"there is nothing to fit on; give --data LANGUAGE=FILE ...{also}")
        if self.limit is not None:
            whole_number("limit", self.limit, 1, 1 << 62, "sentences")
            if not files:
                raise ValueError("--limit is given, but there are no files of --data to limit; omit it")
        paths = list(chain.from_iterable(files.values()))
        outputs = [path for path in (self.out, self.save) if path is not None]
        check_outputs(outputs, [*paths, *self.moments, *self.encoder_files()], overwrite=self.overwrite)
        text = [path for path in paths if not is_vectors(path)]
        if 0 < len(text) < len(paths):
            raise ValueError("--data mixes text and vectors, but the vectors' encoder is not known; fit on one kind")
        self.check_text(text)
        for option, given in {**{f"--data {code}": files[code] for code in files}, "--moments": self.moments}.items():
            check_distinct(option, given)
        if empty := [path for path in text if path.is_file() and not path.stat().st_size]:
            raise ValueError(f"{empty[0]} is empty; omit it")

    def _open(
        self, files: Mapping[str, list[Path]], options: Mapping[str, Any], languages: Collection[str] = ()
    ) -> tuple[Reader, EncoderSpec | None]:
        """Returns the reader of the files, and the spec of their encoder; ``languages`` are fitted on without files."""
        encoder, paths = None if self.encoder is None else self.load(), list(chain.from_iterable(files.values()))
        spec = None if encoder is None else encoder.spec
        if paths:
            if encoder is None:
                spec = _one_space([open_folder(path).spec if path.is_dir() else None for path in paths])
            dim = encoder.dim if encoder else open_vectors(paths[0]).shape[1]
            self.method.check(options, {*files, *languages}, dim)
        return Reader(encoder, self.max_length, self.limit, self.text, paths), spec


@dataclass(frozen=True)
class FitMoments(FitEmbeddings):
    """Fits a transform on moments, which can also be saved and have an identifier fitted on them.

    Attributes:
      moments: files of moments that earlier runs saved, for example for parts of a corpus; used instead of --data, or
        in addition to it.
      identifier: let the transform detect the language itself (language="auto").
      save: a file to save the moments to, with the second moments that the method needs or all --moments have.
    """

    moments: tuple[Path, ...] = ()  # type: ignore[misc]
    identifier: bool = False
    save: Path | None = None  # type: ignore[misc]

    def _fit(self, files: Mapping[str, list[Path]], options: Mapping[str, Any]) -> tuple[Transform, int]:
        saved = [load_moments(path) for path in self.moments]
        needed = self.method.needs
        if self.identifier and needed == "means":
            needed = "pooled"
        kind = min((_kind_of(moments) for moments, _ in saved), key=_KINDS.index, default=needed)
        if _KINDS.index(kind) < _KINDS.index(needed):
            what = {"means": "means", "pooled": "pooled second moments", "languages": "second moments by language"}
            advice = next(name for name, method in METHODS.items() if method.needs == needed)
            have = f"the saved moments have {what[kind]}; save those of a fit of {advice}"
            raise ValueError(f"{self.name} needs {what[needed]}, but {have}")
        known = {code for moments, _ in saved for code in moments}
        reader, spec = self._open(files, options, known)
        source = _one_space([*([spec] if files else []), *(origin for _, origin in saved)])
        parts = [_reduced(moments, kind) for moments, _ in saved]
        with reader.meter:
            for code, paths in files.items():
                parts += [_reduced({code: reader.moments(path, code, kind != "means")}, kind) for path in paths]
        x = merge_moments(*parts)
        if self.save is not None and is_first():
            save_moments(self.save, x, source=source)
        transform = self.method(x, source=source, **options).with_sample(reader.sample(files))
        if self.identifier:
            transform = transform.with_identifier(fit_identifier(x, source=source))
        return transform, reader.blank


def _command(name: str, method: FitMethod) -> type[FitEmbeddings]:
    """The command of a method: its kind of fit, with the options of its fit function."""
    documented = docstring_parser.parse((method.fit.__doc__ or "").replace("``", ""))
    helps = {parameter.arg_name: parameter.description or "" for parameter in documented.params}
    # A flag that a method of another name has fixed is chosen by that name.
    fixed_elsewhere = {name for other in METHODS.values() if other.fit is method.fit for name in other.fixed}
    options = [
        (name, Annotated[option.annotation, tyro.conf.arg(help=helps.get(name, ""))], field(default=option.default))
        for name, option in method.options.items()
        if not (isinstance(option.default, bool) and name in fixed_elsewhere)
    ]
    base = FitEmbeddings if method.needs == "embeddings" else FitMoments
    fixed = "".join(f" ({option}={value})" for option, value in method.fixed.items())
    note = "" if base is FitMoments else " It is fitted on the embeddings, not on moments."
    summary = (documented.short_description or "").removesuffix(".")
    namespace = {"name": name, "method": method, "__doc__": f"{summary}{fixed}.{note}"}
    namespace["essential"] = (*base.essential, *method.options)[:_SHOWN]
    title = "".join(part.title() for part in name.replace("+", "-").split("-"))
    return make_dataclass(f"Fit{title}", options, bases=(base,), namespace=namespace, frozen=True)


# One subcommand per method.
FitCommands: Any = Union[  # noqa: UP007 - made from the table
    tuple(Annotated[_command(name, method), tyro.conf.subcommand(name)] for name, method in METHODS.items())
]


def _files(data: tuple[str, ...]) -> dict[str, list[Path]]:
    """The files of each language of ``--data``, in the order of the languages."""
    files: dict[str, list[Path]] = {}
    for item in data:
        code, sign, name = item.partition("=")
        if not (code and sign and name):
            raise ValueError(f"--data {item!r} is not LANGUAGE=FILE, such as de=german.txt")
        files.setdefault(language_code(code), []).append(input_path(name))
    return canonical_keys(files)


def _mark(path: Path) -> str:
    """The digest by which processes compare a file: of all text, of a folder's manifest, or of first vectors."""
    if path.is_dir() or not is_vectors(path):
        return sha256([path / "manifest.json" if path.is_dir() else path])
    with path.open("rb") as file:
        return f"{path.stat().st_size} {hashlib.sha256(file.read(1 << 20)).hexdigest()}"


def _kind_of(moments: Mapping[str, Moments]) -> Needs:
    if isinstance(moments, PooledMoments):
        return "pooled"
    return "means" if any(part.scatter is None for part in moments.values()) else "languages"


def _reduced(moments: Mapping[str, Moments], kind: Needs) -> Mapping[str, Moments]:
    """Moments of this kind, which they include."""
    if kind == "means":
        return {code: Moments(part.count, part.mean) for code, part in moments.items()}
    return pool_moments(moments) if kind == "pooled" else moments


def _one_space(sources: Sequence[EncoderSpec | None]) -> EncoderSpec | None:
    """The spec of the encoder that made all parts, or None if it is not known for any of them."""
    first = sources[0]
    for other in sources[1:]:
        if (first is None) != (other is None) or (first and other and not first.same_space(other)):
            difference = first.difference(other) if first and other else "one is not known"
            raise ValueError(f"the parts are embeddings of different encoders: {difference}; fit on one encoder's")
    return first
