r"""Trains a head of meaning and a head of language on frozen embeddings of parallel text: DREAM, MEAT, ORACLE.

    python -m train.disentangle --objective meat --oracle --layer 8 \
        --learning-rate 1e-4 --patience 30 --out results/meat-oracle
    python -m eval leakage results/meat-oracle

Embeddings are made once and kept. A run that was killed goes on when the same command is given again. Of each
language ``--held-out`` pairs are left out of training, those that ``python -m eval bitext`` and ``leakage`` test on,
and of the others a part is kept to choose the best epoch by.

Writes ``config.json``, ``log.jsonl``, ``checkpoints/``, ``curves.png``, ``trained.json``, which says how each seed
ended, and for each seed two transforms, ``seed-0/meaning.safetensors`` and ``seed-0/language.safetensors``.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import jax
import tyro
from filelock import FileLock, Timeout

from eval.encode import open_encoder
from eval.named import Data, pinned
from eval.results import console
from eval.training_text import TrainingPairs, text_hash, training_pairs
from lsar_jax import EncoderSpec, SentenceEncoder, __version__
from lsar_jax.mesh import data_mesh, replicated
from lsar_jax.objectives.disentangle import Base, ClusterPairs, Head, Heads, Objective, Separation
from lsar_jax.transforms.heads import head_transform
from train.curves import draw_curves
from train.embeddings import embed_pairs
from train.heads import Pairs
from train.loop import Settings, Trained, check_sizes, train

__all__ = ["Disentangle", "command"]

# Left out of what must be the same to go on: where things are, and how often they are looked at.
_FREE = ("out", "cache", "checkpoint_seconds", "epochs")


@dataclass(frozen=True)
class Disentangle:
    """Trains heads of meaning and language.

    Attributes:
      data: parallel text with English: a folder of en-xx.tsv or Moses files, or one that lsar_jax.builders.prepare
        wrote; or hub:ID or tfds:NAME.
      languages: codes; by default all that there are.
      split: of data with a name, hub:ID or tfds:NAME; by default its only one or test.
      encoder: bundled, a preset, a folder, or a Hub id.
      revision: of a Hub id.
      layer: hidden-state layer; by default the checkpoint's own output.
      pooling: mean, mean_no_special, cls, max or pooler; by default the checkpoint's own.
      dtype: float32 or bfloat16, of the encoder.
      max_length: tokens at most of a sentence.
      objective: dream, meat, or none, for ORACLE alone.
      oracle: add ORACLE's clustering and separation.
      separation: ORACLE's: paper, meaning from language, Eq. 6; or code, the source's language from the target's.
      clustering: ORACLE's: off_diagonal, all pairs of a batch but of a sentence with itself; all; or same_language.
      without: terms that are left out, for ablations.
      halves: DREAM compares the halves of a batch, as ORACLE's code does, and not each pair with one of its language.
      learning_rate: of Adam.
      batch: pairs of a step.
      epochs: at most.
      patience: epochs without a lower validation loss until a seed stops.
      validation: share of the pairs that the best epoch is chosen by.
      held_out: pairs of each language that are not trained on.
      split_seed: of the choice of these pairs.
      seed: the first; of weights, order and draws.
      seeds: how many runs, side by side in one program.
      steps_per_call: steps of one program, and of one line of the log.
      checkpoint_seconds: between checkpoints.
      cache: folder of embeddings.
      out: folder of this run.
    """

    data: Data = Path("data/bitext")
    languages: tuple[str, ...] = ()
    split: str = ""
    encoder: str = "bundled"
    revision: str | None = None
    layer: int | None = None
    pooling: str | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    max_length: int = 128
    objective: Base = "meat"
    oracle: bool = False
    separation: Separation = "paper"
    clustering: ClusterPairs = "off_diagonal"
    without: tuple[str, ...] = ()
    halves: bool = False
    learning_rate: float = 1e-5
    batch: int = 512
    epochs: int = 10_000
    patience: int = 10
    validation: float = 0.05
    held_out: int = 500
    split_seed: int = 0
    seed: int = 0
    seeds: int = 1
    steps_per_call: int = 100
    checkpoint_seconds: float = 30.0
    cache: Path = Path("results/embeddings")
    out: Path = Path("results/disentangle")

    def run(self) -> list[Trained]:
        """Encodes, trains, and writes the heads, the log and its figure.

        Raises:
          FileNotFoundError: no such data.
          ValueError: options or data that are wrong, a folder of another run, or a loss that is not finite.
        """
        settings = self._settings()
        pairs = self._pairs()
        encoder = open_encoder(
            self.encoder, None if self.layer is None else (self.layer,), self.revision, self.pooling, self.dtype
        )
        mesh = data_mesh()
        sizes = [sum(len(two[part]) for two in pairs.values()) for part in (0, 1)]
        check_sizes(settings, sizes[0], sizes[1], mesh)
        self.out.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.out / "lock", timeout=0):
                return [self._train(settings, encoder, pairs, mesh)]
        except Timeout as error:
            raise ValueError(f"{self.out} is of a run that goes on right now; choose another --out") from error

    def _train(
        self, settings: Settings, encoder: SentenceEncoder, pairs: TrainingPairs, mesh: jax.sharding.Mesh
    ) -> Trained:
        objective = settings.objective
        self._claim(encoder.spec, pairs)
        table, rows = embed_pairs(encoder, {code: a + b for code, (a, b) in pairs.items()}, self.max_length, self.cache)
        to_train, to_validate = [], []
        for code, (source, target) in rows.items():
            count = len(pairs[code][0])
            to_train.append((source[:count], target[:count]))
            to_validate.append((source[count:], target[count:]))
        on_device = jax.device_put(table, replicated(mesh))
        training, validation = Pairs.of(on_device, to_train), Pairs.of(on_device, to_validate)
        console.print(
            f"{objective.name}: {len(training.source)} pairs of English and {', '.join(pairs)} to train on, "
            f"{len(validation.source)} to validate on; the terms are {', '.join(objective.terms)}"
        )
        with console.status("") as status:
            trained = train(
                settings, training, validation, len(pairs) + 1, self.out, mesh,
                status.update if console.is_terminal else _Seldom(),
            )  # fmt: skip
        fitted = {code: len(set(map(int, side))) for code, (_, side) in rows.items()}
        fitted["en"] = len({int(row) for source, _ in rows.values() for row in source})
        self._write(trained, encoder.spec, fitted, settings)
        return trained

    def _settings(self) -> Settings:
        if not 0 <= self.seed <= 2**32 - self.seeds:
            raise ValueError(f"--seed is {self.seed}; seeds are from 0 to {2**32 - 1}")
        for option in ("seeds", "epochs", "patience", "steps_per_call", "held_out"):
            if getattr(self, option) < 1:
                raise ValueError(f"--{option.replace('_', '-')} is {getattr(self, option)}; at least 1 is needed")
        if not 0 < self.validation < 1:
            raise ValueError(f"--validation is {self.validation}; it is a share between 0 and 1")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be over 0")
        objective = Objective(self.objective, self.oracle, self.separation, self.clustering, self.without, self.halves)
        return Settings(
            objective=objective,
            seeds=tuple(range(self.seed, self.seed + self.seeds)),
            learning_rate=self.learning_rate,
            batch=self.batch,
            epochs=self.epochs,
            patience=self.patience,
            steps_per_call=self.steps_per_call,
            checkpoint_seconds=self.checkpoint_seconds,
        )

    def _pairs(self) -> TrainingPairs:
        return training_pairs(self.data, self.languages, self.split, self.held_out, self.split_seed, self.validation)

    def _claim(self, spec: EncoderSpec, pairs: TrainingPairs) -> None:
        """Writes what the run is of, or checks that the folder is of the same.

        Raises:
          ValueError: it is of another run; the options that differ are named.
        """
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _FREE}
        wanted = {name: pinned(v) if isinstance(v, Path | str) else v for name, v in options.items()}
        wanted |= {"encoder_spec": spec.to_dict(), "pairs": {code: list(map(len, two)) for code, two in pairs.items()}}
        wanted["text"] = text_hash(pairs)
        wanted = json.loads(json.dumps(wanted | {"lsar_jax": __version__}))
        path = self.out / "config.json"
        if path.is_file():
            there = json.loads(path.read_text(encoding="utf-8"))
            differ = [name for name in wanted if there.get(name) != wanted[name]]
            if differ and list((self.out / "checkpoints").glob("[0-9]*")):
                told = "; ".join(f"{name} was {there.get(name)!r} and is {wanted[name]!r}" for name in differ)
                raise ValueError(f"{self.out} is the folder of another run: {told}. Choose another --out")
        elif (self.out / "checkpoints").is_dir():
            raise ValueError(f"{self.out} has checkpoints of an unknown run; choose another --out")
        if not list((self.out / "checkpoints").glob("[0-9]*")):
            # Heads that were written before are of another run: without this file they count for nothing.
            (self.out / "trained.json").unlink(missing_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)

    def _write(self, trained: Trained, spec: EncoderSpec, fitted: Mapping[str, int], settings: Settings) -> None:
        progress = trained.progress
        for number, seed in enumerate(settings.seeds):
            folder = self.out / f"seed-{seed}"
            folder.mkdir(exist_ok=True)
            heads = Heads(*(Head(*(part[number] for part in head)) for head in jax.device_get(trained.heads)))
            parts: tuple[tuple[Literal["meaning", "language"], Head], ...] = (
                ("meaning", heads.meaning),
                ("language", heads.language),
            )
            for part, head in parts:
                transform = head_transform(
                    head, part, settings.objective.name, fitted, source=spec,
                    learning_rate=settings.learning_rate, batch=settings.batch, seed=seed,
                )  # fmt: skip
                transform.save(folder / f"{part}.safetensors")
        draw_curves(self.out / "log.jsonl", f"{settings.objective.name}, {spec.id}, layer {spec.layer}", self.out)
        ends = [
            {
                "seed": seed,
                "validation": progress.best[n],
                "best_epoch": progress.best_epoch[n],
                "stopped_by": "epochs" if progress.active[n] else "patience",
            }
            for n, seed in enumerate(settings.seeds)
        ]
        told = {"objective": settings.objective.name, "epochs": progress.epoch, "steps": progress.taken, "seeds": ends}
        partial = self.out / "trained.partial"
        partial.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.out / "trained.json")
        lines = [
            f"seed {end['seed']}: validation {end['validation']:.4f} at epoch {end['best_epoch']}, "
            f"stopped by --{end['stopped_by']}"
            for end in ends
        ]
        speed = f"; {trained.steps_per_second:.0f} steps/s with validation" if trained.steps_per_second else ""
        console.print("\n".join(lines) + f"\n{progress.taken} steps{speed}; wrote {self.out}")


class _Seldom:
    """Prints a line at most every ten seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, line: str) -> None:
        if (now := time.monotonic()) >= self._next:
            console.print(line)
            self._next = now + 10


def command(kind: type[Disentangle], prog: str, description: str | None, arguments: list[str] | None) -> int:
    """Runs what the arguments say; what the user got wrong is one line, not a traceback."""
    task = tyro.cli(kind, prog=prog, description=description, args=arguments)
    try:
        task.run()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Trains one objective."""
    return command(Disentangle, "python -m train.disentangle", __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
