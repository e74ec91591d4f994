"""``lsar-jax fit METHOD``: fits a transform on files, in bounded memory.

Text is encoded line by line, and its embeddings are summed on their device; only a batch and the moments are in memory
at a time. Vectors of another encoder are read in blocks, those of a parquet file by language. Each method in
``lsar_jax.transforms.methods`` has a subcommand with the options of its fit function.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Union

import docstring_parser
import numpy as np
import tyro

from lsar_jax.array_files import open_arrays, save_arrays
from lsar_jax.checks import whole_number
from lsar_jax.embeddings import open as open_folder
from lsar_jax.embeddings.job import NUMBER, new_output
from lsar_jax.embeddings.job_shares import WHOLE
from lsar_jax.files import write_text
from lsar_jax.mining.job import notes_of
from lsar_jax.moments import Moments, load_moments, merge_moments, save_moments
from lsar_jax.options.file_job import FileJob
from lsar_jax.options.fit_parts import kind_of_all, one_space, reduced
from lsar_jax.options.inputs import Reader, check_distinct, has_vectors, is_vectors, open_vectors
from lsar_jax.options.texts import Texts, texts_of
from lsar_jax.spec import EncoderSpec
from lsar_jax.transforms import Transform, fit_identifier
from lsar_jax.transforms.base.blend import Blend
from lsar_jax.transforms.methods import METHODS, FitMethod

__all__ = ["FitCommands", "FitEmbeddings"]

# The output and the options that --help shows.
_SHOWN = 11
# The file of the moments of a share, without a byte if the share is empty; and of the sample, with its format.
_MOMENTS, _SAMPLE, _FORMAT = "moments-{:05d}.safetensors", "sample.safetensors", "lsar_jax sample of a fit 1"


@dataclass(frozen=True)
class FitEmbeddings(FileJob):
    """Fits a transform on the embeddings of text, or on vectors, and writes it to one file.

    Attributes:
      out: the file to write the transform to.
      texts: what to fit on: a folder of files, or files, each named after its language, of text that lsar-jax encode
        reads (de.txt, de.jsonl.gz; blank sentences are skipped), of float vectors with one row per sentence (de.npy),
        or folders that it wrote (de); tables with the columns language and text (.parquet, .jsonl, .csv, .tsv), or,
        without --encoder, language and vector (.parquet), which are read once more for each language; or LANGUAGE=PATH.
        A language may have several.
      limit: maximum number of sentences of a language per file; by default, all, or 10,000 for CBIE and LangSAE.
      strength: how much of the transform to apply, from 0 (embeddings unchanged) to 1.
    """

    name: ClassVar[str] = ""
    # What --help shows, and with these the options of the method.
    essential: ClassVar[tuple[str, ...]] = (
        "out", "encoder", "layer", "texts", "limit", "moments", "identifier", "save", "shard"
    )  # fmt: skip
    method: ClassVar[FitMethod]

    out: tyro.conf.Positional[Path]
    texts: tuple[str, ...] = ()
    limit: int | None = None
    strength: float = 1.0
    # Options of methods that are fitted on moments.
    moments: ClassVar[tuple[Path, ...]] = ()
    save: ClassVar[Path | None] = None

    def run(self) -> None:
        """Fits and saves the transform, and prints a summary."""
        self._check()
        self.run_job([path for path in (self.out, self.save) if path is not None], self.inputs)

    @cached_property
    def found(self) -> Texts:
        """The files of each language."""
        return texts_of(self.texts, self.text or ("text" if self.encoder else None))

    @property
    def inputs(self) -> dict[str, Sequence[Path]]:
        """The files of each option that names files."""
        return {**{f"--texts {code}": paths for code, paths in self.found.files.items()}, "--moments": self.moments}

    @property
    def options(self) -> dict[str, Any]:
        """The options of the method."""
        return {name: getattr(self, name) for name in self.method.options if hasattr(self, name)}

    def whole(self) -> None:
        """Fits on all files."""
        with self._open() as (reader, source):
            x = {code: reader.embeddings(code, paths) for code, paths in self.found.files.items()}
        self._write(self.method(x, source=source, **self.options))

    def _write(self, transform: Transform) -> None:
        """Saves the transform, and prints a summary."""
        transform = transform.at_strength(self.strength)
        with new_output(notes_of(self.out), self.out) as path:
            transform.save(path)
        for fit in (fit for fit in transform.fits if fit.fitted_on):
            counts = ", ".join(f"{code} {count}" for code, count in fit.fitted_on)
            print(f"{fit} on {sum(count for _, count in fit.fitted_on)} sentences: {counts}")
        print(f"wrote {transform!r} to {self.out}")

    def _check(self) -> None:
        """Raises an error, before anything is read, if files or options do not go together."""
        Blend.of(self.strength, 0)
        files = self.found.files
        if not files and not self.moments:
            also = ", or --moments FILE ..." if isinstance(self, FitMoments) else ""
            raise ValueError(f"there is nothing to fit on; give --texts, such as a folder with de.txt and en.txt{also}")
        if self.limit is not None:
            whole_number("limit", self.limit, 1, 1 << 62, "sentences")
            if not files:
                raise ValueError("--limit is given, but --texts, which it limits, is not; omit it")
        paths = list(chain.from_iterable(files.values()))
        text = [path for path in paths if not (is_vectors if self.encoder or self.text else has_vectors)(path)]
        if 0 < len(text) < len(paths):
            raise ValueError("--texts mixes text and vectors, but the vectors' encoder is not known; fit on one kind")
        self.check_text(text)
        for option, given in self.inputs.items():
            check_distinct(option, given)
        if empty := [path for path in text if path.is_file() and not path.stat().st_size]:
            raise ValueError(f"{empty[0]} is empty; omit it")

    @contextmanager
    def _open(
        self, languages: Collection[str] = (), shard: tuple[int, int] = WHOLE
    ) -> Iterator[tuple[Reader, EncoderSpec | None]]:
        """Yields the reader of the files, and the spec of their encoder; ``languages`` are fitted on without files."""
        encoder, paths = self.opened, list(chain.from_iterable(self.found.files.values()))
        opened = [open_folder(path).spec if path.is_dir() else None for path in paths]
        spec = encoder.spec if encoder else one_space(opened or [None])
        if paths:
            dim = encoder.dim if encoder else open_vectors(paths[0]).shape[1]
            self.method.check(self.options, {*self.found.files, *languages}, dim)
        reader = Reader(encoder, self.max_length, self.limit, self.text, self.found, shard)
        with reader.meter:
            yield reader, spec
        if reader.blank:
            print(f"{reader.blank} blank lines were skipped")


@dataclass(frozen=True)
class FitMoments(FitEmbeddings):
    """Fits a transform on moments, which can also be saved and have an identifier fitted on them.

    Attributes:
      moments: files of moments that earlier runs saved, for example for parts of a corpus; used instead of --texts, or
        in addition to it.
      identifier: let the transform detect the language itself (language="auto").
      save: a file to save the moments to, with the second moments that the method needs or all --moments have.
    """

    parts: ClassVar[str] = rf"moments-{NUMBER}\.safetensors|{_SAMPLE}"

    moments: tuple[Path, ...] = ()  # type: ignore[misc]
    identifier: bool = False
    save: Path | None = None  # type: ignore[misc]

    def whole(self) -> None:
        """Fits on all files."""
        x, source, reader = self._sums(WHOLE)
        self._end(x, source, reader.sample())

    def share(self, shard: tuple[int, int], folder: Path) -> dict[str, Any]:
        """Writes the moments of every n-th block of rows, and share 0 the sample."""
        path = folder / _MOMENTS.format(shard[0])
        if not path.is_file():
            x, source, reader = self._sums(shard)
            if shard[0] == 0:
                sample = {code: np.asarray(rows, np.float32) for code, rows in reader.sample().items()}
                save_arrays(folder / _SAMPLE, sample, format=_FORMAT, header=None)
            if x:
                save_moments(path, x, source=source)
            else:
                write_text(path, "")
        return {}

    def merge(self, found: Mapping[str, Any], folder: Path) -> None:
        """Fits on the moments of all shares."""
        paths = [folder / _MOMENTS.format(number) for number in range(found["count"])]
        parts = [load_moments(path) for path in paths if not path.is_file() or path.stat().st_size]
        with open_arrays(folder / _SAMPLE, format=_FORMAT, what="sample") as file:
            sample = {code: file.read(code) for code in file.names}
        self._end(merge_moments(*(x for x, _ in parts)), parts[0][1], sample)

    def _sums(self, shard: tuple[int, int]) -> tuple[Mapping[str, Moments], EncoderSpec | None, Reader]:
        """Returns the moments of a share of the files, share 0's with those saved, their source, and the reader."""
        saved = [load_moments(path) for path in self.moments]
        needed = self.method.needs
        if self.identifier and needed == "means":
            needed = "pooled"
        kind = kind_of_all([moments for moments, _ in saved], needed, self.name)
        parts = [reduced(moments, kind) for moments, _ in saved if shard[0] == 0]
        with self._open({code for moments, _ in saved for code in moments}, shard) as (reader, spec):
            source = one_space([*([spec] if self.found.files else []), *(origin for _, origin in saved)])
            for code, paths in self.found.files.items():
                found = (reader.moments(path, code, kind != "means") for path in paths)
                parts += [reduced({code: moments}, kind) for moments in found if moments is not None]
        return merge_moments(*parts) if parts else {}, source, reader

    def _end(self, x: Mapping[str, Moments], source: EncoderSpec | None, sample: Mapping[str, np.ndarray]) -> None:
        """Fits on moments, and saves them before."""
        if self.save is not None:
            with new_output(notes_of(self.out), self.save) as path:
                save_moments(path, x, source=source)
        transform = self.method(x, source=source, **self.options).with_sample(sample)
        self._write(transform.with_identifier(fit_identifier(x, source=source)) if self.identifier else transform)


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
