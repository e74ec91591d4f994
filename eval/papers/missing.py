"""Everything that a card lacks, listed at once before a run: data, text to fit on, packages, heads, the encoder."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from eval.data.fit_text import fit_text
from eval.fit_options import FitOptions
from eval.papers.card import Card, CardStep
from eval.papers.plan import CardOptions, Planned, plan_step, train_module
from eval.papers.sources import LANGUAGES, SOURCES
from lsar_jax.checkpoints.locate import is_folder, preset_of
from lsar_jax.checkpoints.presets import PRESETS
from lsar_jax.corpora.by_language import chosen, folder_at
from lsar_jax.encoders.load import open_checkpoint
from lsar_jax.hub import Repository
from lsar_jax.languages import language_code

__all__ = ["Missing", "missing"]


class Missing(NamedTuple):
    """Something that is not here."""

    name: str  # or its path
    text: str  # the whole sentence: what is missing, where to get it and where to put it
    steps: tuple[int, ...] = ()  # numbers of the commands that need it; empty for the encoder


def missing(
    card: Card, planned: Sequence[Planned], choice: CardOptions, *, download: bool | None = None
) -> list[Missing]:
    """Lists everything that the commands need and that is not here.

    The encoder is downloaded now with ``download``; without, the Hub is asked whether it has it; None skips it.
    """
    lacks: dict[str, Missing] = {}
    for entry in planned:
        if entry.step.makes and Path(entry.step.makes).exists():
            continue
        earlier = [other.step for other in planned if other.number < entry.number]
        for lack in _of_step(card, entry, earlier, choice):
            steps = lacks.get(lack.text, lack).steps
            lacks[lack.text] = lack._replace(steps=tuple(dict.fromkeys((*steps, entry.number))))
    return [*(() if download is None else _encoder(choice.encoder, download)), *lacks.values()]


def _of_step(card: Card, entry: Planned, earlier: Sequence[CardStep], choice: CardOptions) -> Iterator[Missing]:
    step = entry.step
    if entry.command is None:
        try:
            train_module(step.task)
        except ImportError as error:
            extra = "align" if step.task == "train.word_pairs" else "train"
            yield Missing(f"extra {extra}", f"{error}: pip install -e '.[{extra}]'")
    elsewhere = {str(getattr(entry.command, "fit_on", "")), *(other.makes for other in earlier)}
    for key in step.data:
        # The text to fit on is looked for below.
        if SOURCES[key].path and SOURCES[key].path not in elsewhere:
            yield from _source(key)
    if step.task in ("leakage", "transfer"):
        yield from _trained(card, entry, earlier, choice)
    if isinstance(entry.command, FitOptions) and set(entry.command.transforms) != {"original"}:
        yield from _fit_text(str(entry.command.fit_on), step)


def _source(key: str) -> Iterator[Missing]:
    source = SOURCES[key]
    put = f"put there {source.where}{f', at commit {source.revision}' if source.revision else ''}"
    try:
        folder = folder_at(source.path, "make it")
        if absent := [pattern for pattern in source.files if not any(folder.glob(pattern))]:
            yield Missing(source.path, f"{folder} has no {', '.join(absent)}: {put}")
        elif source.languages:
            there = {language_code(code): code for code in LANGUAGES[key](folder)}
            chosen(there, source.languages, folder, "files for {}")
    except (FileNotFoundError, ValueError) as error:
        yield Missing(source.path, f"{error}: {put}")


def _fit_text(place: str, step: CardStep) -> Iterator[Missing]:
    """Yields what the text to fit on lacks: itself, or languages of the data, or English."""
    if place in ("udhr", "evaluated") or place.startswith("hub:"):
        return
    get = next((source.where for source in SOURCES.values() if source.path == place), "`xx.txt`, a sentence a line")
    get = SOURCES["wiki40b"].where if place.startswith("tfds:") else get
    languages = [code for key in step.data for code in SOURCES[key].languages]
    try:
        chosen(dict.fromkeys(fit_text(place).languages()), [*languages, "en"] if languages else None, place)
    except (FileNotFoundError, ValueError) as error:
        text = f"the text to fit on: {error}: put there {get}, or name other text with --fit-on, such as udhr, with "
        yield Missing(place, f"{text}which fitted methods have no published number")


def _trained(card: Card, entry: Planned, earlier: Sequence[CardStep], choice: CardOptions) -> Iterator[Missing]:
    """Yields the trained heads, or the scores of a fine-tuned encoder, that no earlier command makes."""
    outs = [Path(out) for step in earlier if (out := plan_step(step, choice, Path()).options.get("out"))]
    name, file = "the trained heads", "trained.json"
    if entry.step.task == "transfer":
        name, file = "the fine-tuned encoder's scores", "transfer.json"
    runs = [Path(run) for run in entry.options["runs"]]
    lacking = [run for run in runs if not (run / file).is_file() and not any(run.is_relative_to(out) for out in outs)]
    if lacking:
        commands = "; ".join(f"`{plan_step(step, choice, Path()).line}`" for step in card.trained_by)
        commands = commands or "the command of the earlier steps"
        paths = ", ".join(map(str, lacking))
        yield Missing(str(lacking[0]), f"{paths}: {name} are not there; train them with {commands}")


def _encoder(name: str, download: bool) -> Iterator[Missing]:
    """Yields why the encoder cannot be loaded."""
    try:
        preset = None if name == "bundled" else preset_of(name)
        id, revision = (preset.id, preset.revision) if preset else (name, None)
        if name == "bundled" or download or is_folder(id):
            open_checkpoint(name, None)
        elif (repository := Repository(id, revision, "model")).info() is None:
            repository.cached()
    except (ValueError, OSError, ImportError) as error:
        copy = f"; name the copy with --encoder FOLDER --as {name}" if name in PRESETS else ""
        yield Missing(f"encoder {name}", f"the encoder {name} cannot be loaded: {error}{copy}")
