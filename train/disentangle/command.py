r"""Trains a meaning head and a language head on frozen embeddings of parallel text, with DREAM, MEAT or ORACLE.

    python -m train.disentangle --objective meat --oracle --layer 8 \
        --learning-rate 1e-4 --patience 30 --out results/meat-oracle
    python -m eval leakage results/meat-oracle

Embeddings are computed once and cached. To resume a killed run, repeat the same command. The pairs of each language
that are held out (``--held-out``) are excluded from training, so that ``python -m eval bitext`` and ``python -m eval
leakage`` can test on them. A share of the other pairs is used for validation, which chooses the best epoch.

The command writes ``config.json``, ``log.jsonl``, ``checkpoints/``, ``curves.png``, ``trained.json``, which says how
each seed ended, and two transforms for each seed, ``seed-0/meaning.safetensors`` and ``seed-0/language.safetensors``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import jax
import tyro

from lsar_jax import EncoderSpec, SentenceEncoder
from lsar_jax.cli.console import Seldom, console
from lsar_jax.cli.embed import EncoderChoice, embed_pairs
from lsar_jax.files import write_json
from lsar_jax.mesh import data_mesh, placed, replicated
from lsar_jax.objectives.disentangle import Head, Heads, Objective
from lsar_jax.objectives.disentangle_objective import Base
from lsar_jax.processes import is_first, wait_for_all
from lsar_jax.transforms import head_transform
from train.curves import draw_curves
from train.disentangle.steps import PairTable
from train.disentangle.training import HeadTraining, Optimizer, validation_batch
from train.loop import LoopOptions, Trained, train
from train.run_folder import claim, flat_options, locked
from train.text import TextOptions, TrainingPairs, text_hash

__all__ = ["Disentangle", "HeadsOptions", "ObjectiveOptions"]

# Options that may change when a run resumes.
_FREE = ("out", "cache", "checkpoint_seconds", "epochs")


@dataclass(frozen=True)
class ObjectiveOptions(Objective):
    """The losses, as command-line options.

    Attributes:
      base: dream, meat, or none to use ORACLE alone.
      oracle: add ORACLE's clustering and separation losses.
      separation: what ORACLE separates: with paper, meaning embeddings from language embeddings (Eq. 6); with code, the
        language embedding of an English sentence from that of its translation; with alone, both, as in the stand-alone
        objectives of its code, and a term named agreement is added, which pulls the meanings of translations together.
      clustering: pairs of sentences in a batch that ORACLE pulls together: off_diagonal for all pairs except a sentence
        with itself, all for all pairs, or same_language for pairs with the same target language.
      without: names of loss terms to omit, for ablations.
      halves: let DREAM compare the two halves of a batch, as in ORACLE's code, instead of each pair with another in
        the same language.
    """

    base: Annotated[Base, tyro.conf.arg(name="objective")] = "meat"
    oracle: bool = False

    def __post_init__(self) -> None:
        """Skips the checks of ``Objective``; ``check`` makes them, together with the checks of all other options."""

    def check(self) -> None:
        """Raises ValueError if ``Objective`` would."""
        super().__post_init__()


@dataclass(frozen=True)
class HeadsOptions:
    """Options shared by a single run and a table of runs.

    Attributes:
      text: the text to train on.
      encoder: the encoder of the embeddings.
      optimizer: the optimizer and batch size.
      loop: how long to train.
      seed: first random seed; a seed determines the initial weights, the order of batches and the sampling.
      seeds: number of seeds, trained in parallel in one program.
      cache: folder for cached embeddings.
    """

    text: tyro.conf.OmitArgPrefixes[TextOptions] = field(default_factory=TextOptions)
    encoder: tyro.conf.OmitArgPrefixes[EncoderChoice] = field(default_factory=EncoderChoice)
    optimizer: tyro.conf.OmitArgPrefixes[Optimizer] = field(default_factory=Optimizer)
    loop: tyro.conf.OmitArgPrefixes[LoopOptions] = field(default_factory=LoopOptions)
    seed: int = 0
    seeds: int = 1
    cache: Path = Path("results/embeddings")


@dataclass(frozen=True)
class Disentangle(HeadsOptions):
    """Trains a meaning head and a language head.

    Attributes:
      objective: the losses.
      layer: hidden-state layer to train on; by default, the layer that the checkpoint outputs.
      out: output folder of this run.
    """

    objective: tyro.conf.OmitArgPrefixes[ObjectiveOptions] = field(default_factory=ObjectiveOptions)
    layer: int | None = None
    out: Path = Path("results/disentangle")

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """All seeds of the run."""
        return tuple(range(self.seed, self.seed + self.seeds))

    def run(self) -> list[Trained]:
        """Encodes the text, trains the heads, and writes the heads, the log and its figure.

        Raises:
          FileNotFoundError: the data do not exist.
          ValueError: the options or data are invalid, the folder belongs to another run, or a loss is not finite.
        """
        self._check()
        run = replace(self, text=self.text.pinned())
        pairs = run.text.pairs()
        encoder = run.encoder.open(run.layer)
        mesh = data_mesh(jax.devices())
        sizes = [sum(len(two[part]) for two in pairs.values()) for part in (0, 1)]
        validation_batch(run.objective, run.optimizer.batch, sizes[0], sizes[1], mesh)
        with locked(run.out, run.encoder.encoder):
            return [run._train(encoder, pairs, mesh)]

    def _train(self, encoder: SentenceEncoder, pairs: TrainingPairs, mesh: jax.sharding.Mesh) -> Trained:
        objective = self.objective
        self._claim(encoder.spec, pairs)
        sentences = {code: a + b for code, (a, b) in pairs.items()}
        table, rows = embed_pairs(encoder, sentences, self.encoder.max_length, self.cache)
        to_train, to_validate = [], []
        for code, (english, other) in rows.items():
            count = len(pairs[code][0])
            to_train.append((english[:count], other[:count]))
            to_validate.append((english[count:], other[count:]))
        on_device = placed(table, replicated(mesh))
        training, validation = PairTable.of(on_device, to_train), PairTable.of(on_device, to_validate)
        console.print(
            f"{objective.name}: {len(training.source)} training pairs and {len(validation.source)} validation pairs "
            f"of English and {', '.join(pairs)}; loss terms: {', '.join(objective.terms)}"
        )
        heads = HeadTraining(objective, self.optimizer, self.all_seeds, training, validation, len(pairs) + 1, mesh)
        with console.status("") as status:
            trained = train(heads, self.loop, self.out, status.update if console.is_terminal else Seldom())
        fitted = {code: len(set(map(int, side))) for code, (_, side) in rows.items()}
        fitted["en"] = len({int(row) for english, _ in rows.values() for row in english})
        if is_first():
            self._write(trained, encoder.spec, fitted, objective)
        wait_for_all("trained")
        return trained

    def _check(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"--seeds is {self.seeds}; it must be at least 1")
        if not 0 <= self.seed <= 2**32 - self.seeds:
            raise ValueError(f"--seed is {self.seed}; seeds must be 0 to {2**32 - 1}")
        self.loop.check()
        self.text.check()
        if not self.optimizer.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.optimizer.learning_rate}; it must be above 0")
        self.objective.check()

    def _claim(self, spec: EncoderSpec, pairs: TrainingPairs) -> None:
        wanted = flat_options(self, _FREE)
        wanted["objective"] = wanted.pop("base")
        wanted |= {"encoder_spec": spec.to_dict(), "pairs": {code: list(map(len, two)) for code, two in pairs.items()}}
        claim(self.out, wanted | {"text": text_hash(pairs)})

    def _write(self, trained: Trained, spec: EncoderSpec, fitted: Mapping[str, int], objective: Objective) -> None:
        progress = trained.progress
        for number, seed in enumerate(self.all_seeds):
            folder = self.out / f"seed-{seed}"
            folder.mkdir(exist_ok=True)
            heads = Heads(*(Head(*(part[number] for part in head)) for head in jax.device_get(trained.best)))
            parts: tuple[tuple[Literal["meaning", "language"], Head], ...] = (
                ("meaning", heads.meaning),
                ("language", heads.language),
            )
            for part, head in parts:
                transform = head_transform(
                    head, part, objective.name, fitted, source=spec,
                    learning_rate=self.optimizer.learning_rate, batch=self.optimizer.batch, seed=seed,
                )  # fmt: skip
                transform.save(folder / f"{part}.safetensors")
        draw_curves(self.out / "log.jsonl", f"{objective.name}, {spec.id}, layer {spec.layer}", self.out)
        ends = [
            {
                "seed": seed,
                "validation": progress.best[n],
                "best_epoch": progress.best_epoch[n],
                "stopped_by": "epochs" if progress.active[n] else "patience",
            }
            for n, seed in enumerate(self.all_seeds)
        ]
        told = {"objective": objective.name, "epochs": progress.epoch, "steps": progress.taken, "seeds": ends}
        write_json(self.out / "trained.json", told)
        lines = [
            f"seed {end['seed']}: validation {end['validation']:.4f} at epoch {end['best_epoch']}, "
            f"stopped by --{end['stopped_by']}"
            for end in ends
        ]
        speed = f"; {trained.steps_per_second:.0f} steps/s including validation" if trained.steps_per_second else ""
        console.print("\n".join(lines) + f"\n{progress.taken} steps{speed}; wrote {self.out}")
