"""What a card lacks: data, text to fit on, extras, trained heads, the encoder. Everything at once, before a run."""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from eval.fitting import FitOptions
from eval.papers.card import Card, Step
from eval.papers.plan import Choice, Planned, plan_step
from eval.papers.sources import SOURCES, Source, languages_of_text
from lsar_jax.checkpoints.bundled import open_bundled
from lsar_jax.checkpoints.checkpoint import Checkpoint, read_folder
from lsar_jax.checkpoints.locate import is_folder, locate
from lsar_jax.checkpoints.presets import PRESETS
from lsar_jax.corpora.tfds import prepared_languages
from lsar_jax.hub import Repository
from lsar_jax.languages import language_code

__all__ = ["Missing", "missing"]


class Missing(NamedTuple):
    """Something that is not here.

    Attributes:
      what: its name or its path.
      told: the whole sentence: what is missing, where to get it and where to put it.
      steps: numbers of the commands that need it; empty for the encoder, which all need.
    """

    what: str
    told: str
    steps: tuple[int, ...] = ()


def missing(card: Card, planned: Sequence[Planned], choice: Choice, *, download: bool | None = None) -> list[Missing]:
    """Returns everything that the commands need and that is not here.

    Args:
      card: the card.
      planned: its commands.
      choice: the encoder and the options.
      download: whether an encoder on the Hub is downloaded now; if not, the Hub is asked whether it has it. None skips
        the encoder.
    """
    found: dict[str, Missing] = {}
    for one in planned:
        if one.makes is not None and one.makes.exists():
            continue
        made = [other.step for other in planned if other.number < one.number]
        for lack in _of_step(card, one, made, choice):
            before = found.get(lack.told, lack)
            found[lack.told] = before._replace(steps=tuple(dict.fromkeys((*before.steps, one.number))))
    every = list(found.values())
    return every if download is None else [*_encoder(planned, choice, download), *every]


def _of_step(card: Card, one: Planned, made: Sequence[Step], choice: Choice) -> Iterator[Missing]:
    step = one.step
    for extra in _extras(step):
        if lacking := _not_installed(extra):
            yield Missing(
                f"extra {extra}",
                f"{', '.join(lacking)}: pip install 'lsar_jax[{extra}]' (in a checkout: pip install -e '.[{extra}]')",
            )
    written = {other.makes for other in made}
    for key in step.data:
        source = SOURCES[key]
        if source.path and source.path not in written and key != "oscar":
            yield from _source(source, source.languages, choice.data)
    for path in (Path(value) for value in one.options.values() if isinstance(value, str)):
        if any(_names_file_of(path, source, choice.data) for source in _with_place(step.data)) and not path.exists():
            yield Missing(str(path), f"{path} does not exist")
    if step.task in ("leakage", "transfer"):
        yield from _trained(card, one, made, choice)
    if isinstance(one.command, FitOptions) and set(one.command.transforms) != {"original"}:
        yield from _fit_text(one.command, step)


def _names_file_of(path: Path, source: Source, data: Path) -> bool:
    """Whether a word of a command is a file of a source that is here, and that is not checked by name anyway."""
    folder = source.folder(data)
    return path.parent == folder and bool(path.suffix) and folder.is_dir() and path.name not in source.files


def _with_place(keys: Iterable[str]) -> list[Source]:
    return [SOURCES[key] for key in keys if SOURCES[key].path]


def _source(source: Source, languages: Sequence[str], data: Path) -> Iterator[Missing]:
    folder = source.folder(data)
    get = f"put there {source.where}{f', at commit {source.revision}' if source.revision else ''}"
    if not folder.is_dir():
        yield Missing(str(folder), f"{folder} does not exist: {get}")
        return
    if absent := [pattern for pattern in source.files if not any(folder.glob(pattern))]:
        yield Missing(f"{folder}/{absent[0]}", f"{folder} has no {', '.join(absent)}: {get}")
    if source.has is not None and languages:
        try:
            there = {language_code(code) for code in source.has(folder)}
        except (FileNotFoundError, ValueError) as error:
            yield Missing(str(folder), f"{error}: {get}")
            return
        if lacking := [code for code in languages if language_code(code) not in there]:
            yield Missing(str(folder), f"{folder} has no files for {', '.join(lacking)}: {get}")


def _fit_text(command: Any, step: Step) -> Iterator[Missing]:
    """Yields what the text to fit on lacks."""
    place = str(getattr(command, "fit_on", "udhr"))
    kind, _, name = place.partition(":")
    if place in ("udhr", "evaluated") or kind == "hub":
        return
    other = "or name other text with --fit-on, such as udhr, with which fitted methods have no published number"
    if kind == "tfds":
        try:
            there: Iterable[str] = prepared_languages(name)
        except FileNotFoundError as error:
            yield Missing(place, f"{error}: put there {SOURCES['wiki40b'].where}; {other}")
            return
        get = SOURCES["wiki40b"].where
    else:
        known = [source for source in SOURCES.values() if source.path == place]
        get = known[0].where if known else "`xx.txt`, a sentence a line"
        if not Path(place).is_dir():
            yield Missing(place, f"{place}, the text to fit on, does not exist: put there {get}; {other}")
            return
        there = languages_of_text(Path(place))
    if lacking := [code for code in _fit_languages(step) if code not in there]:
        yield Missing(place, f"{place}, the text to fit on, has none of {', '.join(lacking)}: add {get}; {other}")


def _fit_languages(step: Step) -> list[str]:
    """Returns the languages that the text to fit on must have: those of the data, and English."""
    codes = [code for key in step.data for code in SOURCES[key].languages]
    return [*codes, "en"] if codes and "en" not in codes else codes


def _trained(card: Card, one: Planned, made: Sequence[Step], choice: Choice) -> Iterator[Missing]:
    """Yields the trained heads, or the scores of a fine-tuned encoder, that no earlier command makes."""
    makes = [plan_step(step, choice, Path()).options.get("out") for step in made]
    outs = [Path(value) for value in makes if value]
    end = "trained.json" if one.step.task == "leakage" else "transfer.json"
    runs = [Path(run) for run in one.options["runs"]]
    lacking = [run for run in runs if not (run / end).is_file() and not any(run.is_relative_to(out) for out in outs)]
    if not lacking:
        return
    commands = [plan_step(step, choice, Path()).line for step in card.trainings]
    told = "; ".join(f"`{line}`" for line in commands) or "the command of the earlier steps"
    what = "the trained heads" if one.step.task == "leakage" else "the fine-tuned encoder's scores"
    yield Missing(str(lacking[0]), f"{', '.join(map(str, lacking))}: {what} are not there; train them with {told}")


def _extras(step: Step) -> Iterator[str]:
    if step.task == "train.word_pairs":
        yield "align"
    else:
        yield "train" if step.task.startswith("train.") else "eval"
    yield from step.extras


def _not_installed(extra: str) -> list[str]:
    """Returns the packages of an extra that are not installed."""
    lacking = []
    for line in metadata.requires("lsar_jax") or ():
        name = re.match(r"[\w.-]+", line)
        if name and re.search(rf"extra == ['\"]{extra}['\"]", line):
            try:
                metadata.version(name[0])
            except metadata.PackageNotFoundError:
                lacking.append(name[0])
    return lacking


def _encoder(planned: Sequence[Planned], choice: Choice, download: bool) -> Iterator[Missing]:
    """Yields why the encoder cannot be loaded, or lacks a layer."""
    try:
        checkpoint = _open(choice.encoder, choice.revision, download)
    except (ValueError, OSError, ImportError) as error:
        copy = f"; name the copy with --encoder FOLDER --as {choice.encoder}" if choice.encoder in PRESETS else ""
        yield Missing(f"encoder {choice.encoder}", f"the encoder {choice.encoder} cannot be loaded: {error}{copy}")
        return
    if checkpoint is None:
        return
    blocks, longest = checkpoint.config.blocks, checkpoint.tokenizer.max_length
    for one in planned:
        command = one.command
        layers = getattr(command, "layers", None) or one.options.get("layers", ())
        if layers and not 0 <= min(layers) <= max(layers) <= blocks:
            told = f"layer {max(layers)}: {choice.encoder} has layers 0 to {blocks}; choose others with --layers"
            yield Missing(f"layer {max(layers)}", told, (one.number,))
        if (tokens := getattr(command, "max_length", None) or 0) > longest:
            told = f"{tokens} tokens: {choice.encoder} takes at most {longest}; choose fewer with --max-length"
            yield Missing(f"{tokens} tokens", told, (one.number,))


def _open(name: str, revision: str | None, download: bool) -> Checkpoint | None:
    """Opens a checkpoint without its weights; returns None for one that the Hub has and that is not downloaded."""
    if name == "bundled":
        return open_bundled()
    if is_folder(name):
        return read_folder(Path(name), id=name)
    preset = PRESETS.get(name)
    if preset and not preset.id:
        raise FileNotFoundError(f"it is not on the Hub; {preset.note}; give the folder as --encoder")
    id = preset.id if preset else name
    revision = revision or (preset.revision if preset else None)
    if not download:
        repository = Repository(id, revision, "model")
        try:
            return read_folder(repository.cached(), id=id)
        except (FileNotFoundError, ValueError):
            # The cache may hold a part of it; a download would complete it.
            if repository.info() is not None:
                return None
    return read_folder(locate(id, revision)[0], id=id)
